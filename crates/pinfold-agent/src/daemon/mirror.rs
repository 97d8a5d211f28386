//! Mode `mirror`: the kubelet's managers decide; the agent reads their state and publishes it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pinfold_core::name::PodUid;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy};
use pinfold_kube::koordinator::NodeAnnotations;
use pinfold_kube::pod_fingerprint::ExclusiveKinds;

use super::AgentError;
use super::api_server;
use super::host::{self, LocalMachine};
use super::listeners::{self, Listeners};
use super::readiness::{ReadinessReporter, ReadinessSource};
use super::service::now;
use crate::config::{AgentConfig, PublishedObject};
use crate::http::{
    AdmissionResponse, Agent, AgentApiError, AgentStatus, ApiErrorKind, DaemonStatus, Health,
    JournalPage, PinResult, PinTarget, PodReport, RulesChangeReport,
};
use crate::kubernetes::{
    CustomResource, CustomResourceReport, OtherWriters, PodSetFingerprint, Publisher, Readiness,
};
use crate::metrics::{Metrics, catalogue};
use crate::mirror::{Configz, KubeletPaths, Mirror, MirrorSnapshot, objects};
use pinfold_daemon::signals::{Signal, SignalReceiver};

/// How long the first pass waits for the Node, so that the first report is not delayed by a whole interval.
const FIRST_ANSWER: Duration = Duration::from_secs(2);
/// Longest time of reading the kubelet's state, with the timeouts of its sockets.
const LONGEST_PASS: Duration = Duration::from_secs(60);

/// The API of a mirrored node: the kubelet's state at the last read.
struct MirrorService {
    name: String,
    state: Mutex<MirrorState>,
    /// Other programs that write the published objects.
    other_writers: OtherWriters,
    /// The publisher of the node's objects; `None` without an API server.
    publisher: Option<Publisher>,
    /// Interval of reading the kubelet's state, and when it was last read.
    interval: Duration,
    last_pass: Mutex<Instant>,
}

#[derive(Clone, Default)]
struct MirrorState {
    picture: Option<Arc<MirrorSnapshot>>,
    remarks: Vec<String>,
    generation: u64,
}

