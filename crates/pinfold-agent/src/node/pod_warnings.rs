//! [`PodWarning`]: what happened to a running pod that its user has to know, for the pod's Events.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::Assignment;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::PodUid;
use pinfold_kube::pod::PodIdentity;

use super::pod_end::identity;
use super::{ManagedNode, SyncChange};
use crate::journaled_ledger::{PodOutcome, RulesChange};
use crate::kubernetes::{EventReason, MOVED, STARTED_UNPINNED};

/// A warning about a running pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodWarning {
    /// The pod.
    pub pod: PodIdentity,
    /// The reason of the Event.
    pub reason: EventReason,
    /// The message of the Event.
    pub message: String,
}

impl ManagedNode {
    /// UID and name of the pod behind a UID of the ledger; `None` if the node does not have the pod.
    #[must_use]
    pub fn pod_identity(&self, resident: &PodUid) -> Option<PodIdentity> {
        let pod = identity(resident, "").uid;
        let mut sandboxes = self.sandboxes.values();
        let sandbox = sandboxes.find(|sandbox| sandbox.uid == pod);
        let admitted = self.journaled.ledger().state().admitted_pods();
        let admitted = admitted.get(resident);
        let named = admitted.map(|admitted| identity(resident, &admitted.pod.name));
        sandbox.map(super::Sandbox::identity).or(named)
    }

    /// The warning about a pod that was found running and not in the journal; `None` if it has no CPUs of its own that it
    /// could have missed.
    #[must_use]
    pub fn unpinned_start(&self, change: &SyncChange) -> Option<PodWarning> {
        let (resident, message) = match change {
            SyncChange::Adopted(resident) => {
                let cpus = self.journaled.ledger().exclusive_cpus(resident);
                if cpus.is_empty() {
                    return None;
                }
                let message = format!(
                    "started while the agent was not connected, ran unpinned until now, and has CPUs {cpus}"
                );
                (resident, message)
            }
            SyncChange::UsesSharedPool { pod, why } => {
                let message =
                    format!("started while the agent was not connected and runs unpinned: {why}");
                (pod, message)
            }
            SyncChange::Released(_) | SyncChange::KeptKubeletCpus { .. } => return None,
        };
        Some(PodWarning {
            pod: self.pod_identity(resident)?,
            reason: STARTED_UNPINNED,
            message,
        })
    }
}

/// The warnings about the pods that a change of the rules moves. `ledger` has their places before the change.
#[must_use]
pub fn moves(plan: &RulesChange, ledger: &Ledger) -> Vec<PodWarning> {
    let moved = plan.outcomes.iter().filter_map(|(resident, outcome)| {
        let (to, needs_restart, unaligned) = match outcome {
            PodOutcome::Moved { to, needs_restart } => (to, *needs_restart, None),
            PodOutcome::Unaligned {
                reason,
                to,
                needs_restart,
            } => (to, *needs_restart, Some(reason)),
            PodOutcome::Unchanged | PodOutcome::Unplaceable { .. } => return None,
        };
        let admitted = ledger.state().admitted_pods().get(resident)?;
        let (before, after) = (ledger.exclusive_cpus(resident), cpus(to));
        let mut message = "the settings or the online CPUs of the node changed: ".to_owned();
        message += &match (before == after, after.is_empty()) {
            (true, _) => "the pod has other memory or devices".to_owned(),
            (false, true) => format!("moved from CPUs {before} to the shared pool"),
            (false, false) if before.is_empty() => format!("moved to CPUs {after}"),
            (false, false) => format!("moved from CPUs {before} to CPUs {after}"),
        };
        if let Some(reason) = unaligned {
            message += &format!("; it is not aligned: {reason}");
        }
        if needs_restart {
            message += "; delete the pod to give it its new devices";
        }
        Some(PodWarning {
            pod: identity(resident, &admitted.pod.name),
            reason: MOVED,
            message,
        })
    });
    moved.collect()
}

fn cpus(assignment: &Assignment) -> CpuSet {
    let mut cpus = CpuSet::new();
    for container in &assignment.containers {
        if let Some(own) = &container.cpus {
            cpus |= own;
        }
    }
    cpus
}
