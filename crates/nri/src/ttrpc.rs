//! ttrpc calls with one request and one response, in both directions.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prost::Message as _;
use thiserror::Error;

use crate::frame::ConnectionId;
use crate::message::{Message, MessageError, MessageKind, REMOTE_OPEN};
use crate::mux::{Trunk, TrunkError};

/// Maximum number of unanswered calls per side.
pub const MAX_CALLS: usize = 64;

/// A call of a method.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Request {
    /// The full name of the service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// The name of the method.
    #[prost(string, tag = "2")]
    pub method: String,
    /// The method's request.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
    /// The caller's timeout in nanoseconds; 0 for none.
    #[prost(int64, tag = "4")]
    pub timeout_nano: i64,
    /// Metadata of the call.
    #[prost(message, repeated, tag = "5")]
    pub metadata: Vec<Metadata>,
}

/// A key and a value of a call's metadata.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metadata {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// The answer to a call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Response {
    /// The status; none if the call succeeded.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// The method's response.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// The gRPC status of a call.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Status {
    /// The gRPC code.
    #[prost(enumeration = "Code", tag = "1")]
    pub code: i32,
    /// The error message.
    #[prost(string, tag = "2")]
    pub message: String,
}

impl Status {
    /// A status with this code and message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Status {
            code: code.into(),
            message: message.into(),
        }
    }
}

/// gRPC status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The caller cancelled the call.
    Cancelled = 1,
    /// Any other error; most errors of runtimes.
    Unknown = 2,
    /// The request is invalid.
    InvalidArgument = 3,
    /// The deadline passed.
    DeadlineExceeded = 4,
    /// The object does not exist.
    NotFound = 5,
    /// The object exists already.
    AlreadyExists = 6,
    /// The caller lacks permission.
    PermissionDenied = 7,
    /// A quota or limit is exhausted.
    ResourceExhausted = 8,
    /// The system is not in the required state.
    FailedPrecondition = 9,
    /// The operation was aborted because of a concurrent one.
    Aborted = 10,
    /// A value is out of range.
    OutOfRange = 11,
    /// The method is not implemented.
    Unimplemented = 12,
    /// Internal error.
    Internal = 13,
    /// The service is unavailable; the caller may retry.
    Unavailable = 14,
    /// Data was lost.
    DataLoss = 15,
    /// The caller is not authenticated.
    Unauthenticated = 16,
}

/// Violations of the ttrpc protocol by the peer. The trunk is closed after one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// The message is not a request on the plugin's connection, or not a response on the runtime's.
    #[error("message {stream} on connection {} has the unexpected type {kind:?}", .connection.0)]
    WrongKind {
        /// The connection.
        connection: ConnectionId,
        /// The call number.
        stream: u32,
        /// The message type.
        kind: MessageKind,
    },
    /// The call number is even.
    #[error("call number {stream} is not odd")]
    EvenStream {
        /// The call number.
        stream: u32,
    },
    /// The call number is not greater than the last one.
    #[error("call number {stream} follows {last}")]
    StreamUsed {
        /// The call number.
        stream: u32,
        /// The last call number.
        last: u32,
    },
    /// The data is not a request or response.
    #[error("message {stream} on connection {} cannot be read: {problem}", .connection.0)]
    Undecodable {
        /// The connection.
        connection: ConnectionId,
        /// The call number.
        stream: u32,
        /// The decoding error.
        problem: prost::DecodeError,
    },
}

/// A call of the runtime that has not been answered.
#[derive(Debug)]
pub(crate) struct IncomingCall {
    pub(crate) stream: u32,
    pub(crate) service: String,
    pub(crate) method: String,
    pub(crate) payload: Vec<u8>,
    /// The runtime's deadline.
    pub(crate) deadline: Option<Instant>,
    /// Whether the call is streaming, which no NRI method supports.
    pub(crate) streaming: bool,
}

/// Decodes the runtime's calls and checks their numbers.
#[derive(Debug, Default)]
pub(crate) struct CallReader {
    last: u32,
}

impl CallReader {
    pub(crate) fn read(
        &mut self,
        message: &Message,
        received: Instant,
    ) -> Result<IncomingCall, ProtocolError> {
        let stream = message.stream;
        let connection = ConnectionId::PLUGIN;
        let (last, kind) = (self.last, message.kind);
        if kind != MessageKind::Request {
            return Err(ProtocolError::WrongKind {
                connection,
                stream,
                kind,
            });
        }
        if stream.is_multiple_of(2) {
            return Err(ProtocolError::EvenStream { stream });
        }
        if stream <= last {
            return Err(ProtocolError::StreamUsed { stream, last });
        }
        self.last = stream;
        let request =
            Request::decode(message.data()).map_err(|problem| ProtocolError::Undecodable {
                connection,
                stream,
                problem,
            })?;
        let timeout = u64::try_from(request.timeout_nano).unwrap_or(0);
        let deadline = match timeout {
            0 => None,
            nanoseconds => received.checked_add(Duration::from_nanos(nanoseconds)),
        };
        Ok(IncomingCall {
            stream,
            service: request.service,
            method: request.method,
            payload: request.payload,
            deadline,
            streaming: message.flags & REMOTE_OPEN != 0,
        })
    }
}

