//! The daemon: starts all tasks and handles signals.
//!
//! ```text
//! signals ─► this thread: stop, reload the configuration
//! thread "calls" ─► engine server
//! tokio runtime ─► reflectors, probes, a tick ten times a second
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_apiserver::events::{EventOutcome, EventRate, EventReporter, EventSender};
use pinfold_apiserver::{
    ApiClient, Connection, ConnectionError, EventQueue, Reflector, RetryPolicy,
};
use pinfold_daemon::Metrics;
use pinfold_daemon::config::Access;
use pinfold_daemon::http::{self, HttpLimits, ProbeHandler};
use pinfold_daemon::signals::{Signal, SignalReceiver};
use pinfold_daemon::socket::{self, SocketError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cache::{Cache, CachePolicy, CacheProblem, CacheStore, ProblemKind, watch_targets};
use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::engine::session::Session;
use crate::engine::wire::EngineCallsServer;
use crate::metrics::{self, catalogue};
use crate::server::{self, EngineServer};

/// Errors of starting the engine.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The connection to the API server cannot be set up.
    #[error(transparent)]
    Kubernetes(#[from] ConnectionError),
    /// The socket cannot be bound.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {error}; set {field} to another one")]
    Port {
        /// The address.
        address: SocketAddr,
        /// The configuration field with the address.
        field: &'static str,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A thread or the runtime cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Interval of checks of rejected pods.
const REQUEUE_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of [`Cache::tick`].
const TICK: Duration = Duration::from_secs(1);
/// Time for calls in flight when the daemon stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the engine until [`Signal::Stop`]. `reread` reads the configuration again.
///
/// # Errors
/// If the engine cannot start.
pub fn run(
    config: &EngineConfig,
    reread: &dyn Fn() -> Result<EngineConfig, String>,
    signals: &SignalReceiver,
) -> Result<(), SchedulerError> {
    let connection = match &config.kubernetes.kubeconfig {
        Access::File(path) => Connection::from_kubeconfig(path)?,
        Access::InCluster | Access::None => Connection::in_cluster()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .map_err(SchedulerError::Thread)?;
    let guard = runtime.enter();
    let cache = Arc::new(Mutex::new(Cache::new(policy(config))));
    let components = Components {
        cache: cache.clone(),
        session: Arc::default(),
        metrics: Arc::new(metrics::registry()),
    };
    let server = Arc::new(EngineServer::new(
        Engine::new(cache, config.weights.clone()),
        components.session.clone(),
        components.metrics.clone(),
    ));
    let version = env!("CARGO_PKG_VERSION");
    components
        .metrics
        .set(&catalogue::BUILD_INFO, &[version], 1.0);

    let (listener, _file) = socket::bind(&config.socket)?;
    let calls = CallsThread::start(listener, server.clone()).map_err(SchedulerError::Thread)?;
    if let Some(address) = config.metrics.listen {
        let listener = bind(address, "metrics.listen")?;
        let address = listener.local_addr().unwrap_or(address);
        let listener =
            tokio::net::TcpListener::from_std(listener).map_err(SchedulerError::Thread)?;
        let probes = Arc::new(ProbeHandler::new(
            server.clone(),
            components.metrics.clone(),
        ));
        tokio::spawn(http::serve(listener, probes, HttpLimits::default()));
        tracing::info!(listen = %address, "serving probes and metrics");
    }
    let api = ApiClient::new(&connection, RetryPolicy::default().request_timeout)?;
    let watches = tokio::spawn(components.clone().watch(api.clone()));
    let ticks = tokio::spawn(tick(server.clone(), components.events(&api)));
    drop(guard);
    tracing::info!(socket = %config.socket.display(), api_server = %connection.url(), "started");

    let mut current = config.clone();
    loop {
        match signals.wait(Duration::from_secs(3600)) {
            None => {}
            Some(Signal::Reload) => reload(&mut current, reread, &server.engine),
            Some(Signal::Stop) => break,
        }
    }
    tracing::info!("stopping");
    drop(calls);
    watches.abort();
    ticks.abort();
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    Ok(())
}

/// The thread that serves the calls of the plugin. Ends when it is dropped, after the call that is being answered.
struct CallsThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl CallsThread {
    fn start(listener: UnixListener, server: Arc<EngineServer>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        listener.set_nonblocking(true)?;
        let (stop, stopped) = oneshot::channel();
        let serve = async move {
            let calls = EngineCallsServer::new(server);
            let listener = tokio::net::UnixListener::from_std(listener)?;
            kubelet_api::unix::serve(listener, calls, server::limits()).await
        };
        runtime.spawn(async move {
            if let Err(error) = serve.await {
                tracing::error!(%error, "the engine's socket failed");
            }
        });
        let thread = thread::Builder::new().name("calls".to_owned());
        let thread = thread.spawn(move || {
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for CallsThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn policy(config: &EngineConfig) -> CachePolicy {
    CachePolicy {
        nodes: config.nodes,
        reports: config.reports,
    }
}

fn bind(address: SocketAddr, field: &'static str) -> Result<TcpListener, SchedulerError> {
    let failed = |error| SchedulerError::Port {
        address,
        field,
        error,
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn reload(
    current: &mut EngineConfig,
    reread: &dyn Fn() -> Result<EngineConfig, String>,
    engine: &Engine,
) {
    let new = match reread() {
        Ok(new) => new,
        Err(error) => {
            tracing::error!(error, "new configuration is invalid, keeping the old one");
            return;
        }
    };
    let fields = current.needs_restart(&new);
    if !fields.is_empty() {
        tracing::warn!(
            fields = fields.join(","),
            "configuration change needs a restart"
        );
    }
    engine.set_weights(new.weights.clone());
    engine.cache().set_policy(policy(&new), Instant::now());
    // Fields that need a restart keep their values, so that they are named again at the next reload.
    current.weights = new.weights;
    current.nodes = new.nodes;
    current.reports = new.reports;
    tracing::info!("configuration reloaded");
}

/// The state that the tasks share.
#[derive(Clone)]
struct Components {
    cache: Arc<Mutex<Cache>>,
    session: Arc<Session>,
    metrics: Arc<Metrics>,
}

impl Components {
    /// Starts the task that writes warnings about pods as Events.
    fn events(&self, api: &ApiClient) -> EventQueue {
        let events = EventQueue::default();
        let reporter = EventReporter {
            component: "pinfold-scheduler",
            instance: host_name(),
        };
        let on_outcome = |outcome| match outcome {
            EventOutcome::Rejected(error) => tracing::warn!(%error, "API server rejected an event"),
            EventOutcome::Dropped(count) => tracing::warn!(events = count, "events dropped"),
            EventOutcome::Sent | EventOutcome::Failed => {}
        };
        let (rate, backoff) = (EventRate::default(), RetryPolicy::default().backoff());
        let sender = EventSender::new(
            api.clone(),
            reporter,
            events.clone(),
            rate,
            backoff,
            on_outcome,
        );
        tokio::spawn(sender.run());
        events
    }

    /// Runs the reflectors. Each session of a kube-scheduler starts with a new list of pods, after the lists of reports:
    /// it contains every pod that another one bound before, and pods that only a report lists are known to be deleted.
    async fn watch(self, api: ApiClient) {
        let [nodes, pods, reports, numas] = watch_targets();
        let [of_nodes, _, of_reports, of_numas] = self.stores();
        let backoff = || RetryPolicy::default().backoff();
        tokio::spawn(Reflector::new(api.clone(), nodes, of_nodes, backoff()).run());
        tokio::spawn(Reflector::new(api.clone(), reports, of_reports, backoff()).run());
        tokio::spawn(Reflector::new(api.clone(), numas, of_numas, backoff()).run());
        while !self.all_but_pods_listed() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut current: Option<(Option<Instant>, JoinHandle<()>)> = None;
        loop {
            let session = self.session.since();
            if current.as_ref().is_none_or(|(of, _)| *of != session) {
                if let Some((_, before)) = current.take() {
                    before.abort();
                }
                let [_, of_pods, _, _] = self.stores();
                let reflector = Reflector::new(api.clone(), pods.clone(), of_pods, backoff());
                current = Some((session, tokio::spawn(reflector.run())));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn stores(&self) -> [CacheStore; 4] {
        CacheStore::all(&self.cache, &self.metrics)
    }

    /// Whether all resources but pods were listed.
    fn all_but_pods_listed(&self) -> bool {
        let cache = self.cache.lock();
        let cache = cache.unwrap_or_else(std::sync::PoisonError::into_inner);
        cache.listed().missing().iter().all(|name| *name == "pods")
    }
}

/// The name of this machine, for events.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// Finds rejected pods that fit now. Every second: updates the cache, logs its problems, sends warnings about pods.
async fn tick(server: Arc<EngineServer>, events: EventQueue) {
    let mut ticked = Instant::now();
    loop {
        tokio::time::sleep(REQUEUE_INTERVAL).await;
        let now = Instant::now();
        let (problems, warnings, requeues) = tokio::task::block_in_place(|| {
            let mut cache = server.engine.cache();
            if now.saturating_duration_since(ticked) >= TICK {
                ticked = now;
                cache.tick(now);
            }
            let changed = cache.take_changed();
            let rejected_pods = &server.engine.rejected_pods;
            let requeues = rejected_pods.requeues(&mut cache, changed, now);
            (cache.take_problems(), cache.take_warnings(), requeues)
        });
        for problem in problems {
            let kind = problem.kind.name();
            server.metrics.count(&catalogue::PROBLEMS, &[kind]);
            log_problem(&problem);
        }
        // Of several engines, the one whose kube-scheduler schedules writes events.
        if server.session.since().is_none() {
            continue;
        }
        for warning in warnings {
            events.warn(warning);
        }
        if !requeues.is_empty() {
            let more = u64::try_from(requeues.len()).unwrap_or(u64::MAX);
            server.metrics.add(&catalogue::REQUEUED_PODS, &[], more);
            server.requeue(requeues);
        }
    }
}

/// Logs a problem. Every kind has its own call site, and so its own rate limit.
fn log_problem(problem: &CacheProblem) {
    let CacheProblem {
        kind,
        object,
        message,
    } = problem;
    match kind {
        ProblemKind::InvalidPod => tracing::warn!(pod = object, error = message, "pod ignored"),
        ProblemKind::InvalidNode => tracing::warn!(node = object, error = message, "node ignored"),
        ProblemKind::InvalidReport => {
            tracing::warn!(node = object, error = message, "report cannot be used");
        }
        ProblemKind::StaleReport => {
            tracing::warn!(node = object, details = message, "report is stale");
        }
        ProblemKind::BindingTimedOut => {
            tracing::warn!(pod = object, details = message, "binding timed out");
        }
    }
}
