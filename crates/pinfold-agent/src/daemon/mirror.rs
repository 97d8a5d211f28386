//! Mirror mode: the kubelet decides; we only look and tell.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_core::name::PodUid;

use super::DaemonError;
use super::cluster;
use super::place::{self, Place};
use super::surfaces::Surfaces;
use crate::config::{AgentConfig, Publication};
use crate::http::{
    Admitted, Agent, ApiError, Enforced, ErrorKind, Health, JournalPage, PlanReport, PodReport,
    Probed, Status, Target,
};
use crate::kubernetes::{Object, Report};
use crate::metrics::Metrics;
use crate::mirror::{Mirror, Places, objects};
use pinfold_daemon::control::{Control, Wish};
use pinfold_daemon::logs::Log;

/// A node that a kubelet runs.
struct Mirrored {
    name: String,
    mirror: Mutex<Mirror>,
}

impl Mirrored {
    fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn run(config: &AgentConfig, control: &Control, log: &Log) -> Result<(), DaemonError> {
    let place = Place::look()?;
    let name = place::name(config);
    let places = Places {
        config: config
            .rules_file()
            .unwrap_or_else(|| config.kubelet.root.join("config.yaml")),
        root: config.kubelet.root.clone(),
        pod_resources: Some(config.pod_resources.kubelet.clone()),
    };
    let mirrored = Arc::new(Mirrored {
        name: name.clone(),
        mirror: Mutex::new(Mirror::new(place.machine, place.memory, places)),
    });
    let kubernetes = cluster::link(config, &name, log)?;
    let metrics = Arc::new(crate::metrics::registry());
    let agent: Arc<dyn Agent> = mirrored.clone();
    let _surfaces = Surfaces::open(config, &agent, &metrics, None)?;
    log.info("started", &[("node", &name), ("mode", &"mirror")]);
    let mut generation = 0;
    let mut remarked = Vec::new();
    loop {
        let mut mirror = mirrored.mirror();
        if mirror.look() {
            generation += 1;
            if let (Some(picture), Some(link)) = (mirror.picture(), &kubernetes) {
                let published = objects(picture, &name);
                let wants = |publication| config.kubernetes.publish.contains(&publication);
                let mut told = Vec::new();
                if wants(Publication::V1alpha2) || wants(Publication::V1alpha1) {
                    told.push(Object::topology(&published.koordinator));
                }
                if wants(Publication::Numatopology) {
                    told.push(Object::numatopology(&published.numatopology));
                }
                link.publisher().publish(Report {
                    generation,
                    objects: told,
                });
            }
        }
        if mirror.remarks() != remarked {
            remarked = mirror.remarks().to_vec();
            for remark in &remarked {
                log.warn("mirror", &[("what", remark)]);
            }
        }
        drop(mirror);
        if control.next(config.kubernetes.every) == Some(Wish::Stop) {
            log.info("stopping", &[]);
            return Ok(());
        }
    }
}

/// Everything that would change something.
fn not_ours<T>() -> Result<T, ApiError> {
    let error = "the kubelet decides on this node; the agent only mirrors it";
    let hint = "set mode: manage to have the agent decide";
    Err(ApiError::new(ErrorKind::NotHere, error, hint))
}

impl Agent for Mirrored {
    fn status(&self) -> Status {
        let mirror = self.mirror();
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.name.clone(),
            mode: "mirror".to_owned(),
            problems: mirror.remarks().iter().map(ToString::to_string).collect(),
            ..Status::default()
        };
        if let Some(picture) = mirror.picture() {
            let rules = picture.ledger.rules();
            rules.policy().name().clone_into(&mut status.policy);
            rules.scope().name().clone_into(&mut status.scope);
            status.occupancy = picture.ledger.occupancy();
        }
        status
    }

    fn pods(&self) -> Vec<PodReport> {
        let mirror = self.mirror();
        let picture = mirror.picture();
        picture.map_or_else(Vec::new, |picture| PodReport::all(&picture.ledger))
    }

    fn admit(&self, _: &[u8]) -> Result<Admitted, ApiError> {
        not_ours()
    }

    fn release(&self, _: &PodUid) -> Result<(), ApiError> {
        not_ours()
    }

    fn enforce(&self, _: &PodUid, _: &Target) -> Result<Enforced, ApiError> {
        not_ours()
    }

    fn plan(&self, _: &[u8]) -> Result<PlanReport, ApiError> {
        not_ours()
    }

    fn apply(&self, _: &[u8]) -> Result<PlanReport, ApiError> {
        not_ours()
    }

    fn journal(&self, _: u64, _: usize) -> Result<JournalPage, ApiError> {
        not_ours()
    }
}

impl Probed for Mirrored {
    fn health(&self) -> Health {
        let mirror = self.mirror();
        let waiting = match mirror.picture() {
            Some(_) => Vec::new(),
            None => mirror.remarks().iter().map(ToString::to_string).collect(),
        };
        Health {
            broken: Vec::new(),
            waiting,
        }
    }

    fn measure(&self, metrics: &Metrics) {
        if let Some(picture) = self.mirror().picture() {
            crate::metrics::measure_ledger(metrics, &picture.ledger);
        }
    }
}
