//! Making a control group what an [`Allowance`] says, and looking at what it is.

use pinfold_cgroup::{
    CgroupChange, CgroupError, CgroupSettings, CgroupVersion, CpuTimeLimit, GroupPath, Hierarchy,
};
use pinfold_core::cpu_set::CpuSet;

use super::Found;
use crate::allowance::{Allowance, Quota};

/// Makes `group` allow exactly this, and checks that it does. A lifted limit on CPU time is lifted for the pod's group
/// as well: it would throttle the container all the same, and the kubelet does so too for pods with CPUs of their own.
///
/// CPUs that are not `online` are left out of the check. v2 is still told of them and uses them as soon as they are
/// back; v1 would reject.
///
/// # Errors
/// If the kernel does not allow it or makes something else of it; [`CgroupError::Vanished`] if the container ended.
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
    let lift = (allowance.quota == Quota::Lifted).then_some(CpuTimeLimit::UNLIMITED);
    let some = |cpus: &CpuSet| (!cpus.is_empty()).then(|| cpus.clone());
    let mut wanted = CgroupSettings {
        cpus: some(cpus),
        mems: (!allowance.mems.is_empty()).then_some(allowance.mems),
        cpu_time: lift,
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

/// What a container in `group` really has.
pub(super) fn look(hierarchy: &Hierarchy, group: &GroupPath) -> Result<Found, CgroupError> {
    let state = hierarchy.group(group)?.read()?;
    let pod_cpu_time = match group.pod_group() {
        Some(pod) => hierarchy.group(&pod)?.cpu_time()?,
        None => None,
    };
    Ok(Found {
        state,
        pod_cpu_time,
    })
}
