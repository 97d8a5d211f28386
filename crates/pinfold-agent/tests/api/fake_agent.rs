//! [`FakeAgent`]: an agent with a real ledger and journal that pins no processes.

use std::path::Path;
use std::sync::{Arc, Mutex};

use pinfold_agent::http::{
    AdmissionResponse, Agent, AgentApiError, AgentStatus, ApiErrorKind, DaemonStatus, Health,
    JournalPage, PinResult, PinTarget, PodReport, RulesChangeReport,
};
use pinfold_agent::{JournaledLedger, Metrics};
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::name::PodUid;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::remedy::{self, Effort};
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;
use pinfold_journal::{FILE, JournalHistory, JournalLimits, JournalPodRecord, Timestamp};
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_render::explain;

pub(crate) struct FakeAgent {
    journaled: Mutex<JournaledLedger>,
    folder: std::path::PathBuf,
    pub(crate) not_ready: Mutex<Vec<String>>,
}

impl FakeAgent {
    /// A machine of two NUMA nodes with eight CPUs each, one core reserved.
    pub(crate) fn new(folder: &Path) -> Arc<Self> {
        let hardware = pinfold_hardware::open("2 sockets, 4 cores, smt2").expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("all of it");
        let settings = Settings {
            topology_policy: TopologyPolicy::SingleNumaNode,
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some("2".parse().expect("a quantity")),
            ..Settings::default()
        };
        let rules = Arc::new(Rules::new(machine.into(), settings).expect("rules"));
        let folder = folder.join("state");
        let journaled =
            JournaledLedger::open(&folder, rules, JournalLimits::default()).expect("a journal");
        Arc::new(Self {
            journaled: Mutex::new(journaled),
            folder,
            not_ready: Mutex::default(),
        })
    }

    fn journaled(&self) -> std::sync::MutexGuard<'_, JournaledLedger> {
        self.journaled.lock().expect("unpoisoned")
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "map_err passes the error by value"
)]
fn bad(error: impl ToString) -> AgentApiError {
    AgentApiError::new(ApiErrorKind::BadInput, error.to_string(), "")
}

fn no_such_pod(pod: &PodUid) -> AgentApiError {
    let error = format!("there is no pod {pod}");
    AgentApiError::new(ApiErrorKind::NotFound, error, "GET /v1/pods lists them")
}

/// The rules of the same machine with these settings.
fn rules(journaled: &JournaledLedger, bytes: &[u8]) -> Result<Arc<Rules>, AgentApiError> {
    let read = KubeletSettings::read("the settings", bytes, Fidelity::Sound).map_err(bad)?;
    let machine = journaled.ledger().rules().machine().clone();
    let rules = Rules::new(machine, read.value.settings(0, Fidelity::Sound));
    rules.map(Arc::new).map_err(bad)
}

impl Agent for FakeAgent {
    fn status(&self) -> AgentStatus {
        let journaled = self.journaled();
        let rules = journaled.ledger().rules();
        AgentStatus {
            version: "0.0.0".to_owned(),
            node: "agent".to_owned(),
            mode: "manage".to_owned(),
            topology_policy: rules.policy().name().to_owned(),
            topology_scope: rules.scope().name().to_owned(),
            generation: journaled.generation(),
            runtime_connected: None,
            problems: self.not_ready.lock().expect("unpoisoned").clone(),
            takeover: None,
            drift: None,
            best_effort_cpus: None,
            occupancy: journaled.ledger().occupancy(),
        }
    }

    fn pods(&self) -> Vec<PodReport> {
        PodReport::all(self.journaled().ledger())
    }

    fn admit(&self, manifest: &[u8]) -> Result<AdmissionResponse, AgentApiError> {
        let read = pinfold_kube::pod::read("the pod", manifest).map_err(bad)?;
        let Some(object) = read.value.into_iter().next() else {
            return Err(bad("expected a pod, found nothing"));
        };
        let pod = Arc::new(object.pod);
        let mut journaled = self.journaled();
        let before: Ledger = journaled.ledger().clone();
        let decision = journaled.admit(
            &pod,
            JournalPodRecord::default(),
            &mut NoPreference,
            Timestamp::UNIX_EPOCH,
        );
        let decision = decision
            .map_err(|error| AgentApiError::new(ApiErrorKind::Conflict, error.to_string(), ""))?;
        match PodReport::of(journaled.ledger(), &pod.uid) {
            Some(report) => Ok(AdmissionResponse {
                pod: report,
                generation: journaled.generation(),
                explanation: explain::admission(&pod.name, &decision, explain::WIDTH)
                    .lines()
                    .map(str::to_owned)
                    .collect(),
            }),
            None => {
                let remedies = remedy::find(&before, &pod, &mut NoPreference, Effort::default());
                Err(AgentApiError::rejected(
                    &pod.name,
                    &decision,
                    remedies.ok().as_ref(),
                ))
            }
        }
    }

    fn release(&self, pod: &PodUid) -> Result<(), AgentApiError> {
        let released = self.journaled().release(pod, Timestamp::UNIX_EPOCH);
        released.map_err(|_| no_such_pod(pod))
    }

    fn pin(&self, pod: &PodUid, target: &PinTarget) -> Result<PinResult, AgentApiError> {
        let report =
            PodReport::of(self.journaled().ledger(), pod).ok_or_else(|| no_such_pod(pod))?;
        let container = report
            .containers
            .into_iter()
            .next()
            .ok_or_else(|| no_such_pod(pod))?;
        Ok(PinResult {
            cpus: container.cpus,
            memory_nodes: container.memory_nodes,
            method: match &target.cgroup {
                Some(path) => path.display().to_string(),
                None => "affinity".to_owned(),
            },
        })
    }

    fn plan(&self, bytes: &[u8]) -> Result<RulesChangeReport, AgentApiError> {
        let journaled = self.journaled();
        let plan = journaled
            .plan_rules_change(&rules(&journaled, bytes)?)
            .map_err(bad)?;
        Ok(plan.report(journaled.ledger()))
    }

    fn apply(&self, bytes: &[u8]) -> Result<RulesChangeReport, AgentApiError> {
        let mut journaled = self.journaled();
        let plan = journaled
            .plan_rules_change(&rules(&journaled, bytes)?)
            .map_err(bad)?;
        let mut report = plan.report(journaled.ledger());
        let applied = journaled.apply_rules_change(plan, Timestamp::UNIX_EPOCH);
        applied
            .map_err(|error| AgentApiError::new(ApiErrorKind::Conflict, error.to_string(), ""))?;
        report.applied = true;
        report.generation = journaled.generation();
        Ok(report)
    }

    fn journal(&self, after: u64, limit: usize) -> Result<JournalPage, AgentApiError> {
        let history = JournalHistory::read(&self.folder.join(FILE)).map_err(bad)?;
        let last_number = history.last_number();
        let entries = history.entries.into_iter();
        let entries = entries.filter(|entry| entry.number > after).take(limit);
        Ok(JournalPage {
            entries: entries.collect(),
            last_number,
        })
    }
}

impl DaemonStatus for FakeAgent {
    fn health(&self) -> Health {
        Health {
            not_live: Vec::new(),
            not_ready: self.not_ready.lock().expect("unpoisoned").clone(),
        }
    }

    fn update_gauges(&self, metrics: &Metrics) {
        pinfold_agent::metrics::measure_ledger(metrics, self.journaled().ledger());
    }
}
