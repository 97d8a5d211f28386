//! Mirror mode: the kubelet decides; we only look and tell.

use std::sync::{Arc, Mutex, PoisonError};

use pinfold_core::name::PodUid;

use super::AgentError;
use super::api_server;
use super::host::{self, LocalMachine};
use super::listeners::{self, Listeners};
use super::service::now;
use crate::config::{AgentConfig, Publication};
use crate::http::{
    AdmittedPod, Agent, AgentApiError, AgentStatus, ApiErrorKind, DaemonStatus, Health,
    JournalPage, PinResult, PinTarget, PodReport, RulesChangeReport,
};
use crate::kubernetes::{Object, Report};
use crate::metrics::Metrics;
use crate::mirror::{Configz, Mirror, Picture, Places, objects};
use pinfold_daemon::signals::{Signal, SignalReceiver};

/// A node that a kubelet runs, as it was when it was last looked at.
struct MirrorService {
    name: String,
    state: Mutex<MirrorState>,
}

#[derive(Clone, Default)]
struct MirrorState {
    picture: Option<Arc<Picture>>,
    remarks: Vec<String>,
    generation: u64,
}

impl MirrorService {
    fn state(&self) -> MirrorState {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This is how it is now.
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
    let service = Arc::new(MirrorService {
        name: name.clone(),
        state: Mutex::default(),
    });
    let metrics = listeners::metrics();
    let kubernetes = api_server::connect(config, &name, &metrics)?;
    let agent: Arc<dyn Agent> = service.clone();
    let pod_resources = None;
    let _listeners = Listeners::open(config, &agent, &metrics, pod_resources)?;
    tracing::info!(node = %name, mode = "mirror", "started");
    // There is no journal to count by. Milliseconds of now are more than any count that began earlier has reached.
    let mut generation = now().as_millisecond().unsigned_abs();
    let mut logged_remarks = Vec::new();
    let mut online = host::online_cpus();
    loop {
        let seen = host::online_cpus();
        if seen != online {
            // The kubelet has to be restarted for that too.
            match self::mirror(config, &name) {
                Ok(new) => (mirror, online) = (new, seen),
                Err(error) => tracing::error!(why = %error, "machine"),
            }
        }
        // Nobody waits for this: whoever asks meanwhile is told what was so before.
        if mirror.look() {
            generation += 1;
            let picture = mirror.picture().cloned().map(Arc::new);
            if let (Some(picture), Some(link)) = (&picture, &kubernetes) {
                link.publisher()
                    .publish(report(picture, &name, config, generation));
            }
            service.set_state(MirrorState {
                picture,
                remarks: mirror.remarks().iter().map(ToString::to_string).collect(),
                generation,
            });
        }
        if mirror.remarks() != logged_remarks {
            logged_remarks = mirror.remarks().to_vec();
            for remark in &logged_remarks {
                tracing::warn!(what = %remark, "mirror");
            }
        }
        match control.wait(config.kubernetes.every) {
            Some(Signal::Stop) => {
                tracing::info!("stopping");
                return Ok(());
            }
            // The kubelet's configuration is read again all the time.
            Some(Signal::Reload) => match reread() {
                Ok(new) => {
                    for field in config.needs_restart(&new) {
                        tracing::warn!(%field, "needs-restart");
                    }
                }
                Err(error) => tracing::error!(why = %error, "not-reloaded"),
            },
            None => {}
        }
    }
}

/// What is looked at, as configured.
fn mirror(config: &AgentConfig, name: &str) -> Result<Mirror, AgentError> {
    let machine = LocalMachine::detect()?;
    let places = Places {
        config: config
            .rules_file()
            .unwrap_or_else(|| config.kubelet.root.join("config.yaml")),
        root: config.kubelet.root.clone(),
        pod_resources: Some(config.pod_resources.kubelet.clone()),
    };
    let mirror = Mirror::new(machine.machine, machine.memory, places);
    Ok(match &config.kubelet.endpoint {
        Some(endpoint) if !config.takeover.disable_query_kubelet_config => mirror.asking(Configz {
            endpoint: endpoint.clone(),
            name: name.to_owned(),
            authority: config.kubelet.authority.clone(),
            token: config.kubelet.token.clone(),
        }),
        _ => mirror,
    })
}

/// The objects for schedulers.
fn report(picture: &Picture, name: &str, config: &AgentConfig, generation: u64) -> Report {
    let published = objects(picture, name);
    let wants = |publication| config.kubernetes.publish.contains(&publication);
    let mut objects = Vec::new();
    if wants(Publication::V1alpha2) || wants(Publication::V1alpha1) {
        objects.push(Object::topology(&published.koordinator));
    }
    if wants(Publication::Numatopology) {
        objects.push(Object::numatopology(&published.numatopology));
    }
    Report {
        generation,
        objects,
    }
}

/// Everything that would change something.
fn mirror_only<T>() -> Result<T, AgentApiError> {
    let error = "the kubelet decides on this node; the agent only mirrors it";
    let hint = "set mode: manage to have the agent decide";
    Err(AgentApiError::new(ApiErrorKind::Unsupported, error, hint))
}

impl Agent for MirrorService {
    fn status(&self) -> AgentStatus {
        let state = self.state();
        let mut status = AgentStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.name.clone(),
            mode: "mirror".to_owned(),
            generation: state.generation,
            problems: state.remarks,
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

    fn admit(&self, _: &[u8]) -> Result<AdmittedPod, AgentApiError> {
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

impl DaemonStatus for MirrorService {
    fn health(&self) -> Health {
        let state = self.state();
        let mut not_ready = match state.picture {
            Some(_) => return Health::default(),
            None => state.remarks,
        };
        if not_ready.is_empty() {
            not_ready.push("the kubelet has not been looked at yet".to_owned());
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
    }
}
