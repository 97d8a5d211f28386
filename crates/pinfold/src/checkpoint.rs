//! The kubelet's `cpu_manager_state` with other CPUs for pods: those that a scheduler chose for them.
//!
//! The kubelet chooses CPUs itself and keeps them over restarts. Where a scheduler chose others, its file can be changed
//! while it is stopped; it then goes on with those. A pod keeps as many CPUs as it had, and every container the same part
//! of them, in order.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_kube::state::CpuManagerState;
use serde::Serialize;

mod file;

pub(crate) use file::{FileError, Stored, kubelet_runs};

/// The CPUs of a container, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Replacement {
    /// The pod.
    pub(crate) pod: PodUid,
    /// The container.
    pub(crate) container: ContainerName,
    /// What the kubelet had given it.
    pub(crate) before: CpuSet,
    /// What the scheduler chose.
    pub(crate) after: CpuSet,
}

/// The state with other CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// What to write.
    pub(crate) state: CpuManagerState,
    /// What is different, by pod and container.
    pub(crate) changes: Vec<Replacement>,
    /// Pods that the kubelet has given nothing.
    pub(crate) absent: Vec<PodUid>,
}

/// Why the kubelet's choice cannot be replaced. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplaceError {
    /// The kubelet gives nobody CPUs.
    #[error(
        "the state was written under the CPU manager policy {0:?}: only `static` gives pods CPUs"
    )]
    Policy(String),
    /// Another number of CPUs.
    #[error("pod {pod} holds {held} CPUs, but its scheduler chose {chosen}: CPUs {cpus}")]
    Count {
        /// Which.
        pod: PodUid,
        /// How many it has.
        held: usize,
        /// How many were chosen.
        chosen: usize,
        /// Those.
        cpus: CpuSet,
    },
    /// CPUs that the kubelet does not know.
    #[error("CPUs {cpus}, which were chosen for pod {pod}, are not in the kubelet's state")]
    Unknown {
        /// For whom.
        pod: PodUid,
        /// Which.
        cpus: CpuSet,
    },
    /// CPUs that the kubelet keeps for the system: it would not start.
    #[error(
        "CPUs {cpus}, which were chosen for pod {pod}, are reserved: the kubelet would not start"
    )]
    Reserved {
        /// For whom.
        pod: PodUid,
        /// Which.
        cpus: CpuSet,
    },
    /// Two pods would have the same CPUs.
    #[error("CPUs {cpus} would belong to pod {pod} and pod {other}")]
    Twice {
        /// One.
        pod: PodUid,
        /// The other.
        other: PodUid,
        /// Which.
        cpus: CpuSet,
    },
}

/// The state in which every pod among `chosen` has those CPUs. `reserved` are kept for the system.
///
/// # Errors
/// If that is not possible.
pub(crate) fn replace(
    state: &CpuManagerState,
    chosen: &BTreeMap<PodUid, CpuSet>,
    reserved: &CpuSet,
) -> Result<Replaced, ReplaceError> {
    if state.policy != "static" {
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
                changes.push(Replacement {
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
            return Err(ReplaceError::Twice {
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
    Ok(Replaced {
        absent: absent.cloned().collect(),
        state: new,
        changes,
    })
}

/// All CPUs of a pod.
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

/// The CPUs that take the place of `part`, which is some of `from`: the first for the first, and so on.
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

    /// Sixteen CPUs, 0 and 8 reserved; pod a has an init container that lent its CPUs.
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
    fn pods_get_what_was_chosen_and_the_shared_pool_is_the_rest() {
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
    fn pods_may_change_places() {
        let before = state();
        let both = chosen(&[("a", "2-3,10-11"), ("b", "1,9")]);
        let replaced = replace(&before, &both, &set("0,8")).expect("possible");
        assert_eq!(replaced.state.default_cpus, before.default_cpus);
        let same = chosen(&[("a", "1-2,9-10")]);
        let replaced = replace(&before, &same, &set("0,8")).expect("possible");
        assert_eq!((replaced.changes.len(), replaced.state), (0, before));
    }

    #[test]
    fn what_the_kubelet_could_not_live_with_is_rejected() {
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
            ReplaceError::Twice { .. }
        ));
        let none = CpuManagerState {
            policy: "none".to_owned(),
            ..state()
        };
        let outcome = replace(&none, &BTreeMap::new(), &CpuSet::new());
        assert_eq!(outcome, Err(ReplaceError::Policy("none".to_owned())));
    }
}
