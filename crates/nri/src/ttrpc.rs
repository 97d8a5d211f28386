//! Calls with one request and one response, in both directions.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prost::Message as _;
use thiserror::Error;

use crate::frame::ConnectionId;
use crate::message::{Kind, Message, MessageError, REMOTE_OPEN};
use crate::mux::{Trunk, TrunkError};

/// How many calls one side may have open at a time.
pub const MAX_CALLS: usize = 64;

/// A call.
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
    /// How long the caller waits, in nanoseconds; 0 if it does not say.
    #[prost(int64, tag = "4")]
    pub timeout_nano: i64,
    /// What the caller adds.
    #[prost(message, repeated, tag = "5")]
    pub metadata: Vec<Metadata>,
}

/// A name and a value that a caller adds to a call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metadata {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// The answer to a call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Response {
    /// How it went; nothing if it went well.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// The method's answer.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// How a call went, in the terms of gRPC.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Status {
    /// The code.
    #[prost(enumeration = "Code", tag = "1")]
    pub code: i32,
    /// Why, for people.
    #[prost(string, tag = "2")]
    pub message: String,
}

impl Status {
    /// A failure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Status {
            code: code.into(),
            message: message.into(),
        }
    }
}

/// The codes of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Code {
    /// It went well.
    Ok = 0,
    /// The caller gave up.
    Cancelled = 1,
    /// Something without a code of its own; what most errors of a runtime are.
    Unknown = 2,
    /// The request makes no sense.
    InvalidArgument = 3,
    /// It took too long.
    DeadlineExceeded = 4,
    /// There is no such thing.
    NotFound = 5,
    /// There is such a thing already.
    AlreadyExists = 6,
    /// The caller may not.
    PermissionDenied = 7,
    /// Too much of something.
    ResourceExhausted = 8,
    /// Not now.
    FailedPrecondition = 9,
    /// Somebody else was faster.
    Aborted = 10,
    /// Beyond what there is.
    OutOfRange = 11,
    /// There is no such method.
    Unimplemented = 12,
    /// A defect.
    Internal = 13,
    /// Not now, perhaps later.
    Unavailable = 14,
    /// Something was lost.
    DataLoss = 15,
    /// Nobody knows who the caller is.
    Unauthenticated = 16,
}

/// Why a peer's messages are no calls. The trunk is closed over it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// Only a request is expected where the runtime calls, only a response where the plugin does.
    #[error("message {stream} on connection {} is of kind {kind:?}", .connection.0)]
    WrongKind {
        /// The connection.
        connection: ConnectionId,
        /// The number of the call.
        stream: u32,
        /// The kind.
        kind: Kind,
    },
    /// Calls have odd numbers.
    #[error("call number {stream} is not odd")]
    EvenStream {
        /// The number of the call.
        stream: u32,
    },
    /// The numbers of calls grow.
    #[error("call number {stream} follows {last}")]
    StreamUsed {
        /// The number of the call.
        stream: u32,
        /// The number of the call before.
        last: u32,
    },
    /// The data is no request or no response.
    #[error("message {stream} on connection {} cannot be read: {problem}", .connection.0)]
    Undecodable {
        /// The connection.
        connection: ConnectionId,
        /// The number of the call.
        stream: u32,
        /// What is wrong.
        problem: prost::DecodeError,
    },
}

/// A call that the runtime waits for an answer to.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) stream: u32,
    pub(crate) service: String,
    pub(crate) method: String,
    pub(crate) payload: Vec<u8>,
    /// When the runtime stops waiting.
    pub(crate) deadline: Option<Instant>,
    /// Whether the caller wants to send more than one request, which no method takes.
    pub(crate) streaming: bool,
}

/// Reads the runtime's calls and checks their order.
#[derive(Debug, Default)]
pub(crate) struct Incomings {
    last: u32,
}

impl Incomings {
    pub(crate) fn read(
        &mut self,
        message: &Message,
        received: Instant,
    ) -> Result<Incoming, ProtocolError> {
        let stream = message.stream;
        let connection = ConnectionId::PLUGIN;
        let (last, kind) = (self.last, message.kind);
        if kind != Kind::Request {
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
        Ok(Incoming {
            stream,
            service: request.service,
            method: request.method,
            payload: request.payload,
            deadline,
            streaming: message.flags & REMOTE_OPEN != 0,
        })
    }
}

/// Answers a call of the runtime. An answer that is too long becomes a failure that says so.
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
        Message::new(stream, Kind::Response, response.encode_to_vec())
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
    /// There is no session, or it ended before the answer.
    #[error("not connected to a runtime")]
    NotConnected,
    /// The runtime waits for the plugin's answer and would not answer itself.
    #[error("a plugin cannot call the runtime while it handles an event; return updates instead")]
    InsideAnEvent,
    /// Too many calls wait for answers already.
    #[error("{MAX_CALLS} calls wait for an answer already")]
    TooManyCalls,
    /// The request is too long.
    #[error(transparent)]
    Request(#[from] MessageError),
    /// The request could not be sent.
    #[error(transparent)]
    Send(#[from] TrunkError),
    /// No answer in time.
    #[error("the runtime did not answer {method} within {timeout:?}")]
    TimedOut {
        /// The method.
        method: &'static str,
        /// How long it had.
        timeout: Duration,
    },
    /// The runtime says no.
    #[error("the runtime rejected {method}: {} ({:?})", .status.message, .status.code())]
    Rejected {
        /// The method.
        method: &'static str,
        /// What it says.
        status: Status,
    },
    /// The answer cannot be read.
    #[error("the runtime's answer to {method} cannot be read: {problem}")]
    Answer {
        /// The method.
        method: &'static str,
        /// What is wrong.
        problem: prost::DecodeError,
    },
}

type Answer = Result<Vec<u8>, Status>;

/// Who waits for which answer.
#[derive(Debug, Default)]
struct Waiting {
    closed: bool,
    calls: BTreeMap<u32, SyncSender<Answer>>,
}

/// The plugin's calls to the runtime.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The number of the next call. Held while its request is sent: runtimes insist on the order.
    next: Mutex<u32>,
    waiting: Mutex<Waiting>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Calls {
            next: Mutex::new(1),
            waiting: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a method of the runtime and waits for the answer.
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
        sender: SyncSender<Answer>,
    ) -> Result<u32, CallError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = *next;
        // After two thousand million calls the trunk is due for a new one.
        let following = stream.checked_add(2).ok_or(CallError::NotConnected)?;
        let message = Message::new(stream, Kind::Request, request.encode_to_vec())?;
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

    /// Hands an answer to whoever waits for it. Nobody may: it gave up.
    pub(crate) fn complete(&self, message: &Message) -> Result<(), ProtocolError> {
        let connection = ConnectionId::RUNTIME;
        let (stream, kind) = (message.stream, message.kind);
        if kind != Kind::Response {
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
            // The caller may have given up this very moment.
            let _ = sender.try_send(answer);
        }
        Ok(())
    }

    /// Tells everybody who waits that no answer will come.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        waiting.calls.clear();
    }
}
