//! One session with a runtime, from registration to the end of the trunk.
//!
//! ```text
//! plugin ── RegisterPlugin ──► runtime
//!        ◄──── Configure ─────          which events?
//!        ◄─── Synchronize ────          everything there is, in one part or several
//!        ◄────── events ──────          until somebody hangs up
//! ```
//!
//! Two threads: one reads the trunk, the other, which [`run`] was called on, calls the plugin.

use std::io;
use std::sync::mpsc::{
    Receiver as Queue, RecvTimeoutError, SyncSender, TrySendError, sync_channel,
};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::api::{Empty, RegisterPluginRequest};
use crate::dispatch::{Dispatcher, Phase};
use crate::frame::ConnectionId;
use crate::identity::Identity;
use crate::mux::{Trunk, TrunkError};
use crate::plugin::{Plugin, RuntimeInfo};
use crate::ttrpc::{
    CallError, Calls, Code, Incoming, Incomings, MAX_CALLS, ProtocolError, Status, respond,
};

/// The service that a runtime offers.
pub(crate) const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";

/// The release of NRI whose messages this crate knows.
const NRI_VERSION: &str = "v0.12.0";

/// Why a session failed.
#[derive(Debug, Error)]
pub enum SessionError {
    /// There is nothing to connect to.
    #[error("cannot connect to {}: {problem}", .path.display())]
    Connect {
        /// The runtime's socket.
        path: std::path::PathBuf,
        /// What is wrong.
        problem: io::Error,
    },
    /// The socket or the thread that reads it could not be set up.
    #[error("cannot set up a session: {0}")]
    SetUp(#[source] io::Error),
    /// The runtime did not take the plugin.
    #[error("cannot register: {0}")]
    Register(#[source] CallError),
    /// The runtime took the plugin and then said nothing.
    #[error("the runtime did not configure the plugin within {0:?}")]
    NotConfigured(Duration),
    /// The plugin, or this crate for it, said no at the beginning of the session.
    #[error("{method} failed: {}", .status.message)]
    Rejected {
        /// `Configure` or `Synchronize`.
        method: String,
        /// What the runtime was told.
        status: Status,
    },
    /// The trunk broke.
    #[error(transparent)]
    Trunk(#[from] TrunkError),
    /// The runtime broke the rules of calls.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// What a session's threads share, and with them whoever wants to call the runtime.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) trunk: Trunk,
    pub(crate) calls: Calls,
    plugin_thread: ThreadId,
}

impl Link {
    /// For a session that will run on this very thread.
    pub(crate) fn new(trunk: Trunk) -> Self {
        Link {
            trunk,
            calls: Calls::new(),
            plugin_thread: thread::current().id(),
        }
    }

    /// Whether this is the thread that the plugin's methods are called on.
    pub(crate) fn is_plugin_thread(&self) -> bool {
        thread::current().id() == self.plugin_thread
    }

    pub(crate) fn close(&self) {
        self.trunk.close();
        self.calls.close();
    }
}

/// Closes a session's link however the session ends, so that no thread waits for it forever.
struct Closing<'a>(&'a Link);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Runs a session until its trunk ends. `connected` is told when events begin to arrive.
pub(crate) fn run(
    link: &Link,
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
            // That is a consequence; the reader knows why.
            Ok(()) | Err(SessionError::Register(CallError::NotConnected)) => read.and(served),
            Err(problem) => Err(problem),
        }
    })
}

/// Reads the trunk: answers go to who waits for them, requests into the queue.
fn read(link: &Link, requests: &SyncSender<Incoming>) -> Result<(), SessionError> {
    let mut receiver = link.trunk.receiver();
    let mut incomings = Incomings::default();
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
                let problem = format!("{MAX_CALLS} requests wait already");
                let status = Status::new(Code::ResourceExhausted, problem);
                respond(&link.trunk, incoming.stream, Err(status))?;
            }
        }
    }
    Ok(())
}

fn register(link: &Link, identity: &Identity, timeout: Duration) -> Result<(), SessionError> {
    let request = RegisterPluginRequest {
        plugin_name: identity.name().to_owned(),
        plugin_idx: identity.index(),
        nri_version: NRI_VERSION.to_owned(),
    };
    let method = (RUNTIME_SERVICE, "RegisterPlugin");
    let answer = link.calls.call(&link.trunk, method, &request, timeout);
    answer.map(|Empty {}| ()).map_err(SessionError::Register)
}

/// Answers requests until there are no more.
fn serve(
    link: &Link,
    queue: &Queue<Incoming>,
    configuration_timeout: Duration,
    plugin: &mut impl Plugin,
    connected: impl FnOnce(&RuntimeInfo),
) -> Result<(), SessionError> {
    let mut connected = Some(connected);
    let mut dispatcher = Dispatcher::new(plugin);
    loop {
        let incoming = match dispatcher.phase() {
            Phase::Registered => queue.recv_timeout(configuration_timeout),
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
            Some(status) if dispatcher.phase() != Phase::Synchronized => {
                let method = incoming.method;
                return Err(SessionError::Rejected { method, status });
            }
            _ => {}
        }
        if dispatcher.phase() == Phase::Synchronized
            && let Some(runtime) = dispatcher.runtime()
            && let Some(connected) = connected.take()
        {
            connected(runtime);
        }
    }
}

fn answer(
    dispatcher: &mut Dispatcher<'_, impl Plugin>,
    incoming: &Incoming,
) -> Result<Vec<u8>, Status> {
    let method = &incoming.method;
    if incoming.streaming {
        let problem = format!("{method} takes one request");
        return Err(Status::new(Code::Unimplemented, problem));
    }
    // The runtime has given up on it, and on this plugin. The next session's Synchronize will tell
    // what became of it.
    if incoming.deadline.is_some_and(|end| end <= Instant::now()) {
        let problem = format!("{method} waited too long");
        return Err(Status::new(Code::DeadlineExceeded, problem));
    }
    dispatcher.handle(&incoming.service, method, &incoming.payload)
}