/// Sends the response to a call of the runtime. A response that is too large becomes an error status.
pub(crate) fn respond(
    trunk: &Trunk,
    stream: u32,
    outcome: Result<Vec<u8>, Status>,
) -> Result<(), TrunkError> {
    let encode = |outcome: Result<Vec<u8>, Status>| {
        let response = match outcome {
            Ok(payload) => Response {
                status: None,
                payload,
            },
            Err(status) => Response {
                status: Some(status),
                payload: Vec::new(),
            },
        };
        Message::new(stream, MessageKind::Response, response.encode_to_vec())
    };
    let message = encode(outcome).or_else(|problem| {
        let status = Status::new(Code::ResourceExhausted, problem.to_string());
        encode(Err(status))
    });
    match message {
        Ok(message) => trunk.send(ConnectionId::PLUGIN, &message),
        Err(problem) => Err(TrunkError::Message {
            connection: ConnectionId::PLUGIN,
            problem,
        }),
    }
}

/// Why a call to the runtime failed.
#[derive(Debug, Error)]
pub enum CallError {
    /// There is no session, or it ended before the response.
    #[error("not connected to a runtime")]
    NotConnected,
    /// The call was made in a method of the plugin, where it would deadlock.
    #[error("a plugin cannot call the runtime while it handles an event; return updates instead")]
    InsideAnEvent,
    /// [`MAX_CALLS`] calls are unanswered.
    #[error("{MAX_CALLS} calls are unanswered")]
    TooManyCalls,
    /// The request is too large.
    #[error(transparent)]
    Request(#[from] MessageError),
    /// The request could not be sent.
    #[error(transparent)]
    Send(#[from] TrunkError),
    /// The timeout expired.
    #[error("the runtime did not answer {method} within {timeout:?}")]
    TimedOut {
        /// The method.
        method: &'static str,
        /// The timeout.
        timeout: Duration,
    },
    /// The runtime returned an error.
    #[error("the runtime rejected {method}: {} ({:?})", .status.message, .status.code())]
    Rejected {
        /// The method.
        method: &'static str,
        /// The runtime's status.
        status: Status,
    },
    /// The response cannot be decoded.
    #[error("the runtime's answer to {method} cannot be read: {problem}")]
    Answer {
        /// The method.
        method: &'static str,
        /// The decoding error.
        problem: prost::DecodeError,
    },
}

type CallResult = Result<Vec<u8>, Status>;

/// Calls without a response yet.
#[derive(Debug, Default)]
struct PendingCalls {
    closed: bool,
    calls: BTreeMap<u32, SyncSender<CallResult>>,
}

/// The plugin's calls to the runtime.
#[derive(Debug)]
pub(crate) struct RuntimeCalls {
    /// The next call number. Locked while the request is sent, because runtimes require increasing numbers.
    next: Mutex<u32>,
    waiting: Mutex<PendingCalls>,
}

impl RuntimeCalls {
    pub(crate) fn new() -> Self {
        RuntimeCalls {
            next: Mutex::new(1),
            waiting: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, PendingCalls> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a method of the runtime and waits for the response.
    pub(crate) fn call<A: prost::Message + Default>(
        &self,
        trunk: &Trunk,
        (service, method): (&str, &'static str),
        request: &impl prost::Message,
        timeout: Duration,
    ) -> Result<A, CallError> {
        let request = Request {
            service: service.to_owned(),
            method: method.to_owned(),
            payload: request.encode_to_vec(),
            timeout_nano: i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX),
            metadata: Vec::new(),
        };
        let (sender, receiver) = sync_channel(1);
        let stream = self.send(trunk, &request, sender)?;
        let answer = receiver.recv_timeout(timeout);
        self.waiting().calls.remove(&stream);
        match answer {
            Ok(Ok(payload)) => {
                A::decode(&*payload).map_err(|problem| CallError::Answer { method, problem })
            }
            Ok(Err(status)) => Err(CallError::Rejected { method, status }),
            Err(RecvTimeoutError::Timeout) => Err(CallError::TimedOut { method, timeout }),
            Err(RecvTimeoutError::Disconnected) => Err(CallError::NotConnected),
        }
    }

    fn send(
        &self,
        trunk: &Trunk,
        request: &Request,
        sender: SyncSender<CallResult>,
    ) -> Result<u32, CallError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = *next;
        // The call numbers of a trunk are exhausted after two thousand million calls.
        let following = stream.checked_add(2).ok_or(CallError::NotConnected)?;
        let message = Message::new(stream, MessageKind::Request, request.encode_to_vec())?;
        {
            let mut waiting = self.waiting();
            if waiting.closed {
                return Err(CallError::NotConnected);
            }
            if waiting.calls.len() >= MAX_CALLS {
                return Err(CallError::TooManyCalls);
            }
            waiting.calls.insert(stream, sender);
        }
        *next = following;
        trunk
            .send(ConnectionId::RUNTIME, &message)
            .inspect_err(|_| {
                self.waiting().calls.remove(&stream);
            })?;
        Ok(stream)
    }

    /// Passes a response to its caller. A response after the caller's timeout is dropped.
    pub(crate) fn complete(&self, message: &Message) -> Result<(), ProtocolError> {
        let connection = ConnectionId::RUNTIME;
        let (stream, kind) = (message.stream, message.kind);
        if kind != MessageKind::Response {
            return Err(ProtocolError::WrongKind {
                connection,
                stream,
                kind,
            });
        }
        let response =
            Response::decode(message.data()).map_err(|problem| ProtocolError::Undecodable {
                connection,
                stream,
                problem,
            })?;
        let answer = match response.status {
            Some(status) if status.code != i32::from(Code::Ok) => Err(status),
            _ => Ok(response.payload),
        };
        if let Some(sender) = self.waiting().calls.remove(&stream) {
            // Fails if the caller's timeout has just expired.
            let _ = sender.try_send(answer);
        }
        Ok(())
    }

    /// Fails all unanswered calls, and all later ones.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        waiting.calls.clear();
    }
}
