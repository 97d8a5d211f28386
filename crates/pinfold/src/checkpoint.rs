//! Rewrites the kubelet's checkpoint `cpu_manager_state` so that pods have the CPUs that a scheduler chose.
//!
//! The kubelet chooses CPUs itself and restores them from this file when it starts. Where a scheduler chose other CPUs,
//! the file can be rewritten while the kubelet is stopped. Each pod keeps its number of CPUs, and each container keeps
//! its part of them: the first CPU of the old set is replaced by the first of the new one, and so on.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_kube::state::CpuManagerState;
use serde::Serialize;

mod state_file;

pub(crate) use state_file::{CpuManagerStateFile, StateFileError, find_running_kubelet};

/// A container whose CPUs are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CpuReplacement {
    /// The pod.
    pub(crate) pod: PodUid,
    /// The container.
    pub(crate) container: ContainerName,
    /// The CPUs that the kubelet assigned.
    pub(crate) before: CpuSet,
    /// The CPUs that the scheduler chose.
    pub(crate) after: CpuSet,
}

/// The result of replacing CPUs in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplacedState {
    /// The new state.
    pub(crate) state: CpuManagerState,
    /// The containers whose CPUs changed, by pod and container.
    pub(crate) changes: Vec<CpuReplacement>,
    /// Pods with chosen CPUs that are not in the checkpoint.
    pub(crate) absent: Vec<PodUid>,
}

/// Reasons for which the CPUs cannot be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplaceError {
    /// The CPU manager policy of the checkpoint is not `static`, so no pod has exclusive CPUs.
    #[error(
        "the state was written under the CPU manager policy {0:?}: only `static` gives pods CPUs"
    )]
    Policy(String),
    /// The scheduler chose more or fewer CPUs than the pod holds.
    #[error("pod {pod} holds {held} CPUs, but its scheduler chose {chosen}: CPUs {cpus}")]
    Count {
        /// The pod.
        pod: PodUid,
        /// Number of CPUs that it holds.
        held: usize,
        /// Number of CPUs that were chosen.
        chosen: usize,
        /// The chosen CPUs.
        cpus: CpuSet,
    },
    /// Chosen CPUs are not in the checkpoint.
    #[error("CPUs {cpus}, which were chosen for pod {pod}, are not in the kubelet's state")]
    Unknown {
        /// The pod that they were chosen for.
        pod: PodUid,
        /// The unknown CPUs.
        cpus: CpuSet,
    },
    /// Chosen CPUs are reserved for the system. The kubelet would not start with such a checkpoint.
    #[error(
        "CPUs {cpus}, which were chosen for pod {pod}, are reserved: the kubelet would not start"
    )]
    Reserved {
        /// The pod that they were chosen for.
        pod: PodUid,
        /// The reserved CPUs.
        cpus: CpuSet,
    },
    /// Two pods would hold the same CPUs.
    #[error("CPUs {cpus} would belong to pod {pod} and pod {other}")]
    Overlap {
        /// One pod.
        pod: PodUid,
        /// The other pod.
        other: PodUid,
        /// The CPUs of both.
        cpus: CpuSet,
    },
}

/// Replaces the CPUs of every pod in `chosen`. `reserved` are the CPUs reserved for the system.
///
/// # Errors
/// If the kubelet would not start with the result, or two pods would hold the same CPUs.
pub(crate) fn replace(
    state: &CpuManagerState,
    chosen: &BTreeMap<PodUid, CpuSet>,
    reserved: &CpuSet,
) -> Result<ReplacedState, ReplaceError> {
    if !state.is_static() {
        return Err(ReplaceError::Policy(state.policy.clone()));
    }
    let mut all = state.default_cpus.clone();
    let pods: BTreeSet<&PodUid> = state.containers.keys().chain(state.pods.keys()).collect();
    for pod in &pods {
        all |= &held(state, pod);
    }
    let mut new = state.clone();
    let mut changes = Vec::new();
    for (pod, cpus) in chosen.iter().filter(|(pod, _)| pods.contains(pod)) {
        check(pod, cpus, &held(state, pod), &all, reserved)?;
        let moved = |before: &CpuSet| moved(before, &held(state, pod), cpus);
        for (container, own) in new.containers.get_mut(pod).into_iter().flatten() {
            let before = std::mem::replace(own, moved(own));
            if before != *own {
                changes.push(CpuReplacement {
                    pod: pod.clone(),
                    container: container.clone(),
                    before,
                    after: own.clone(),
                });
            }
        }
        if let Some(whole) = new.pods.get_mut(pod) {
            *whole = moved(whole);
        }
    }
    let mut owners: BTreeMap<CpuId, &PodUid> = BTreeMap::new();
    let mut shared = all;
    for pod in &pods {
        let own = held(&new, pod);
        if let Some(other) = own.iter().find_map(|cpu| owners.get(&cpu)) {
            return Err(ReplaceError::Overlap {
                pod: PodUid::clone(pod),
                other: PodUid::clone(other),
                cpus: &own & &held(&new, other),
            });
        }
        owners.extend(own.iter().map(|cpu| (cpu, *pod)));
        shared -= &own;
    }
    new.default_cpus = shared;
    let absent = chosen.keys().filter(|pod| !pods.contains(pod));
    Ok(ReplacedState {
        absent: absent.cloned().collect(),
        state: new,
        changes,
    })
}

