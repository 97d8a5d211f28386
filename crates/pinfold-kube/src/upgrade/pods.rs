//! Running pods under another version: rejected or placed otherwise, at its start and when they are admitted anew.

use std::collections::BTreeMap;

use pinfold_core::decision::{Assignment, Decision, Rejection};
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::KubeletVersion;
use pinfold_core::ledger::{Ledger, Rules, SavedState};
use pinfold_core::name::PodUid;
use pinfold_core::pod::Pod;

use super::config::ConfigFile;
use super::state::{pods_of, restart, saved_state};
use super::{Placed, PodChange, PodOutcome, Readmission, gates};

const POD_LEVEL_RESOURCES: &str = "PodLevelResources";
/// The first version that rejects pods with pod-level resources while their gate is off.
const REJECTS_POD_LEVEL_RESOURCES: KubeletVersion = KubeletVersion::minor(34);

/// The name of a pod; its uid if it has none.
fn name(pod: &Pod) -> String {
    match pod.name.is_empty() {
        true => pod.uid.to_string(),
        false => pod.name.clone(),
    }
}

/// What a pod holds, with its CPUs by NUMA node.
pub(super) fn placed(assignment: Assignment, rules: &Rules, is_counted: bool) -> Placed {
    let topology = rules.topology();
    let cpus_on_nodes = topology.node_ids().iter().map(|node| {
        let of_node = topology.cpus_of_node(node);
        let own = assignment.containers.iter();
        let own = own.filter_map(|container| container.cpus.as_ref());
        let mut cpus = pinfold_core::cpu_set::CpuSet::new();
        own.for_each(|own| cpus |= own);
        (node, (&cpus & &of_node).len())
    });
    let cpus_on_nodes = cpus_on_nodes.filter(|(_, cpus)| *cpus > 0).collect();
    Placed {
        cpus_on_nodes,
        is_counted,
        assignment,
    }
}

/// Whether containers hold the same in both: hints do not matter.
fn is_same(one: &Assignment, other: &Assignment) -> bool {
    let (one, other) = (&one.containers, &other.containers);
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.name == other.name
                && one.cpus == other.cpus
                && one.memory.as_deref().unwrap_or_default()
                    == other.memory.as_deref().unwrap_or_default()
                && one.devices == other.devices
        })
}

fn rejected(rejection: &Rejection, today: bool) -> PodOutcome {
    PodOutcome::Rejected {
        reason: rejection.reason.to_string(),
        message: rejection.message.clone(),
        today,
    }
}

/// The pods that the new kubelet rejects or places otherwise when it starts with the state `saved`.
pub(super) fn restarted(ledger: &Ledger, to: &Ledger, saved: SavedState) -> Vec<PodChange> {
    let (old, new) = (ledger.rules(), to.rules());
    let rules = (old.as_ref(), new.as_ref());
    let today = restart(ledger, old.clone(), saved_state(ledger));
    let today: BTreeMap<PodUid, bool> = match today {
        Ok(restarted) => {
            let decisions = restarted.decisions.into_iter();
            decisions
                .map(|decision| (decision.pod.clone(), decision.is_admitted()))
                .collect()
        }
        Err(_) => BTreeMap::new(),
    };
    let Ok(restarted) = restart(ledger, new.clone(), saved) else {
        return Vec::new();
    };
    let pods = pods_of(ledger);
    let changes = pods.iter().zip(&restarted.decisions);
    let changes = changes.filter_map(|(pod, decision)| {
        let outcome = match (decision.rejection(), decision.assignment()) {
            (Some(rejection), _) => rejected(
                rejection,
                today.get(&pod.uid).is_some_and(|admitted| !admitted),
            ),
            (None, after) => {
                let before = ledger.assignment(&pod.uid)?;
                moved(before, after?.clone(), rules, false)?
            }
        };
        Some(PodChange {
            pod: name(pod),
            when: Readmission::Restart,
            outcome,
        })
    });
    changes.collect()
}

/// The pods that the new kubelet rejects or places otherwise than the old one when both admit the pods of `ledger` in
/// their order on the empty node.
pub(super) fn admitted_anew(ledger: &Ledger, to: &Ledger) -> Vec<PodChange> {
    let mut old = Ledger::new(ledger.rules().clone());
    let mut new = Ledger::new(to.rules().clone());
    let pool = ledger.state().pool();
    for resource in pool.resources() {
        for node in [&mut old, &mut new] {
            node.set_devices(resource.clone(), pool.devices(resource).cloned());
        }
    }
    compare(&mut old, &mut new, &pods_of(ledger), false).changes
}

/// Two nodes that admitted the same pods.
#[derive(Default)]
pub(super) struct Compared {
    /// What the new version decides otherwise.
    pub(super) changes: Vec<PodChange>,
    /// The pods that the old version rejects, and that are not compared.
    pub(super) rejected_before: Vec<String>,
}

