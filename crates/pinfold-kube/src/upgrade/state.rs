//! The state files under another version: which of them it does not read, or does not start from.

use std::sync::Arc;

use pinfold_core::demand::PodLevel;
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, RestartError, Restarted, Rules, SavedState};
use pinfold_core::pod::Pod;

use super::StateFileProblem;
use crate::state::KubeletManager;
use crate::state::cpu::CpuStateFormat;
use crate::state::memory::MemoryStateFormat;

/// The formats of a node's state files; `None` for a file that is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateFormats {
    /// Of `cpu_manager_state`.
    pub cpu: Option<CpuStateFormat>,
    /// Of `memory_manager_state`.
    pub memory: Option<MemoryStateFormat>,
}

impl StateFormats {
    /// The formats that a kubelet with these rules writes.
    #[must_use]
    pub fn written_by(rules: &Rules) -> Self {
        let has_pods =
            rules.pod_level() == PodLevel::Managed && rules.fidelity().reads_pod_entries();
        Self {
            cpu: Some(match rules.fidelity() {
                fidelity if fidelity.copies_state() => CpuStateFormat::V4,
                _ if has_pods => CpuStateFormat::V3,
                _ => CpuStateFormat::V2,
            }),
            memory: Some(match rules.fidelity() {
                fidelity if fidelity.copies_state() => MemoryStateFormat::V3,
                _ if has_pods => MemoryStateFormat::V2,
                _ => MemoryStateFormat::V1,
            }),
        }
    }
}

/// Why a version does not read a CPU state file of this format.
fn unread_cpus(format: CpuStateFormat, rules: &Rules) -> Option<String> {
    match format {
        CpuStateFormat::V1 if rules.fidelity().copies_state() => {
            Some("its entries are by container id".to_owned())
        }
        CpuStateFormat::V3 => without_pod_entries(rules),
        CpuStateFormat::V1 | CpuStateFormat::V2 | CpuStateFormat::V4 => None,
    }
}

/// Why a version does not read a memory state file of this format.
fn unread_memory(format: MemoryStateFormat, rules: &Rules) -> Option<String> {
    match format {
        // Every version reads the fields of format 3 that format 1 has too.
        MemoryStateFormat::V1 | MemoryStateFormat::V3 => None,
        MemoryStateFormat::V2 => without_pod_entries(rules),
    }
}

fn without_pod_entries(rules: &Rules) -> Option<String> {
    let read = rules.fidelity().reads_pod_entries() && rules.pod_level() == PodLevel::Managed;
    (!read).then(|| {
        "it was written with the gate PodLevelResourceManagers, which is off or not known"
            .to_owned()
    })
}

/// The state files with which the new version does not start, and the state that is left without them. `to` is the
/// node without pods under the new version.
pub(super) fn problems(
    ledger: &Ledger,
    to: &Ledger,
    formats: StateFormats,
) -> (Vec<StateFileProblem>, SavedState) {
    let (old, new) = (ledger.rules(), to.rules());
    let mut saved = saved_state(ledger);
    let mut found = Vec::new();
    if let Some(problem) = formats.cpu.and_then(|format| unread_cpus(format, new)) {
        found.push(unread(KubeletManager::Cpu, &problem, new));
        saved.cpus = to.state().cpus().clone();
    }
    if let Some(problem) = formats.memory.and_then(|format| unread_memory(format, new)) {
        found.push(unread(KubeletManager::Memory, &problem, new));
        saved.memory = to.state().memory().clone();
    }
    let today = restart(ledger, old.clone(), saved_state(ledger)).err();
    for _ in [KubeletManager::Cpu, KubeletManager::Memory] {
        let Err(error) = restart(ledger, new.clone(), saved.clone()) else {
            break;
        };
        let same = today.as_ref() == Some(&error);
        let (manager, message) = match &error {
            RestartError::Cpus(error) => (KubeletManager::Cpu, error.to_string()),
            RestartError::Memory(error) => (KubeletManager::Memory, error.to_string()),
            // Only states of Pinfold's own agent are audited, and admitted pods are valid.
            _ => break,
        };
        match manager {
            KubeletManager::Cpu => saved.cpus = to.state().cpus().clone(),
            _ => saved.memory = to.state().memory().clone(),
        }
        found.push(StateFileProblem {
            manager,
            problem: match reserved_moved(old, new) && manager == KubeletManager::Cpu {
                true => format!(
                    "kubelet {} reserves CPUs {} for the system, kubelet {} reserves {}",
                    old.fidelity().version(),
                    old.reserved_cpus(),
                    new.fidelity().version(),
                    new.reserved_cpus()
                ),
                false => {
                    "its content does not fit what the kubelet computes at its start".to_owned()
                }
            },
            message: Some(message),
            today: same,
        });
    }
    (found, saved)
}

fn unread(manager: KubeletManager, problem: &str, rules: &Rules) -> StateFileProblem {
    StateFileProblem {
        manager,
        problem: format!(
            "kubelet {} does not read it: {problem}",
            version(rules.fidelity())
        ),
        message: None,
        today: false,
    }
}

fn version(fidelity: Fidelity) -> String {
    fidelity.version().to_string()
}

fn reserved_moved(old: &Rules, new: &Rules) -> bool {
    old.reserved_cpus() != new.reserved_cpus()
}

/// The content of the state files of a node.
pub(super) fn saved_state(ledger: &Ledger) -> SavedState {
    let state = ledger.state();
    SavedState {
        cpus: state.cpus().clone(),
        memory: state.memory().clone(),
        devices: state.devices().clone(),
    }
}

/// The pods of a node in the order of their admission.
pub(super) fn pods_of(ledger: &Ledger) -> Vec<Arc<Pod>> {
    let admitted = ledger.admitted_pods().into_iter();
    admitted.map(|admitted| admitted.pod.clone()).collect()
}

/// A restart of the node's kubelet with these rules and state files.
pub(super) fn restart(
    ledger: &Ledger,
    rules: Arc<Rules>,
    saved: SavedState,
) -> Result<Restarted, RestartError> {
    let (pods, pool) = (pods_of(ledger), ledger.state().pool().clone());
    let restarted = Ledger::restart_from(rules, saved, pool, &pods, &mut NoPreference);
    restarted.map(|(_, restarted)| restarted)
}
