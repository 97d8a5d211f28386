//! Mirror mode: the kubelet decides; we only look and tell.

use std::sync::{Arc, Mutex, PoisonError};

use pinfold_core::name::PodUid;

use super::DaemonError;
use super::cluster;
use super::place::{self, Place};
use super::service::now;
use super::surfaces::{self, Surfaces};
use crate::config::{AgentConfig, PublishedObject};
use crate::http::{
    AdmittedPod, Agent, AgentApiError, AgentStatus, ApiErrorKind, Health, JournalPage, PinResult,
    PinTarget, PodReport, Probed, RulesChangeReport,
};
use crate::kubernetes::{NodeObject, NodeReport};
use crate::metrics::Metrics;
use crate::mirror::{Configz, KubeletPaths, Mirror, MirrorSnapshot, objects};
use pinfold_daemon::control::{Control, Wish};
use pinfold_daemon::logs::Log;

/// A node that a kubelet runs, as it was when it was last looked at.
struct Mirrored {
    name: String,
    seen: Mutex<Seen>,
}

#[derive(Clone, Default)]
struct Seen {
    picture: Option<Arc<MirrorSnapshot>>,
    remarks: Vec<String>,
    generation: u64,
}

impl Mirrored {
    fn seen(&self) -> Seen {
        let seen = self.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This is how it is now.
    fn see(&self, seen: Seen) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }
}

pub(super) fn run(
    config: &AgentConfig,
    reread: &dyn Fn() -> Result<AgentConfig, String>,
    control: &Control,
    log: &Log,
) -> Result<(), DaemonError> {
    let name = place::name(config);
    let mut mirror = mirror(config, &name)?;
    let mirrored = Arc::new(Mirrored {
        name: name.clone(),
        seen: Mutex::default(),
    });
    let metrics = surfaces::metrics();
    let kubernetes = cluster::link(config, &name, log, &metrics)?;
    let agent: Arc<dyn Agent> = mirrored.clone();
    let pod_resources = None;
    let _surfaces = Surfaces::open(config, &agent, &metrics, pod_resources)?;
    log.info("started", &[("node", &name), ("mode", &"mirror")]);
    // There is no journal to count by. Milliseconds of now are more than any count that began earlier has reached.
    let mut generation = now().0;
    let mut remarked = Vec::new();
    let mut online = place::online();
    loop {
        let seen = place::online();
        if seen != online {
            // The kubelet has to be restarted for that too.
            match self::mirror(config, &name) {
                Ok(new) => (mirror, online) = (new, seen),
                Err(error) => log.error("machine", &[("why", &error)]),
            }
        }
        // Nobody waits for this: whoever asks meanwhile is told what was so before.
        if mirror.poll() {
            generation += 1;
            let picture = mirror.snapshot().cloned().map(Arc::new);
            if let (Some(picture), Some(link)) = (&picture, &kubernetes) {
                link.publisher()
                    .publish(report(picture, &name, config, generation));
            }
            mirrored.see(Seen {
                picture,
                remarks: mirror.problems().iter().map(ToString::to_string).collect(),
                generation,
            });
        }
        if mirror.problems() != remarked {
            remarked = mirror.problems().to_vec();
            for remark in &remarked {
                log.warn("mirror", &[("what", remark)]);
            }
        }
        match control.next(config.kubernetes.publish_interval) {
            Some(Wish::Stop) => {
                log.info("stopping", &[]);
                return Ok(());
            }
            // The kubelet's configuration is read again all the time.
            Some(Wish::Reload) => match reread() {
                Ok(new) => {
                    for field in config.needs_restart(&new) {
                        log.warn("needs-restart", &[("field", &field)]);
                    }
                }
                Err(error) => log.error("not-reloaded", &[("why", &error)]),
            },
            None => {}
        }
    }
}

/// What is looked at, as configured.
fn mirror(config: &AgentConfig, name: &str) -> Result<Mirror, DaemonError> {
    let place = Place::look()?;
    let places = KubeletPaths {
        config: config
            .rules_file()
            .unwrap_or_else(|| config.kubelet.root_directory.join("config.yaml")),
        root: config.kubelet.root_directory.clone(),
        pod_resources: Some(config.pod_resources.kubelet_socket.clone()),
    };
    let mirror = Mirror::new(place.machine, place.memory, places);
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

/// The objects for schedulers.
fn report(
    picture: &MirrorSnapshot,
    name: &str,
    config: &AgentConfig,
    generation: u64,
) -> NodeReport {
    let published = objects(picture, name);
    let wants = |publication| config.kubernetes.publish.contains(&publication);
    let mut objects = Vec::new();
    if wants(PublishedObject::V1alpha2) || wants(PublishedObject::V1alpha1) {
        objects.push(NodeObject::topology(&published.koordinator));
    }
    if wants(PublishedObject::Numatopology) {
        objects.push(NodeObject::numatopology(&published.numatopology));
    }
    NodeReport {
        generation,
        objects,
    }
}

/// Everything that would change something.
fn not_ours<T>() -> Result<T, AgentApiError> {
    let error = "the kubelet decides on this node; the agent only mirrors it";
    let hint = "set mode: manage to have the agent decide";
    Err(AgentApiError::new(ApiErrorKind::Unsupported, error, hint))
}

impl Agent for Mirrored {
    fn status(&self) -> AgentStatus {
        let seen = self.seen();
        let mut status = AgentStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.name.clone(),
            mode: "mirror".to_owned(),
            generation: seen.generation,
            problems: seen.remarks,
            ..AgentStatus::default()
        };
        if let Some(picture) = seen.picture {
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
        let picture = self.seen().picture;
        picture.map_or_else(Vec::new, |picture| PodReport::all(&picture.ledger))
    }

    fn admit(&self, _: &[u8]) -> Result<AdmittedPod, AgentApiError> {
        not_ours()
    }

    fn release(&self, _: &PodUid) -> Result<(), AgentApiError> {
        not_ours()
    }

    fn pin(&self, _: &PodUid, _: &PinTarget) -> Result<PinResult, AgentApiError> {
        not_ours()
    }

    fn plan(&self, _: &[u8]) -> Result<RulesChangeReport, AgentApiError> {
        not_ours()
    }

    fn apply(&self, _: &[u8]) -> Result<RulesChangeReport, AgentApiError> {
        not_ours()
    }

    fn journal(&self, _: u64, _: usize) -> Result<JournalPage, AgentApiError> {
        not_ours()
    }
}

impl Probed for Mirrored {
    fn health(&self) -> Health {
        let seen = self.seen();
        let mut waiting = match seen.picture {
            Some(_) => return Health::default(),
            None => seen.remarks,
        };
        if waiting.is_empty() {
            waiting.push("the kubelet has not been looked at yet".to_owned());
        }
        Health {
            broken: Vec::new(),
            waiting,
        }
    }

    fn measure(&self, metrics: &Metrics) {
        if let Some(picture) = self.seen().picture {
            crate::metrics::measure_ledger(metrics, &picture.ledger);
        }
    }
}
