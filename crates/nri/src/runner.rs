//! Runs a plugin: connects, and connects again when the runtime went away.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::api::{ContainerUpdate, UpdateContainersRequest, UpdateContainersResponse};
use crate::backoff::Backoff;
use crate::identity::Identity;
use crate::launch::{self, LaunchError};
use crate::mux::Trunk;
use crate::plugin::Plugin;
use crate::session::{self, Link, RUNTIME_SERVICE, SessionError};
use crate::state::{State, Watched};
use crate::ttrpc::CallError;

/// Where runtimes listen for plugins unless they are told otherwise.
pub const DEFAULT_SOCKET: &str = "/var/run/nri/nri.sock";

/// How long runtimes let a plugin take to register unless they are told otherwise.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a runtime may take to change containers.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
enum Origin {
    /// A plugin that runs by itself, and connects to this socket again and again.
    Socket(PathBuf),
    /// A plugin that a runtime started: there is one session, and then the plugin ends.
    Inherited(Option<UnixStream>),
}

/// Runs a plugin.
#[derive(Debug)]
pub struct Runner {
    identity: Identity,
    origin: Origin,
    backoff: Backoff,
    registration_timeout: Duration,
    shared: Arc<Shared>,
}

/// Looks after a running plugin from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    watched: Watched,
    control: Mutex<Control>,
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct Control {
    stopping: bool,
    /// The session there is, whether events arrive yet or not.
    link: Option<Arc<Link>>,
}

impl Shared {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, unless it is to stop; says whether it is.
    fn pause(&self, delay: Duration) -> bool {
        let (control, _) = self
            .stopped
            .wait_timeout_while(self.control(), delay, |control| !control.stopping)
            .unwrap_or_else(PoisonError::into_inner);
        control.stopping
    }
}

/// Says that a plugin no longer runs, however it ended.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.control().link = None;
        self.0.watched.set(State::Stopped);
    }
}

impl Runner {
    /// For a plugin that runs by itself and connects to [`DEFAULT_SOCKET`].
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Runner {
            identity,
            origin: Origin::Socket(PathBuf::from(DEFAULT_SOCKET)),
            backoff: Backoff::default(),
            registration_timeout: REGISTRATION_TIMEOUT,
            shared: Arc::default(),
        }
    }

    /// For a plugin that a runtime may have started: takes the socket, the name and the index that
    /// it handed down, or else is the same as [`Runner::new`].
    ///
    /// # Errors
    /// A runtime started the plugin, but what it handed down is of no use.
    pub fn from_environment(identity: Identity) -> Result<Self, LaunchError> {
        let environment = |name: &str| std::env::var(name).ok();
        Ok(match launch::read(environment, &identity)? {
            None => Runner::new(identity),
            Some(launch) => Runner::new(launch.identity).stream(launch.stream),
        })
    }

    /// Connects to another socket than the default. Does nothing to a plugin that a runtime
    /// started.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        if let Origin::Socket(old) = &mut self.origin {
            *old = path.into();
        }
        self
    }

    /// Uses a socket that is connected already, for one session.
    #[must_use]
    pub fn stream(mut self, stream: UnixStream) -> Self {
        self.origin = Origin::Inherited(Some(stream));
        self
    }

    /// How long to wait between tries.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How long the runtime may take to answer the registration, and then to configure the plugin.
    /// Five seconds, as long as runtimes wait themselves, if not said.
    #[must_use]
    pub fn registration_timeout(mut self, timeout: Duration) -> Self {
        self.registration_timeout = timeout;
        self
    }

    /// A handle to look after the plugin while it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Runs the plugin on this thread until [`Handle::stop`]. A plugin that runs by itself connects
    /// again whenever the runtime went away; [`Handle::state`] tells why. One that a runtime
    /// started ends with its session.
    ///
    /// # Errors
    /// The one session of a plugin that a runtime started failed.
    pub fn run(mut self, plugin: &mut impl Plugin) -> Result<(), SessionError> {
        let shared = Arc::clone(&self.shared);
        let _running = Running(&shared);
        let mut attempt = 0;
        loop {
            shared.watched.set(State::Connecting { attempt });
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
            if matches!(self.origin, Origin::Inherited(_)) {
                return outcome;
            }
            if was_connected {
                attempt = 0;
            }
            let delay = self.backoff.delay(attempt);
            let problem = match outcome {
                Ok(()) => "the runtime hung up".to_owned(),
                Err(problem) => problem.to_string(),
            };
            shared.watched.set(State::Waiting {
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
            Origin::Socket(path) => {
                UnixStream::connect(&*path).map_err(|problem| SessionError::Connect {
                    path: path.clone(),
                    problem,
                })?
            }
            Origin::Inherited(stream) => match stream.take() {
                Some(stream) => stream,
                None => return Ok(()),
            },
        };
        let link = Arc::new(Link::new(Trunk::new(stream).map_err(SessionError::SetUp)?));
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
                watched.set(State::Connected { runtime });
            },
        )
    }
}

impl Handle {
    /// Where the plugin is on its way to the runtime.
    #[must_use]
    pub fn state(&self) -> State {
        self.shared.watched.get()
    }

    /// Waits until the state is as wished, at most so long; gives back the last one seen. A state
    /// that lasts very shortly may be missed.
    pub fn wait_for(&self, timeout: Duration, wished: impl Fn(&State) -> bool) -> State {
        self.shared.watched.wait(timeout, wished)
    }

    /// Changes containers without an event that asks for it; gives back the changes that failed.
    /// Waits for the runtime, at most ten seconds.
    ///
    /// # Errors
    /// There is no session, or the runtime does not answer, or not with success. Called in a
    /// method of the plugin it would wait for a runtime that waits for the plugin: that is rejected
    /// at once. Return the updates there.
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

    /// Ends the session and makes [`Runner::run`] return, as soon as the plugin has handled the
    /// request it is at.
    pub fn stop(&self) {
        let mut control = self.shared.control();
        control.stopping = true;
        if let Some(link) = &control.link {
            link.close();
        }
        self.shared.stopped.notify_all();
    }
}
