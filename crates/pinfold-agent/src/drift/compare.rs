//! Comparing what a container has with what it should have, and finding out who it was. No I/O.

use pinfold_cgroup::CgroupState;
use pinfold_core::cpu_set::CpuSet;

use super::{Culprit, Drift, Evidence, Found, Watched};
use crate::allowance::{Allowance, Quota};

/// The difference between what a container should have and what it has; `None` if there is none. What counts is what
/// is in force, not how it came about. Where the allowance names nothing, nothing was promised.
#[must_use]
pub fn compare(watched: &Watched, found: &Found, evidence: &Evidence) -> Option<Drift> {
    let expected = &watched.expected;
    let culprit = if cpus_differ(expected, &found.state) {
        who_changed_cpus(watched, &found.state, evidence)
    } else if mems_differ(expected, &found.state) {
        who_changed_mems(watched, &found.state)
    } else if is_throttled(expected, found) {
        who_limits(watched, found)
    } else {
        return None;
    };
    Some(Drift {
        who: watched.who.clone(),
        expected: expected.clone(),
        found: found.clone(),
        culprit,
    })
}

pub(super) fn cpus_differ(expected: &Allowance, found: &CgroupState) -> bool {
    !expected.cpus.is_empty() && found.effective_cpus != expected.cpus
}

pub(super) fn mems_differ(expected: &Allowance, found: &CgroupState) -> bool {
    !expected.mems.is_empty() && found.effective_mems != expected.mems
}

/// Whether a limit on CPU time is there that should have been lifted: the container's, or its pod's.
pub(super) fn is_throttled(expected: &Allowance, found: &Found) -> bool {
    let limits = [found.state.cpu_time, found.pod_cpu_time];
    let mut limits = limits.into_iter().flatten();
    expected.quota == Quota::Lifted && limits.any(|limit| limit.quota.is_some())
}

fn who_changed_cpus(watched: &Watched, found: &CgroupState, evidence: &Evidence) -> Culprit {
    let expected = &watched.expected.cpus;
    let left = expected & &evidence.online;
    // A group that lost its last CPU gets those of the group above, or its processes move there.
    if left != *expected && (left.is_empty() || found.effective_cpus == left) {
        return Culprit::CpuOffline;
    }
    let is_found =
        |cpus: &CpuSet| !cpus.is_empty() && (*cpus == found.cpus || *cpus == found.effective_cpus);
    let kubelet = evidence.kubelet.as_ref().is_some_and(|kubelet| {
        let of_pod = kubelet.containers.get(&watched.who.pod);
        let own = of_pod.and_then(|pod| pod.get(&watched.who.container));
        let pod = kubelet.pods.get(&watched.who.pod);
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
        (true, _) => Culprit::Kubelet,
        (false, true) => Culprit::Runtime,
        (false, false) => Culprit::Other,
    }
}

fn who_changed_mems(watched: &Watched, found: &CgroupState) -> Culprit {
    let runtime = match watched.spec.mems {
        Some(mems) => mems == found.mems || mems == found.effective_mems,
        None => found.mems.is_empty(),
    };
    match runtime {
        true => Culprit::Runtime,
        false => Culprit::Other,
    }
}

fn who_limits(watched: &Watched, found: &Found) -> Culprit {
    match found.state.cpu_time {
        Some(limit) if limit.quota.is_some() => match watched.spec.cpu_time {
            Some(asked) if asked.allows_same_share(&limit) => Culprit::Runtime,
            _ => Culprit::Other,
        },
        // Only the kubelet writes to the groups of pods.
        _ => Culprit::Kubelet,
    }
}
