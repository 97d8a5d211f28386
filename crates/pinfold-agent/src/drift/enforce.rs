//! Writes an [`Allowance`] to a cgroup, and reads the cgroup's values.

use pinfold_cgroup::{
    CgroupChange, CgroupError, CgroupSettings, CgroupVersion, CpuTimeLimit, GroupPath, Hierarchy,
};
use pinfold_core::cpu_set::CpuSet;

use super::ObservedCgroup;
use crate::allowance::{Allowance, Quota};

/// Writes the allowance to `group`, and checks the effective values afterwards. [`Quota::Unlimited`] also removes the
/// quota of the pod's cgroup, which would throttle the container all the same; the kubelet does so too for pods with
/// exclusive CPUs.
///
/// Offline CPUs are left out of the check. cgroup v2 accepts them and uses them as soon as they are online again; v1
/// rejects them, so they are not written there.
///
/// # Errors
/// If the kernel rejects a value or applies a different one; [`CgroupError::Vanished`] if the container terminated.
pub fn enforce(
    hierarchy: &Hierarchy,
    group: &GroupPath,
    allowance: &Allowance,
    online: &CpuSet,
    migrate_memory: Option<bool>,
) -> Result<CgroupChange, CgroupError> {
    let usable = &allowance.cpus & online;
    let cpus = match hierarchy.cpuset.version {
        CgroupVersion::V1 => &usable,
        CgroupVersion::V2 => &allowance.cpus,
    };
    let lift = (allowance.quota == Quota::Unlimited).then_some(CpuTimeLimit::UNLIMITED);
    let limit = match allowance.quota {
        Quota::AsSpecified => None,
        Quota::Unlimited => lift,
        Quota::Limited { quota, period } => Some(CpuTimeLimit {
            quota: Some(quota),
            period,
        }),
    };
    let some = |cpus: &CpuSet| (!cpus.is_empty()).then(|| cpus.clone());
    let mut wanted = CgroupSettings {
        cpus: some(cpus),
        mems: (!allowance.mems.is_empty()).then_some(allowance.mems),
        cpu_time: limit,
        migrate_memory,
    };
    let written = hierarchy.group(group)?.write(&wanted)?;
    if let (Some(_), Some(pod)) = (lift, group.pod_group()) {
        let limit = CgroupSettings {
            cpu_time: lift,
            ..CgroupSettings::default()
        };
        hierarchy.group(&pod)?.write(&limit)?;
    }
    wanted.cpus = some(&usable);
    written.verify_applied(&wanted)?;
    Ok(written)
}

/// Reads a container's cgroup and the CPU quota of its pod's cgroup.
pub(super) fn observe(
    hierarchy: &Hierarchy,
    group: &GroupPath,
) -> Result<ObservedCgroup, CgroupError> {
    let state = hierarchy.group(group)?.read()?;
    let pod_cpu_time = match group.pod_group() {
        Some(pod) => hierarchy.group(&pod)?.cpu_time()?,
        None => None,
    };
    Ok(ObservedCgroup {
        state,
        pod_cpu_time,
    })
}