/// All exclusive CPUs of a pod and its containers.
fn held(state: &CpuManagerState, pod: &PodUid) -> CpuSet {
    let mut held = state.pods.get(pod).cloned().unwrap_or_default();
    let containers = state.containers.get(pod).into_iter().flatten();
    containers.for_each(|(_, cpus)| held |= cpus);
    held
}

fn check(
    pod: &PodUid,
    cpus: &CpuSet,
    held: &CpuSet,
    all: &CpuSet,
    reserved: &CpuSet,
) -> Result<(), ReplaceError> {
    let pod = pod.clone();
    if cpus.len() != held.len() {
        return Err(ReplaceError::Count {
            pod,
            held: held.len(),
            chosen: cpus.len(),
            cpus: cpus.clone(),
        });
    }
    let unknown = cpus - all;
    if !unknown.is_empty() {
        return Err(ReplaceError::Unknown { pod, cpus: unknown });
    }
    let kept = cpus & reserved;
    match kept.is_empty() {
        true => Ok(()),
        false => Err(ReplaceError::Reserved { pod, cpus: kept }),
    }
}

/// The CPUs of `to` that replace `part` of `from`: the first CPU of `from` is replaced by the first of `to`, and so on.
fn moved(part: &CpuSet, from: &CpuSet, to: &CpuSet) -> CpuSet {
    let pairs = from.iter().zip(to.iter());
    pairs
        .filter(|(old, _)| part.contains(*old))
        .map(|(_, new)| new)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("CPUs")
    }

    /// Sixteen CPUs, 0 and 8 reserved; the app container of pod a reuses the CPU of its init container.
    fn state() -> CpuManagerState {
        let a = [("init", "1"), ("main", "1-2,9-10")];
        let a = a.map(|(name, cpus)| (name.into(), set(cpus)));
        CpuManagerState {
            policy: "static".to_owned(),
            default_cpus: set("0,4-8,12-15"),
            containers: [
                ("a".into(), a.into()),
                ("b".into(), [("main".into(), set("3,11"))].into()),
            ]
            .into(),
            pods: BTreeMap::new(),
        }
    }

    fn chosen(pods: &[(&str, &str)]) -> BTreeMap<PodUid, CpuSet> {
        let pods = pods.iter().map(|(pod, cpus)| ((*pod).into(), set(cpus)));
        pods.collect()
    }

    #[test]
    fn pods_get_the_chosen_cpus_and_the_shared_pool_is_the_rest() {
        let chosen = chosen(&[("a", "4-5,12-13"), ("gone", "7")]);
        let replaced = replace(&state(), &chosen, &set("0,8")).expect("possible");
        let a = &replaced.state.containers["a"];
        assert_eq!(a["init"], set("4"));
        assert_eq!(a["main"], set("4-5,12-13"));
        assert_eq!(replaced.state.default_cpus, set("0-2,6-10,14-15"));
        assert_eq!(replaced.changes.len(), 2);
        assert_eq!(replaced.absent, ["gone".into()]);
    }

    #[test]
    fn two_pods_may_swap_their_cpus() {
        let before = state();
        let both = chosen(&[("a", "2-3,10-11"), ("b", "1,9")]);
        let replaced = replace(&before, &both, &set("0,8")).expect("possible");
        assert_eq!(replaced.state.default_cpus, before.default_cpus);
        let same = chosen(&[("a", "1-2,9-10")]);
        let replaced = replace(&before, &same, &set("0,8")).expect("possible");
        assert_eq!((replaced.changes.len(), replaced.state), (0, before));
    }

    #[test]
    fn a_choice_with_which_the_kubelet_would_not_start_is_rejected() {
        let rejected = |pods: &[(&str, &str)]| {
            let outcome = replace(&state(), &chosen(pods), &set("0,8"));
            outcome.expect_err("not possible")
        };
        assert!(matches!(
            rejected(&[("b", "4")]),
            ReplaceError::Count { .. }
        ));
        assert!(matches!(
            rejected(&[("b", "4,99")]),
            ReplaceError::Unknown { .. }
        ));
        assert!(matches!(
            rejected(&[("b", "0,4")]),
            ReplaceError::Reserved { .. }
        ));
        assert!(matches!(
            rejected(&[("b", "1,9")]),
            ReplaceError::Overlap { .. }
        ));
        let none = CpuManagerState {
            policy: "none".to_owned(),
            ..state()
        };
        let outcome = replace(&none, &BTreeMap::new(), &CpuSet::new());
        assert_eq!(outcome, Err(ReplaceError::Policy("none".to_owned())));
    }
}
