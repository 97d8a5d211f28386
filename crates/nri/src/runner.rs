//! [`Runner`]: runs a plugin, and reconnects when the connection is lost.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::api::{ContainerUpdate, UpdateContainersRequest, UpdateContainersResponse};
use crate::backoff::ReconnectBackoff;
use crate::identity::Identity;
use crate::launch::{self, LaunchError};
use crate::mux::Trunk;
use crate::plugin::Plugin;
use crate::session::{self, RUNTIME_SERVICE, SessionError, SessionLink};
use crate::state::{ConnectionState, StateWatch};
use crate::ttrpc::CallError;

/// Default path of the runtime's NRI socket.
pub const DEFAULT_SOCKET: &str = "/var/run/nri/nri.sock";

/// The runtimes' default registration timeout.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of `UpdateContainers` calls.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the plugin's socket comes from.
#[derive(Debug)]
enum SocketSource {
    /// The plugin connects, and reconnects, to this path.
    Socket(PathBuf),
    /// The runtime started the plugin with this socket: there is one session.
    Inherited(Option<UnixStream>),
}

/// Connects a plugin to a runtime and runs it.
#[derive(Debug)]
pub struct Runner {
    identity: Identity,
    origin: SocketSource,
    backoff: ReconnectBackoff,
    registration_timeout: Duration,
    shared: Arc<RunnerShared>,
}

/// Observes and controls a running plugin from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<RunnerShared>,
}

#[derive(Debug, Default)]
struct RunnerShared {
    watched: StateWatch,
    control: Mutex<RunnerControl>,
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct RunnerControl {
    stopping: bool,
    /// The current session, established or not.
    link: Option<Arc<SessionLink>>,
}

impl RunnerShared {
    fn control(&self) -> MutexGuard<'_, RunnerControl> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `delay` or until the plugin is stopped; returns whether it is.
    fn pause(&self, delay: Duration) -> bool {
        let (control, _) = self
            .stopped
            .wait_timeout_while(self.control(), delay, |control| !control.stopping)
            .unwrap_or_else(PoisonError::into_inner);
        control.stopping
    }
}

/// Sets the state to `Stopped` when dropped.
struct StoppedOnDrop<'a>(&'a RunnerShared);

impl Drop for StoppedOnDrop<'_> {
    fn drop(&mut self) {
        self.0.control().link = None;
        self.0.watched.set(ConnectionState::Stopped);
    }
}

