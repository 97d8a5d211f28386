//! Compares a container's cgroup with its allowance and derives the cause of a difference. Pure: no I/O.

use pinfold_cgroup::CgroupState;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::settings::CpuManagerPolicy;

use super::{Drift, DriftCause, Evidence, ObservedCgroup, WatchedContainer};
use crate::allowance::{Allowance, Quota};

/// The drift of a container; `None` if its cgroup matches its allowance. Effective values count, not configured ones.
/// A resource that the allowance does not set cannot drift.
#[must_use]
pub fn compare(
    watched: &WatchedContainer,
    found: &ObservedCgroup,
    evidence: &Evidence,
) -> Option<Drift> {
    let expected = &watched.expected;
    let cause = if cpus_differ(expected, &found.state) {
        cause_of_cpu_change(watched, found, evidence)
    } else if mems_differ(expected, &found.state) {
        cause_of_mems_change(watched, &found.state)
    } else if is_throttled(expected, found) {
        cause_of_cpu_limit(watched, found)
    } else {
        return None;
    };
    Some(Drift {
        container: watched.container.clone(),
        expected: expected.clone(),
        found: found.clone(),
        cause,
    })
}

pub(super) fn cpus_differ(expected: &Allowance, found: &CgroupState) -> bool {
    !expected.cpus.is_empty() && found.effective_cpus != expected.cpus
}

pub(super) fn mems_differ(expected: &Allowance, found: &CgroupState) -> bool {
    !expected.mems.is_empty() && found.effective_mems != expected.mems
}

/// Whether the container's or its pod's cgroup has a CPU quota though the allowance has none.
pub(super) fn is_throttled(expected: &Allowance, found: &ObservedCgroup) -> bool {
    let limits = [found.state.cpu_time, found.pod_cpu_time];
    let mut limits = limits.into_iter().flatten();
    expected.quota == Quota::Unlimited && limits.any(|limit| limit.quota.is_some())
}

fn cause_of_cpu_change(
    watched: &WatchedContainer,
    found: &ObservedCgroup,
    evidence: &Evidence,
) -> DriftCause {
    let expected = &watched.expected.cpus;
    let narrow_ancestor = found.narrow_ancestor.is_some();
    let found = &found.state;
    let left = expected & &evidence.online;
    // A cgroup without an online CPU falls back to its parent's CPUs (v2), or its processes move to the parent (v1).
    if left != *expected && (left.is_empty() || found.effective_cpus == left) {
        return DriftCause::CpuOffline;
    }
    if narrow_ancestor {
        return DriftCause::NarrowAncestor;
    }
    let is_found =
        |cpus: &CpuSet| !cpus.is_empty() && (*cpus == found.cpus || *cpus == found.effective_cpus);
    // With the policy none, the kubelet's CPU manager writes nothing.
    let kubelet = evidence.kubelet.as_ref();
    let kubelet = kubelet.filter(|kubelet| kubelet.policy.parse() == Ok(CpuManagerPolicy::Static));
    let kubelet = kubelet.is_some_and(|kubelet| {
        let of_pod = kubelet.containers.get(&watched.container.pod);
        let own = of_pod.and_then(|pod| pod.get(&watched.container.name));
        let pod = kubelet.pods.get(&watched.container.pod);
        [own, pod, Some(&kubelet.default_cpus)]
            .into_iter()
            .flatten()
            .any(is_found)
    });
    let runtime = match &watched.spec.cpus {
        Some(cpus) => is_found(cpus),
        None => found.cpus.is_empty(),
    };
    match (kubelet, runtime) {
        (true, _) => DriftCause::Kubelet,
        (false, true) => DriftCause::Runtime,
        (false, false) => DriftCause::Other,
    }
}

fn cause_of_mems_change(watched: &WatchedContainer, found: &CgroupState) -> DriftCause {
    let runtime = match watched.spec.mems {
        Some(mems) => mems == found.mems || mems == found.effective_mems,
        None => found.mems.is_empty(),
    };
    match runtime {
        true => DriftCause::Runtime,
        false => DriftCause::Other,
    }
}

fn cause_of_cpu_limit(watched: &WatchedContainer, found: &ObservedCgroup) -> DriftCause {
    match found.state.cpu_time {
        Some(limit) if limit.quota.is_some() => match watched.spec.cpu_time {
            Some(asked) if asked.allows_same_share(&limit) => DriftCause::Runtime,
            _ => DriftCause::Other,
        },
        _ => DriftCause::PodLimit,
    }
}
