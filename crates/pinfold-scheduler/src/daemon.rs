//! The daemon: starts all tasks and handles signals.
//!
//! ```text
//! signals ─► this thread: stop, reload the configuration
//! tokio runtime ─► reflectors, extender server, probes, leader election, a tick every second
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pinfold_apiserver::events::{EventOutcome, EventRate, EventReporter, EventSender};
use pinfold_apiserver::{
    ApiClient, Connection, ConnectionError, EventQueue, Reflector, RetryPolicy,
};
use pinfold_daemon::Metrics;
use pinfold_daemon::config::Access;
use pinfold_daemon::http::{self, HttpLimits, ProbeHandler};
use pinfold_daemon::signals::{Signal, SignalReceiver};
use tokio::task::JoinHandle;

use crate::cache::{Cache, CachePolicy, CacheProblem, CacheStore, ProblemKind, watch_targets};
use crate::config::ExtenderConfig;
use crate::extender::Extender;
use crate::leader::{self, Elector, Leadership};
use crate::metrics::{self, catalogue};
use crate::requeue::{RejectedPods, Requeue};
use crate::server::{self, ExtenderServer};
use crate::tls::{self, TlsError, TlsListener};

/// Errors of starting the extender.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The connection to the API server cannot be set up.
    #[error(transparent)]
    Kubernetes(#[from] ConnectionError),
    /// The TLS configuration is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
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

/// Interval of [`Cache::tick`] and of checks of rejected pods.
const TICK: Duration = Duration::from_secs(1);
/// Time for requests in flight when the daemon stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the extender until [`Signal::Stop`]. `reread` reads the configuration again.
///
/// # Errors
/// If the extender cannot start.
pub fn run(
    config: &ExtenderConfig,
    reread: &dyn Fn() -> Result<ExtenderConfig, String>,
    signals: &SignalReceiver,
) -> Result<(), SchedulerError> {
    let connection = match &config.kubernetes.kubeconfig {
        Access::File(path) => Connection::from_kubeconfig(path)?,
        Access::InCluster | Access::None => Connection::in_cluster()?,
    };
    let tls_config = tls::server_config(&config.tls)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(SchedulerError::Thread)?;
    let guard = runtime.enter();
    let api = ApiClient::new(&connection, leader::REQUEST_TIMEOUT)?;
    let start = Instant::now();
    let components = Components {
        cache: Arc::new(Mutex::new(Cache::new(policy(config)))),
        leadership: Arc::new(match config.leader.elect {
            true => Leadership::default(),
            false => Leadership::permanent(start),
        }),
        metrics: Arc::new(metrics::registry()),
    };
    let extender = Arc::new(Extender::new(
        components.cache.clone(),
        config.weights.clone(),
    ));
    let server = Arc::new(ExtenderServer {
        extender: extender.clone(),
        api: api.clone(),
        leadership: components.leadership.clone(),
        rejected_pods: Arc::new(RejectedPods::default()),
        metrics: components.metrics.clone(),
        handle: runtime.handle().clone(),
    });
    let version = env!("CARGO_PKG_VERSION");
    components
        .metrics
        .set(&catalogue::BUILD_INFO, &[version], 1.0);

    let listener = bind(config.listen, "listen")?;
    let (address, limits) = (
        listener.local_addr().unwrap_or(config.listen),
        server::LIMITS,
    );
    let listener = tokio::net::TcpListener::from_std(listener).map_err(SchedulerError::Thread)?;
    match tls_config {
        Some(tls_config) => {
            let listener = TlsListener::new(listener, tls_config);
            tokio::spawn(http::serve(listener, server.clone(), limits));
        }
        None => drop(tokio::spawn(http::serve(listener, server.clone(), limits))),
    }
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
    let identity = identity(config);
    let election = (config.leader.elect).then(|| components.elect(&api, config, &identity));
    let watch_api = ApiClient::new(&connection, RetryPolicy::default().request_timeout)?;
    let watches = tokio::spawn(components.clone().watch(watch_api));
    let ticks = tokio::spawn(tick(server.clone(), components.events(&api, &identity)));
    drop(guard);
    tracing::info!(listen = %address, api_server = %connection.url(), "started");

    let mut current = config.clone();
    loop {
        match signals.wait(Duration::from_secs(3600)) {
            None => {}
            Some(Signal::Reload) => reload(&mut current, reread, &extender),
            Some(Signal::Stop) => break,
        }
    }
    tracing::info!("stopping");
    // New requests are rejected from now on; requests in flight may finish.
    components.leadership.end();
    watches.abort();
    ticks.abort();
    if let Some(election) = election {
        election.abort();
        let leader = &config.leader;
        let release = Elector::release(&api, &leader.namespace, &leader.name, &identity);
        let _ = runtime.block_on(async { tokio::time::timeout(SHUTDOWN_TIMEOUT, release).await });
    }
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    Ok(())
}

fn policy(config: &ExtenderConfig) -> CachePolicy {
    CachePolicy {
        nodes: config.nodes,
        reports: config.reports,
    }
}

/// The identity of this extender in the lease, unique even for two extenders on one host.
fn identity(config: &ExtenderConfig) -> String {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = config.leader.identity.clone();
    let name = name.or_else(|| host().map(|name| name.trim().to_owned()));
    format!(
        "{}_{:08x}",
        name.unwrap_or_default(),
        pinfold_apiserver::random() >> 32
    )
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
    current: &mut ExtenderConfig,
    reread: &dyn Fn() -> Result<ExtenderConfig, String>,
    extender: &Extender,
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
    extender.set_weights(new.weights.clone());
    extender.cache().set_policy(policy(&new), Instant::now());
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
    leadership: Arc<Leadership>,
    metrics: Arc<Metrics>,
}

impl Components {
    fn elect(&self, api: &ApiClient, config: &ExtenderConfig, identity: &str) -> JoinHandle<()> {
        let leader = &config.leader;
        let elector = Elector::new(api.clone(), &leader.namespace, &leader.name, identity);
        let leadership = self.leadership.clone();
        tokio::spawn(async move {
            let on_error = |error: &pinfold_apiserver::ApiError| {
                tracing::warn!(%error, "lease request failed");
            };
            elector.run(&leadership, on_error).await;
        })
    }

    /// Starts the task that writes warnings about pods as Events.
    fn events(&self, api: &ApiClient, identity: &str) -> EventQueue {
        let events = EventQueue::default();
        let reporter = EventReporter {
            component: "pinfold-scheduler",
            instance: identity.to_owned(),
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

    /// Runs the reflectors. Pods are watched by the leader alone. Each term starts with a new list of pods, after the lists
    /// of reports: it contains every pod that the previous leader bound, and pods that only a report lists are known to be
    /// deleted.
    async fn watch(self, api: ApiClient) {
        let [nodes, pods, reports, numas] = watch_targets();
        let [of_nodes, _, of_reports, of_numas] = self.stores();
        let backoff = || RetryPolicy::default().backoff();
        tokio::spawn(Reflector::new(api.clone(), nodes, of_nodes, backoff()).run());
        tokio::spawn(Reflector::new(api.clone(), reports, of_reports, backoff()).run());
        tokio::spawn(Reflector::new(api.clone(), numas, of_numas, backoff()).run());
        let mut term: Option<(Instant, JoinHandle<()>)> = None;
        loop {
            let since = self.leadership.leader_since(Instant::now());
            let ready = self.all_but_pods_listed();
            if since.is_some() && since != term.as_ref().map(|(since, _)| *since) && ready {
                if let Some((_, before)) = term.take() {
                    before.abort();
                }
                let [_, of_pods, _, _] = self.stores();
                let reflector = Reflector::new(api.clone(), pods.clone(), of_pods, backoff());
                let task = tokio::spawn(reflector.run());
                term = since.map(|since| (since, task));
                tracing::info!("leading");
            }
            if since.is_none()
                && let Some((_, before)) = term.take()
            {
                before.abort();
                tracing::warn!("leadership lost");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
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

/// Every second: updates the cache, logs its problems, sends warnings about pods, requeues pods that fit now.
async fn tick(server: Arc<ExtenderServer>, events: EventQueue) {
    loop {
        tokio::time::sleep(TICK).await;
        let now = Instant::now();
        let (problems, warnings, requeues) = {
            let mut cache = server.extender.cache();
            cache.tick(now);
            let changed = cache.take_changed();
            let requeues = server.rejected_pods.requeues(&mut cache, changed, now);
            (cache.take_problems(), cache.take_warnings(), requeues)
        };
        for problem in problems {
            let kind = problem.kind.name();
            server.metrics.count(&catalogue::PROBLEMS, &[kind]);
            log_problem(&problem);
        }
        if server.leadership.leader_since(now).is_none() {
            continue;
        }
        for warning in warnings {
            events.warn(warning);
        }
        requeue_pods(&server, requeues).await;
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

/// Requeues pods. After the first failed request the others are retried at the next tick.
async fn requeue_pods(server: &ExtenderServer, requeues: Vec<Requeue>) {
    let mut unreachable = false;
    for requeue in requeues {
        if unreachable {
            server.rejected_pods.retry(requeue);
            continue;
        }
        let patched = requeue.patch_pod(&server.api).await;
        let (pod, node) = (requeue.info.full_name(), &requeue.node);
        match patched {
            Ok(patched) => {
                tracing::info!(pod, %node, "pod fits now, requeued");
                let more = u64::from(patched);
                server.metrics.add(&catalogue::REQUEUED_PODS, &[], more);
            }
            Err(error) => {
                tracing::warn!(pod, %node, %error, "requeueing a pod failed");
                server.rejected_pods.retry(requeue);
                unreachable = true;
            }
        }
    }
}