impl Runner {
    /// A runner that connects to [`DEFAULT_SOCKET`].
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Runner {
            identity,
            origin: SocketSource::Socket(PathBuf::from(DEFAULT_SOCKET)),
            backoff: ReconnectBackoff::default(),
            registration_timeout: REGISTRATION_TIMEOUT,
            shared: Arc::default(),
        }
    }

    /// A runner for a plugin that the runtime may have started: uses the socket, name and index in
    /// its environment, or else is the same as [`Runner::new`].
    ///
    /// # Errors
    /// The runtime started the plugin, but its environment is invalid.
    pub fn from_environment(identity: Identity) -> Result<Self, LaunchError> {
        let environment = |name: &str| std::env::var(name).ok();
        Ok(match launch::read(environment, &identity)? {
            None => Runner::new(identity),
            Some(launch) => Runner::new(launch.identity).stream(launch.stream),
        })
    }

    /// Sets the path of the socket. Has no effect on a plugin that the runtime started.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        if let SocketSource::Socket(old) = &mut self.origin {
            *old = path.into();
        }
        self
    }

    /// Uses a connected socket for one session.
    #[must_use]
    pub fn stream(mut self, stream: UnixStream) -> Self {
        self.origin = SocketSource::Inherited(Some(stream));
        self
    }

    /// Sets the delays between connection attempts.
    #[must_use]
    pub fn backoff(mut self, backoff: ReconnectBackoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the timeout of the registration and of the `Configure` request after it. The default is
    /// five seconds, like that of runtimes.
    #[must_use]
    pub fn registration_timeout(mut self, timeout: Duration) -> Self {
        self.registration_timeout = timeout;
        self
    }

    /// A handle to observe and stop the running plugin.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Runs the plugin on this thread until [`Handle::stop`]. Reconnects whenever the connection is
    /// lost; [`Handle::state`] has the reason. If the runtime started the plugin, returns when the
    /// session ends.
    ///
    /// # Errors
    /// The session of a plugin that the runtime started failed.
    pub fn run(mut self, plugin: &mut impl Plugin) -> Result<(), SessionError> {
        let shared = Arc::clone(&self.shared);
        let _running = StoppedOnDrop(&shared);
        let mut attempt = 0;
        loop {
            shared.watched.set(ConnectionState::Connecting { attempt });
            let mut was_connected = false;
            let outcome = self.session(plugin, &mut was_connected);
            let stopping = {
                let mut control = shared.control();
                control.link = None;
                control.stopping
            };
            if stopping {
                return Ok(());
            }
            if matches!(self.origin, SocketSource::Inherited(_)) {
                return outcome;
            }
            if was_connected {
                attempt = 0;
            }
            let delay = self.backoff.delay(attempt);
            let problem = match outcome {
                Ok(()) => "the runtime closed the connection".to_owned(),
                Err(problem) => problem.to_string(),
            };
            shared.watched.set(ConnectionState::Waiting {
                attempt,
                delay,
                problem,
            });
            if shared.pause(delay) {
                return Ok(());
            }
            attempt = attempt.saturating_add(1);
        }
    }

    fn session(
        &mut self,
        plugin: &mut impl Plugin,
        was_connected: &mut bool,
    ) -> Result<(), SessionError> {
        let stream = match &mut self.origin {
            SocketSource::Socket(path) => {
                UnixStream::connect(&*path).map_err(|problem| SessionError::Connect {
                    path: path.clone(),
                    problem,
                })?
            }
            SocketSource::Inherited(stream) => match stream.take() {
                Some(stream) => stream,
                None => return Ok(()),
            },
        };
        let link = Arc::new(SessionLink::new(
            Trunk::new(stream).map_err(SessionError::SetUp)?,
        ));
        {
            let mut control = self.shared.control();
            if control.stopping {
                return Ok(());
            }
            control.link = Some(Arc::clone(&link));
        }
        let watched = &self.shared.watched;
        session::run(
            &link,
            &self.identity,
            self.registration_timeout,
            plugin,
            |runtime| {
                *was_connected = true;
                let runtime = runtime.clone();
                watched.set(ConnectionState::Connected { runtime });
            },
        )
    }
}

impl Handle {
    /// The connection state of the plugin.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.shared.watched.get()
    }

    /// Waits until the predicate holds or the timeout expires; returns the last state. A very short
    /// state may be missed.
    pub fn wait_for(
        &self,
        timeout: Duration,
        predicate: impl Fn(&ConnectionState) -> bool,
    ) -> ConnectionState {
        self.shared.watched.wait(timeout, predicate)
    }

    /// Updates containers outside of an event; returns the updates that failed. Waits for the runtime,
    /// at most ten seconds.
    ///
    /// # Errors
    /// There is no session, or the call failed. A call in a method of the plugin would deadlock,
    /// because the runtime waits for the plugin: it fails at once. Return the updates there instead.
    pub fn update_containers(
        &self,
        update: Vec<ContainerUpdate>,
    ) -> Result<Vec<ContainerUpdate>, CallError> {
        let link = self.shared.control().link.clone();
        let link = link.ok_or(CallError::NotConnected)?;
        if link.is_plugin_thread() {
            return Err(CallError::InsideAnEvent);
        }
        if !self.state().is_connected() {
            return Err(CallError::NotConnected);
        }
        let request = UpdateContainersRequest {
            update,
            evict: Vec::new(),
        };
        let method = (RUNTIME_SERVICE, "UpdateContainers");
        let answer: UpdateContainersResponse =
            link.calls
                .call(&link.trunk, method, &request, UPDATE_TIMEOUT)?;
        Ok(answer.failed)
    }

    /// Closes the session. [`Runner::run`] returns as soon as the plugin has handled its current
    /// request.
    pub fn stop(&self) {
        let mut control = self.shared.control();
        control.stopping = true;
        if let Some(link) = &control.link {
            link.close();
        }
        self.shared.stopped.notify_all();
    }
}
