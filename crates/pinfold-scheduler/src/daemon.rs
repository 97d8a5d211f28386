//! The daemon: starts and joins everything.
//!
//! ```text
//! signals ─► this thread: stop, read the settings again
//! runtime ─► watches, server, probes, lease, a tick every second
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pinfold_apiserver::events::{Fate, Ration, Reporter, Teller};
use pinfold_apiserver::{Api, Connection, ConnectionError, Events, Follower, Patience};
use pinfold_daemon::Metrics;
use pinfold_daemon::config::Access;
use pinfold_daemon::http::{self, HttpLimits, ProbeHandler};
use pinfold_daemon::signals::{Signal, SignalReceiver};
use tokio::task::JoinHandle;

use crate::cache::{Cache, Follow, Policy, sources};
use crate::config::SchedulerConfig;
use crate::extender::Extender;
use crate::leader::{self, Elector, Standing};
use crate::metrics::{self, catalogue};
use crate::server::{self, Desk};
use crate::tls::{self, Secured, TlsError};
use crate::wake::{Free, Waiting};

/// Why the extender could not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The API server cannot be asked.
    #[error(transparent)]
    Kubernetes(#[from] ConnectionError),
    /// HTTPS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A port cannot be used.
    #[error("cannot listen on {address}: {error}; set {field} to another one")]
    Port {
        /// Which.
        address: SocketAddr,
        /// The field that names it.
        field: &'static str,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// There is no thread left.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// How often time alone is looked at, and waiting pods are.
const TICK: Duration = Duration::from_secs(1);
/// How long what is under way may take when everything ends.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the extender until it is told to stop. `reread` gives the configuration as it is by then.
///
/// # Errors
/// If it cannot start.
pub fn run(
    config: &SchedulerConfig,
    reread: &dyn Fn() -> Result<SchedulerConfig, String>,
    control: &SignalReceiver,
) -> Result<(), DaemonError> {
    let connection = match &config.kubernetes.kubeconfig {
        Access::File(path) => Connection::from_kubeconfig(path)?,
        Access::InCluster | Access::None => Connection::in_cluster()?,
    };
    let secured = tls::settings(&config.tls)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(DaemonError::Thread)?;
    let guard = runtime.enter();
    let api = Api::new(&connection, leader::REQUEST)?;
    let begun = Instant::now();
    let parts = Parts {
        cache: Arc::new(Mutex::new(Cache::new(policy(config)))),
        standing: Arc::new(match config.leader.elect {
            true => Standing::default(),
            false => Standing::alone(begun),
        }),
        metrics: Arc::new(metrics::registry()),
    };
    let extender = Arc::new(Extender::new(parts.cache.clone(), config.weights.clone()));
    let desk = Arc::new(Desk {
        extender: extender.clone(),
        api: api.clone(),
        standing: parts.standing.clone(),
        waiting: Arc::new(Waiting::default()),
        metrics: parts.metrics.clone(),
        handle: runtime.handle().clone(),
    });
    let version = env!("CARGO_PKG_VERSION");
    parts.metrics.set(&catalogue::BUILD_INFO, &[version], 1.0);

    let listener = port(config.listen, "listen")?;
    let (address, limits) = (
        listener.local_addr().unwrap_or(config.listen),
        server::LIMITS,
    );
    let listener = tokio::net::TcpListener::from_std(listener).map_err(DaemonError::Thread)?;
    match secured {
        Some(settings) => {
            let listener = Secured::new(listener, settings);
            tokio::spawn(http::serve(listener, desk.clone(), limits));
        }
        None => drop(tokio::spawn(http::serve(listener, desk.clone(), limits))),
    }
    if let Some(address) = config.metrics.listen {
        let listener = port(address, "metrics.listen")?;
        let address = listener.local_addr().unwrap_or(address);
        let listener = tokio::net::TcpListener::from_std(listener).map_err(DaemonError::Thread)?;
        let probes = Arc::new(ProbeHandler::new(desk.clone(), parts.metrics.clone()));
        tokio::spawn(http::serve(listener, probes, HttpLimits::default()));
        tracing::info!(listen = %address, "serving probes and metrics");
    }
    let identity = identity(config);
    let elected = (config.leader.elect).then(|| parts.elect(&api, config, &identity));
    let follow = Api::new(&connection, Patience::default().request)?;
    let watches = tokio::spawn(parts.clone().follow(follow));
    let ticks = tokio::spawn(tick(desk.clone(), parts.events(&api, &identity)));
    drop(guard);
    tracing::info!(listen = %address, api_server = %connection.url(), "started");

    let mut current = config.clone();
    loop {
        match control.wait(Duration::from_secs(3600)) {
            None => {}
            Some(Signal::Reload) => reload(&mut current, reread, &extender),
            Some(Signal::Stop) => break,
        }
    }
    tracing::info!("stopping");
    // Nobody is answered any more; what is under way may end.
    parts.standing.lost();
    watches.abort();
    ticks.abort();
    if let Some(elected) = elected {
        elected.abort();
        let leader = &config.leader;
        let resign = Elector::resign(&api, &leader.namespace, &leader.name, &identity);
        let _ = runtime.block_on(async { tokio::time::timeout(GRACE, resign).await });
    }
    runtime.shutdown_timeout(GRACE);
    Ok(())
}

fn policy(config: &SchedulerConfig) -> Policy {
    Policy {
        nodes: config.nodes,
        reports: config.reports,
    }
}

fn identity(config: &SchedulerConfig) -> String {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = config.leader.identity.clone();
    let name = name.or_else(|| host().map(|name| name.trim().to_owned()));
    // Two on one host are two.
    format!(
        "{}_{:08x}",
        name.unwrap_or_default(),
        pinfold_apiserver::random() >> 32
    )
}

fn port(address: SocketAddr, field: &'static str) -> Result<TcpListener, DaemonError> {
    let failed = |error| DaemonError::Port {
        address,
        field,
        error,
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn reload(
    current: &mut SchedulerConfig,
    reread: &dyn Fn() -> Result<SchedulerConfig, String>,
    extender: &Extender,
) {
    let new = match reread() {
        Ok(new) => new,
        Err(problem) => {
            tracing::error!(%problem, "new configuration is invalid, keeping the old one");
            return;
        }
    };
    let stays = current.needs_restart(&new);
    if !stays.is_empty() {
        tracing::warn!(
            fields = stays.join(","),
            "configuration change needs a restart"
        );
    }
    extender.set_weights(new.weights.clone());
    extender.cache().set_policy(policy(&new), Instant::now());
    // What needs a restart stays as it is until then.
    current.weights = new.weights;
    current.nodes = new.nodes;
    current.reports = new.reports;
    tracing::info!("configuration reloaded");
}

/// What every task is given.
#[derive(Clone)]
struct Parts {
    cache: Arc<Mutex<Cache>>,
    standing: Arc<Standing>,
    metrics: Arc<Metrics>,
}

impl Parts {
    fn elect(&self, api: &Api, config: &SchedulerConfig, identity: &str) -> JoinHandle<()> {
        let leader = &config.leader;
        let elector = Elector::new(api.clone(), &leader.namespace, &leader.name, identity);
        let standing = self.standing.clone();
        tokio::spawn(async move {
            let tell = |error: &pinfold_apiserver::ApiError| {
                tracing::warn!(%error, "lease request failed");
            };
            elector.run(&standing, tell).await;
        })
    }

    /// Where warnings about pods go.
    fn events(&self, api: &Api, identity: &str) -> Events {
        let events = Events::default();
        let reporter = Reporter {
            component: "pinfold-scheduler",
            instance: identity.to_owned(),
        };
        let tell = |fate| match fate {
            Fate::Rejected(error) => tracing::warn!(%error, "API server rejected an event"),
            Fate::Dropped(count) => tracing::warn!(events = count, "events dropped"),
            Fate::Sent | Fate::Failed => {}
        };
        let (ration, backoff) = (Ration::default(), Patience::default().backoff());
        let teller = Teller::new(api.clone(), reporter, events.clone(), ration, backoff, tell);
        tokio::spawn(teller.run());
        events
    }

    /// Follows everything. Pods are listed by the leader alone, anew with every term, and after the reports: only then
    /// it is sure that everything the leader before bound is seen, and who left before is known to be gone.
    async fn follow(self, api: Api) {
        let [nodes, pods, reports, numas] = sources();
        let [of_nodes, _, of_reports, of_numas] = self.sinks();
        let backoff = || Patience::default().backoff();
        tokio::spawn(Follower::new(api.clone(), nodes, of_nodes, backoff()).run());
        tokio::spawn(Follower::new(api.clone(), reports, of_reports, backoff()).run());
        tokio::spawn(Follower::new(api.clone(), numas, of_numas, backoff()).run());
        let mut term: Option<(Instant, JoinHandle<()>)> = None;
        loop {
            let since = self.standing.leads_since(Instant::now());
            let listed = self.listed();
            if since.is_some() && since != term.as_ref().map(|(since, _)| *since) && listed {
                if let Some((_, before)) = term.take() {
                    before.abort();
                }
                let [_, of_pods, _, _] = self.sinks();
                let follower = Follower::new(api.clone(), pods.clone(), of_pods, backoff());
                let task = tokio::spawn(follower.run());
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

    fn sinks(&self) -> [Follow; 4] {
        Follow::all(&self.cache, &self.metrics)
    }

    /// Whether everything but pods was listed.
    fn listed(&self) -> bool {
        let cache = self.cache.lock();
        let cache = cache.unwrap_or_else(std::sync::PoisonError::into_inner);
        cache.listed().missing().iter().all(|what| *what == "pods")
    }
}

/// What time alone changes, what is to be told, and who is to be woken.
async fn tick(desk: Arc<Desk>, events: Events) {
    loop {
        tokio::time::sleep(TICK).await;
        let now = Instant::now();
        let (problems, warnings, freed) = {
            let mut cache = desk.extender.cache();
            cache.tick(now);
            let changed = cache.take_changed();
            let freed = desk.waiting.freed(&mut cache, changed, now);
            (cache.take_problems(), cache.take_warnings(), freed)
        };
        for problem in problems {
            desk.metrics.count(&catalogue::PROBLEMS, &[problem.event]);
            tracing::warn!(
                what = problem.what,
                problem = problem.problem,
                "{}",
                problem.event
            );
        }
        if desk.standing.leads_since(now).is_none() {
            continue;
        }
        for warning in warnings {
            events.warn(warning);
        }
        wake(&desk, freed).await;
    }
}

/// Touches pods for which a place came free. Where the API server is away for one, the others are not tried.
async fn wake(desk: &Desk, freed: Vec<Free>) {
    let mut away = false;
    for free in freed {
        if away {
            desk.waiting.not_touched(free);
            continue;
        }
        let touched = free.touch(&desk.api).await;
        let (pod, node) = (free.asked.full_name(), &free.node);
        match touched {
            Ok(touched) => {
                tracing::info!(pod, %node, "pod fits now, requeued");
                desk.metrics.add(&catalogue::WOKEN, &[], u64::from(touched));
            }
            Err(error) => {
                tracing::warn!(pod, %node, %error, "requeueing a pod failed");
                desk.waiting.not_touched(free);
                away = true;
            }
        }
    }
}
