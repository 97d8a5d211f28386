//! Reads the cgroup of a container, the CPU quota of its pod's cgroup, and the ancestor that limits its CPUs.

use pinfold_cgroup::{CgroupError, Hierarchy};

use super::{ObservedCgroup, WatchedContainer, compare};

pub(super) fn observe(
    hierarchy: &Hierarchy,
    watched: &WatchedContainer,
) -> Result<ObservedCgroup, CgroupError> {
    let group = hierarchy.group(&watched.group)?;
    let state = group.read()?;
    let pod_cpu_time = match watched.group.pod_group() {
        Some(pod) => hierarchy.group(&pod)?.cpu_time()?,
        None => None,
    };
    let narrow_ancestor = match compare::cpus_differ(&watched.expected, &state) {
        true => group.narrow_ancestors(&watched.expected.cpus)?.into_iter(),
        false => Vec::new().into_iter(),
    };
    Ok(ObservedCgroup {
        state,
        pod_cpu_time,
        // One that cannot be widened decides, wherever it is.
        narrow_ancestor: narrow_ancestor.min_by_key(|ancestor| ancestor.widenable),
    })
}
