//! One session with a runtime, from registration until the trunk is closed.
//!
//! ```text
//! plugin ── RegisterPlugin ──► runtime
//!        ◄──── Configure ─────          the plugin answers with the events it subscribes to
//!        ◄─── Synchronize ────          all pods and containers, in one or several messages
//!        ◄────── events ──────          until one side closes the trunk
//! ```
//!
//! A session has two threads: one reads the trunk; the caller of [`run`] calls the plugin.

use std::io;
use std::sync::mpsc::{
    Receiver as Queue, RecvTimeoutError, SyncSender, TrySendError, sync_channel,
};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::api::{Empty, RegisterPluginRequest};
use crate::dispatch::{Dispatcher, SessionPhase};
use crate::frame::ConnectionId;
use crate::identity::Identity;
use crate::mux::{Trunk, TrunkError};
use crate::plugin::{Plugin, RuntimeInfo};
use crate::ttrpc::{
    CallError, CallReader, Code, IncomingCall, MAX_CALLS, ProtocolError, RuntimeCalls, Status,
    respond,
};

/// Name of the runtime's service.
pub(crate) const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";

/// The NRI version that this crate implements.
const NRI_VERSION: &str = "v0.12.0";

/// Why a session failed.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The runtime's socket cannot be connected to.
    #[error("cannot connect to {}: {problem}", .path.display())]
    Connect {
        /// The runtime's socket.
        path: std::path::PathBuf,
        /// The error of the operating system.
        problem: io::Error,
    },
    /// The socket or the thread that reads it could not be set up.
    #[error("cannot set up a session: {0}")]
    SetUp(#[source] io::Error),
    /// The runtime rejected the registration.
    #[error("cannot register: {0}")]
    Register(#[source] CallError),
    /// The runtime accepted the registration, but sent no `Configure` request in time.
    #[error("the runtime did not configure the plugin within {0:?}")]
    NotConfigured(Duration),
    /// `Configure` or `Synchronize` failed in the plugin or in this crate.
    #[error("{method} failed: {}", .status.message)]
    Rejected {
        /// `Configure` or `Synchronize`.
        method: String,
        /// The status that was sent to the runtime.
        status: Status,
    },
    /// The trunk failed.
    #[error(transparent)]
    Trunk(#[from] TrunkError),
    /// The runtime violated the ttrpc protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// State that the threads of a session and callers of the runtime share.
#[derive(Debug)]
pub(crate) struct SessionLink {
    pub(crate) trunk: Trunk,
    pub(crate) calls: RuntimeCalls,
    plugin_thread: ThreadId,
}

impl SessionLink {
    /// A link for a session that the current thread will run.
    pub(crate) fn new(trunk: Trunk) -> Self {
        SessionLink {
            trunk,
            calls: RuntimeCalls::new(),
            plugin_thread: thread::current().id(),
        }
    }

    /// Whether the current thread is the one that calls the plugin's methods.
    pub(crate) fn is_plugin_thread(&self) -> bool {
        thread::current().id() == self.plugin_thread
    }

    pub(crate) fn close(&self) {
        self.trunk.close();
        self.calls.close();
    }
}

/// Closes the link when dropped, so that no thread waits for a session that has ended.
struct Closing<'a>(&'a SessionLink);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Runs a session until its trunk is closed. Calls `connected` when the session is established.
pub(crate) fn run(
    link: &SessionLink,
    identity: &Identity,
    registration_timeout: Duration,
    plugin: &mut impl Plugin,
    connected: impl FnOnce(&RuntimeInfo),
) -> Result<(), SessionError> {
    thread::scope(|scope| {
        let closing = Closing(link);
        let (requests, queue) = sync_channel(MAX_CALLS);
        let reader = thread::Builder::new()
            .name("nri-trunk".to_owned())
            .spawn_scoped(scope, move || {
                let _closing = Closing(link);
                read(link, &requests)
            })
            .map_err(SessionError::SetUp)?;
        let served = register(link, identity, registration_timeout)
            .and_then(|()| serve(link, &queue, registration_timeout, plugin, connected));
        drop((closing, queue));
        let read = match reader.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        match served {
            // The reader has the cause.
            Ok(()) | Err(SessionError::Register(CallError::NotConnected)) => read.and(served),
            Err(problem) => Err(problem),
        }
    })
}

/// Reads the trunk: passes responses to the waiting callers, and requests to the queue.
fn read(link: &SessionLink, requests: &SyncSender<IncomingCall>) -> Result<(), SessionError> {
    let mut receiver = link.trunk.receiver();
    let mut incomings = CallReader::default();
    while let Some((connection, message)) = receiver.receive()? {
        if connection == ConnectionId::RUNTIME {
            link.calls.complete(&message)?;
            continue;
        }
        let incoming = incomings.read(&message, Instant::now())?;
        match requests.try_send(incoming) {
            Ok(()) => {}
            Err(TrySendError::Disconnected(_)) => return Ok(()),
            Err(TrySendError::Full(incoming)) => {
                let problem = format!("{MAX_CALLS} requests are queued already");
                let status = Status::new(Code::ResourceExhausted, problem);
                respond(&link.trunk, incoming.stream, Err(status))?;
            }
        }
    }
    Ok(())
}

fn register(
    link: &SessionLink,
    identity: &Identity,
    timeout: Duration,
) -> Result<(), SessionError> {
    let request = RegisterPluginRequest {
        plugin_name: identity.name().to_owned(),
        plugin_idx: identity.index(),
        nri_version: NRI_VERSION.to_owned(),
    };
    let method = (RUNTIME_SERVICE, "RegisterPlugin");
    let answer = link.calls.call(&link.trunk, method, &request, timeout);
    answer.map(|Empty {}| ()).map_err(SessionError::Register)
}

/// Answers requests until the queue is closed.
fn serve(
    link: &SessionLink,
    queue: &Queue<IncomingCall>,
    configuration_timeout: Duration,
    plugin: &mut impl Plugin,
    connected: impl FnOnce(&RuntimeInfo),
) -> Result<(), SessionError> {
    let mut connected = Some(connected);
    let mut dispatcher = Dispatcher::new(plugin);
    loop {
        let incoming = match dispatcher.phase() {
            SessionPhase::Registered => queue.recv_timeout(configuration_timeout),
            _ => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let incoming = match incoming {
            Ok(incoming) => incoming,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                return Err(SessionError::NotConfigured(configuration_timeout));
            }
        };
        let outcome = answer(&mut dispatcher, &incoming);
        let problem = outcome.as_ref().err().cloned();
        respond(&link.trunk, incoming.stream, outcome)?;
        match problem {
            Some(status) if dispatcher.phase() != SessionPhase::Synchronized => {
                let method = incoming.method;
                return Err(SessionError::Rejected { method, status });
            }
            _ => {}
        }
        if dispatcher.phase() == SessionPhase::Synchronized
            && let Some(runtime) = dispatcher.runtime()
            && let Some(connected) = connected.take()
        {
            connected(runtime);
        }
    }
}

fn answer(
    dispatcher: &mut Dispatcher<'_, impl Plugin>,
    incoming: &IncomingCall,
) -> Result<Vec<u8>, Status> {
    let method = &incoming.method;
    if incoming.streaming {
        let problem = format!("{method} takes one request");
        return Err(Status::new(Code::Unimplemented, problem));
    }
    // The runtime has given up on the request and on this plugin. The next session's Synchronize has
    // the result.
    if incoming.deadline.is_some_and(|end| end <= Instant::now()) {
        let problem = format!("{method} exceeded its deadline before it was handled");
        return Err(Status::new(Code::DeadlineExceeded, problem));
    }
    dispatcher.handle(&incoming.service, method, &incoming.payload)
}
