//! An agent that keeps a ledger and pins nothing.

use std::path::Path;
use std::sync::{Arc, Mutex};

use pinfold_agent::http::{
    Admitted, Agent, ApiError, Enforced, ErrorKind, Health, JournalPage, PlanReport, PodReport,
    Probed, Status, Target,
};
use pinfold_agent::{Keeper, Metrics};
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::name::PodUid;
use pinfold_core::remedy::{self, Effort};
use pinfold_core::settings::Settings;
use pinfold_journal::FILE;
use pinfold_journal::{History, Limits, Note, Timestamp};
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_render::explain;

pub(crate) struct Desk {
    keeper: Mutex<Keeper>,
    folder: std::path::PathBuf,
    pub(crate) waiting: Mutex<Vec<String>>,
}

impl Desk {
    /// A machine of two NUMA nodes with eight CPUs each, one core reserved.
    pub(crate) fn new(folder: &Path) -> Arc<Self> {
        let hardware = pinfold_hardware::open("2 sockets, 4 cores, smt2").expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("all of it");
        let settings = Settings {
            topology_policy: "single-numa-node".to_owned(),
            cpu_policy: "static".to_owned(),
            reserved_cpu: Some("2".parse().expect("a quantity")),
            ..Settings::default()
        };
        let rules = Arc::new(Rules::new(machine.into(), settings).expect("rules"));
        let folder = folder.join("state");
        let keeper = Keeper::open(&folder, rules, Limits::default()).expect("a journal");
        Arc::new(Self {
            keeper: Mutex::new(keeper),
            folder,
            waiting: Mutex::default(),
        })
    }

    fn keeper(&self) -> std::sync::MutexGuard<'_, Keeper> {
        self.keeper.lock().expect("unpoisoned")
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
fn bad(error: impl ToString) -> ApiError {
    ApiError::new(ErrorKind::BadInput, error.to_string(), "")
}

fn not_here(pod: &PodUid) -> ApiError {
    let error = format!("there is no pod {pod}");
    ApiError::new(ErrorKind::NotFound, error, "GET /v1/pods lists them")
}

fn settings(bytes: &[u8]) -> Result<Settings, ApiError> {
    let read = KubeletSettings::read("the settings", bytes, Fidelity::Sound).map_err(bad)?;
    Ok(read.value.settings(0, Fidelity::Sound))
}

impl Agent for Desk {
    fn status(&self) -> Status {
        let keeper = self.keeper();
        let rules = keeper.ledger().rules();
        Status {
            version: "0.0.0".to_owned(),
            node: "desk".to_owned(),
            mode: "manage".to_owned(),
            policy: rules.policy().name().to_owned(),
            scope: rules.scope().name().to_owned(),
            generation: keeper.generation(),
            runtime: None,
            problems: self.waiting.lock().expect("unpoisoned").clone(),
            takeover: None,
            occupancy: keeper.ledger().occupancy(),
        }
    }

    fn pods(&self) -> Vec<PodReport> {
        PodReport::all(self.keeper().ledger())
    }

    fn admit(&self, manifest: &[u8]) -> Result<Admitted, ApiError> {
        let read = pinfold_kube::pod::read("the pod", manifest).map_err(bad)?;
        let Some(object) = read.value.into_iter().next() else {
            return Err(bad("expected a pod, found nothing"));
        };
        let pod = Arc::new(object.pod);
        let mut keeper = self.keeper();
        let before: Ledger = keeper.ledger().clone();
        let decision = keeper.admit(&pod, Note::default(), &mut NoPreference, Timestamp(0));
        let decision =
            decision.map_err(|error| ApiError::new(ErrorKind::Conflict, error.to_string(), ""))?;
        match PodReport::of(keeper.ledger(), &pod.uid) {
            Some(report) => Ok(Admitted {
                pod: report,
                generation: keeper.generation(),
                explanation: explain::admission(&pod.name, &decision)
                    .lines()
                    .map(str::to_owned)
                    .collect(),
            }),
            None => {
                let remedies = remedy::find(&before, &pod, &mut NoPreference, Effort::default());
                Err(ApiError::rejected(
                    &pod.name,
                    &decision,
                    remedies.ok().as_ref(),
                ))
            }
        }
    }

    fn release(&self, pod: &PodUid) -> Result<(), ApiError> {
        let released = self.keeper().release(pod, Timestamp(0));
        released.map_err(|_| not_here(pod))
    }

    fn enforce(&self, pod: &PodUid, target: &Target) -> Result<Enforced, ApiError> {
        let report = PodReport::of(self.keeper().ledger(), pod).ok_or_else(|| not_here(pod))?;
        let container = report
            .containers
            .into_iter()
            .next()
            .ok_or_else(|| not_here(pod))?;
        Ok(Enforced {
            cpus: container.cpus,
            memory_nodes: container.memory_nodes,
            held_by: match &target.cgroup {
                Some(path) => path.display().to_string(),
                None => "affinity".to_owned(),
            },
        })
    }

    fn plan(&self, bytes: &[u8]) -> Result<PlanReport, ApiError> {
        let keeper = self.keeper();
        let plan = keeper.plan_settings(settings(bytes)?).map_err(bad)?;
        Ok(plan.report(keeper.ledger()))
    }

    fn apply(&self, bytes: &[u8]) -> Result<PlanReport, ApiError> {
        let mut keeper = self.keeper();
        let plan = keeper.plan_settings(settings(bytes)?).map_err(bad)?;
        let mut report = plan.report(keeper.ledger());
        let applied = keeper.apply(plan, Timestamp(0));
        applied.map_err(|error| ApiError::new(ErrorKind::Conflict, error.to_string(), ""))?;
        report.applied = true;
        report.generation = keeper.generation();
        Ok(report)
    }

    fn journal(&self, after: u64, most: usize) -> Result<JournalPage, ApiError> {
        let history = History::read(&self.folder.join(FILE)).map_err(bad)?;
        let last = history.last();
        let entries = history.entries.into_iter();
        let entries = entries.filter(|entry| entry.number > after).take(most);
        Ok(JournalPage {
            entries: entries.collect(),
            last,
        })
    }
}

impl Probed for Desk {
    fn health(&self) -> Health {
        Health {
            broken: Vec::new(),
            waiting: self.waiting.lock().expect("unpoisoned").clone(),
        }
    }

    fn measure(&self, metrics: &Metrics) {
        pinfold_agent::metrics::measure_ledger(metrics, self.keeper().ledger());
    }
}