impl MirrorService {
    fn state(&self) -> MirrorState {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn last_pass(&self) -> MutexGuard<'_, Instant> {
        let last = self.last_pass.lock();
        last.unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the state.
    fn set_state(&self, state: MirrorState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

pub(super) fn run(
    config: &AgentConfig,
    reread: &dyn Fn() -> Result<AgentConfig, String>,
    control: &SignalReceiver,
) -> Result<(), AgentError> {
    let name = host::node_name(config);
    let mut mirror = mirror(config, &name)?;
    let metrics = listeners::metrics();
    let kubernetes = api_server::connect(config, &name, &metrics)?;
    let other_writers = kubernetes.as_ref().map(|link| link.other_writers().clone());
    let service = Arc::new(MirrorService {
        name: name.clone(),
        state: Mutex::default(),
        other_writers: other_writers.unwrap_or_default(),
        publisher: kubernetes.as_ref().map(|link| link.publisher().clone()),
        interval: config.kubernetes.publish_interval,
        last_pass: Mutex::new(Instant::now()),
    });
    let agent: Arc<dyn Agent> = service.clone();
    let pod_resources = None;
    let _listeners = Listeners::open(config, &agent, &metrics, pod_resources)?;
    let node_status = kubernetes.as_ref().and_then(|link| link.node_status());
    let _reporter = ReadinessReporter::start(service.clone(), node_status.cloned())?;
    tracing::info!(node = %name, mode = "mirror", "agent started");
    // Without a journal the generation starts at the current time in milliseconds, which is above that of earlier runs.
    let mut generation = now().as_millisecond().unsigned_abs();
    let mut logged_remarks = Vec::new();
    let mut annotations: Option<NodeAnnotations> = None;
    if let Some(link) = &kubernetes {
        let _ = link.node().wait(FIRST_ANSWER);
    }
    let mut online = host::online_cpus();
    loop {
        *service.last_pass() = Instant::now();
        let seen = host::online_cpus();
        if seen != online {
            // The online CPUs changed. The kubelet notices them only after a restart, too.
            match self::mirror(config, &name) {
                Ok(new) => (mirror, online) = (new, seen),
                Err(error) => tracing::error!(%error, "reading the machine's topology failed"),
            }
        }
        // Reading the kubelet's state may take long: API requests get the last state meanwhile.
        let seen = kubernetes.as_ref().and_then(|link| link.node().get());
        // A report without what the Node reserves would have schedulers use its CPUs: it is held back.
        let seen = seen.map(|node| node.settings.annotations);
        let annotated = seen != annotations;
        annotations = seen;
        if mirror.poll() || annotated {
            generation += 1;
            let picture = mirror.snapshot().cloned().map(Arc::new);
            if let (Some(picture), Some(link)) = (&picture, &kubernetes) {
                let publisher = link.publisher();
                match &annotations {
                    Some(node) => {
                        publisher.publish(report(picture, &name, config, node, generation));
                    }
                    None => publisher.hold_back(),
                }
            }
            service.set_state(MirrorState {
                picture,
                remarks: mirror.problems().iter().map(ToString::to_string).collect(),
                generation,
            });
        }
        if mirror.problems() != logged_remarks {
            logged_remarks = mirror.problems().to_vec();
            for remark in &logged_remarks {
                tracing::warn!(%remark, "reading the kubelet's state");
            }
        }
        match control.wait(config.kubernetes.publish_interval) {
            Some(Signal::Stop) => {
                tracing::info!("agent stopping");
                return Ok(());
            }
            // The kubelet's configuration is read again at every pass.
            Some(Signal::Reload) => match reread() {
                Ok(new) => {
                    for field in config.needs_restart(&new) {
                        tracing::warn!(%field, "changed setting needs a restart");
                    }
                }
                Err(error) => tracing::error!(%error, "configuration reload failed"),
            },
            None => {}
        }
    }
}

/// The reader of the kubelet's state, as configured.
fn mirror(config: &AgentConfig, name: &str) -> Result<Mirror, AgentError> {
    let machine = LocalMachine::detect()?;
    let places = KubeletPaths {
        config: config
            .rules_file()
            .unwrap_or_else(|| config.kubelet.root_directory.join("config.yaml")),
        root: config.kubelet.root_directory.clone(),
        pod_resources: Some(config.pod_resources.kubelet_socket.clone()),
    };
    let mirror = Mirror::new(machine.machine, machine.memory, places);
    Ok(match &config.kubelet.endpoint {
        Some(endpoint) if !config.takeover.disable_query_kubelet_config => {
            mirror.with_configz(Configz {
                endpoint: endpoint.clone(),
                name: name.to_owned(),
                ca_file: config.kubelet.ca_file.clone(),
                token_file: config.kubelet.token_file.clone(),
            })
        }
        _ => mirror,
    })
}

/// The objects to publish for schedulers.
fn report(
    picture: &MirrorSnapshot,
    name: &str,
    config: &AgentConfig,
    annotations: &NodeAnnotations,
    generation: u64,
) -> CustomResourceReport {
    let published = objects(picture, name, annotations);
    let wants = |publication| config.kubernetes.publish.contains(&publication);
    let mut objects = Vec::new();
    if wants(PublishedObject::V1alpha2) || wants(PublishedObject::V1alpha1) {
        objects.push(CustomResource::topology(&published.koordinator));
    }
    if wants(PublishedObject::Numatopology) {
        objects.push(CustomResource::numatopology(&published.numatopology));
    }
    CustomResourceReport {
        generation,
        objects,
        pods: Some(accounted_pods(picture, config)),
    }
}

/// The pods that the kubelet's state files account for. They list no pod without resources of its own.
fn accounted_pods(picture: &MirrorSnapshot, config: &AgentConfig) -> PodSetFingerprint {
    let settings = picture.ledger.rules().settings();
    PodSetFingerprint {
        method: config.kubernetes.fingerprint_method,
        accounted: picture
            .ledger
            .state()
            .admitted_pods()
            .keys()
            .cloned()
            .collect(),
        tracked: ExclusiveKinds {
            cpus: settings.cpu_policy == CpuManagerPolicy::Static,
            memory: settings.memory_policy == MemoryManagerPolicy::Static,
            devices: false,
        },
    }
}

/// The error of every API request that would change something.
fn mirror_only<T>() -> Result<T, AgentApiError> {
    let error = "the agent is in mode mirror: the kubelet decides on this node";
    let hint = "set `mode: manage` to let the agent decide";
    Err(AgentApiError::new(ApiErrorKind::Unsupported, error, hint))
}

impl Agent for MirrorService {
    fn status(&self) -> AgentStatus {
        let state = self.state();
        let mut problems = state.remarks;
        problems.extend(self.other_writers.problems());
        let mut status = AgentStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.name.clone(),
            mode: "mirror".to_owned(),
            generation: state.generation,
            problems,
            ..AgentStatus::default()
        };
        if let Some(picture) = state.picture {
            let rules = picture.ledger.rules();
            rules
                .policy()
                .name()
                .clone_into(&mut status.topology_policy);
            rules.scope().name().clone_into(&mut status.topology_scope);
            status.occupancy = picture.ledger.occupancy();
        }
        status
    }

    fn pods(&self) -> Vec<PodReport> {
        let picture = self.state().picture;
        picture.map_or_else(Vec::new, |picture| PodReport::all(&picture.ledger))
    }

    fn admit(&self, _: &[u8]) -> Result<AdmissionResponse, AgentApiError> {
        mirror_only()
    }

    fn release(&self, _: &PodUid) -> Result<(), AgentApiError> {
        mirror_only()
    }

    fn pin(&self, _: &PodUid, _: &PinTarget) -> Result<PinResult, AgentApiError> {
        mirror_only()
    }

    fn plan(&self, _: &[u8]) -> Result<RulesChangeReport, AgentApiError> {
        mirror_only()
    }

    fn apply(&self, _: &[u8]) -> Result<RulesChangeReport, AgentApiError> {
        mirror_only()
    }

    fn journal(&self, _: u64, _: usize) -> Result<JournalPage, AgentApiError> {
        mirror_only()
    }
}

impl ReadinessSource for MirrorService {
    fn readiness(&self) -> Readiness {
        let Health {
            not_live,
            not_ready,
        } = self.health();
        let problems = [not_live, not_ready].concat();
        match problems.is_empty() {
            true => Readiness {
                ready: true,
                reason: "AgentReady",
                message: "the agent reports what the kubelet assigned".to_owned(),
            },
            false => Readiness {
                ready: false,
                reason: "KubeletStateUnreadable",
                message: problems.join("; "),
            },
        }
    }

    fn is_live(&self) -> bool {
        self.last_pass().elapsed() < self.interval + LONGEST_PASS
    }
}

impl DaemonStatus for MirrorService {
    fn health(&self) -> Health {
        let state = self.state();
        let mut not_ready = match state.picture {
            Some(_) => return Health::default(),
            None => state.remarks,
        };
        if not_ready.is_empty() {
            not_ready.push("the kubelet's state has not been read yet".to_owned());
        }
        Health {
            not_live: Vec::new(),
            not_ready,
        }
    }

    fn update_gauges(&self, metrics: &Metrics) {
        if let Some(picture) = self.state().picture {
            crate::metrics::measure_ledger(metrics, &picture.ledger);
        }
        let ready = f64::from(u8::from(self.readiness().ready));
        metrics.set(&catalogue::READY, &[], ready);
        metrics.clear(&catalogue::NRI_CONNECTED);
        if let Some(publisher) = &self.publisher {
            let stale = publisher.stale_for().as_secs_f64();
            metrics.set(&catalogue::REPORT_STALE, &[], stale);
        }
    }
}