/// Admits pods on the same node under both versions.
pub(super) fn compare(
    old: &mut Ledger,
    new: &mut Ledger,
    pods: &[std::sync::Arc<Pod>],
    is_counted: bool,
) -> Compared {
    let mut found = Compared::default();
    for pod in pods {
        let decide = |node: &mut Ledger| {
            let admission = node.admit(pod, &mut NoPreference).ok();
            admission.map(|admission| admission.decision)
        };
        let (Some(before), Some(after)) = (decide(&mut *old), decide(&mut *new)) else {
            continue;
        };
        let rules = (old.rules().as_ref(), new.rules().as_ref());
        match outcome(&before, &after, rules, is_counted) {
            Ok(Some(outcome)) => found.changes.push(PodChange {
                pod: name(pod),
                when: Readmission::Anew,
                outcome,
            }),
            Ok(None) => {}
            Err(RejectedBefore) => found.rejected_before.push(name(pod)),
        }
    }
    found
}

/// The old version rejects the pod.
struct RejectedBefore;

fn outcome(
    before: &Decision,
    after: &Decision,
    rules: (&Rules, &Rules),
    is_counted: bool,
) -> Result<Option<PodOutcome>, RejectedBefore> {
    let before = before.assignment().ok_or(RejectedBefore)?;
    if let Some(rejection) = after.rejection() {
        return Ok(Some(rejected(rejection, false)));
    }
    let after = after.assignment().cloned().unwrap_or_default();
    Ok(moved(before.clone(), after, rules, is_counted))
}

fn moved(
    before: Assignment,
    after: Assignment,
    (old, new): (&Rules, &Rules),
    is_counted: bool,
) -> Option<PodOutcome> {
    if is_same(&before, &after) {
        return None;
    }
    let before = placed(before, old, is_counted);
    let after = placed(after, new, is_counted);
    // Other ids that stand for the same counts are no difference.
    let same_memory = |one: &Placed, other: &Placed| {
        let blocks = |placed: &Placed| -> Vec<_> {
            let containers = placed.assignment.containers.iter();
            containers.map(|own| own.memory.clone()).collect()
        };
        blocks(one) == blocks(other)
    };
    let devices = |placed: &Placed| -> Vec<_> {
        let containers = placed.assignment.containers.iter();
        containers.map(|own| own.devices.clone()).collect()
    };
    let is_same = is_counted
        && before.cpus_on_nodes == after.cpus_on_nodes
        && same_memory(&before, &after)
        && devices(&before) == devices(&after);
    (!is_same).then_some(PodOutcome::Placed { before, after })
}

/// The pods with pod-level resources that the new version rejects because the configuration switches them off.
pub(super) fn rejected_by_gates(
    ledger: &Ledger,
    to: KubeletVersion,
    config: Option<&ConfigFile>,
) -> Vec<PodChange> {
    let none = BTreeMap::new();
    let set = config.map_or(&none, ConfigFile::gates);
    let rejects = |version| {
        version >= REJECTS_POD_LEVEL_RESOURCES && !gates::is_on(POD_LEVEL_RESOURCES, version, set)
    };
    if !rejects(to) {
        return Vec::new();
    }
    let today = rejects(ledger.rules().fidelity().version());
    let pods = pods_of(ledger).into_iter();
    let pods = pods.filter(|pod| pod.pod_requests.is_some() || pod.pod_limits.is_some());
    pods.map(|pod| PodChange {
        pod: name(&pod),
        when: Readmission::Restart,
        outcome: PodOutcome::Rejected {
            reason: "PodLevelResourcesNotSupported".to_owned(),
            message: "PodLevelResources feature gate is disabled".to_owned(),
            today,
        },
    })
    .collect()
}

/// The changes without those that are the same in a restart and for pods that are admitted anew.
pub(super) fn without_repetitions(changes: impl Iterator<Item = PodChange>) -> Vec<PodChange> {
    let mut found: Vec<PodChange> = Vec::new();
    for change in changes {
        let is_repeated = |other: &PodChange| {
            other.pod == change.pod
                && match (&other.outcome, &change.outcome) {
                    (
                        PodOutcome::Rejected { message, .. },
                        PodOutcome::Rejected { message: again, .. },
                    ) => message == again,
                    (
                        PodOutcome::Placed { before, after },
                        PodOutcome::Placed {
                            before: old,
                            after: again,
                        },
                    ) => {
                        is_same(&before.assignment, &old.assignment)
                            && is_same(&after.assignment, &again.assignment)
                    }
                    _ => false,
                }
        };
        if !found.iter().any(is_repeated) {
            found.push(change);
        }
    }
    found
}
