//! cgroup v2: the `cpuset` controller. Only the root may contain both processes and groups with controllers, so a run's
//! group is created in the nearest ancestor of our group that has no processes, or in the root.

use std::path::{Path, PathBuf};

use pinfold_cgroup::{CgroupError, CgroupVersion, Partition, control, folder};

use super::{OwnHierarchy, group};
use crate::placement::RunPlacement;

const SUBTREE: &str = "cgroup.subtree_control";

/// The folders in which groups of runs can be created, nearest first.
pub(crate) fn bases() -> Vec<PathBuf> {
    let Some(OwnHierarchy { mount, own }) = OwnHierarchy::of_this_process(CgroupVersion::V2) else {
        return Vec::new();
    };
    own.ancestors()
        .take_while(|group| group.starts_with(&mount))
        .filter(|group| can_hold_groups(group))
        .map(Path::to_owned)
        .collect()
}

/// Whether `group` has the cpuset controller, can pass it on to groups below, and lets us move processes into them.
fn can_hold_groups(group: &Path) -> bool {
    let may_write =
        |file: &str| rustix::fs::access(group.join(file), rustix::fs::Access::WRITE_OK).is_ok();
    lists_cpuset(group, "cgroup.controllers")
        && (is_root(group) || folder::processes(group).is_empty())
        && may_write("cgroup.procs")
        && may_write(".")
        && (lists_cpuset(group, SUBTREE) || may_write(SUBTREE))
}

fn lists_cpuset(group: &Path, file: &str) -> bool {
    control::lists(&group.join(file), "cpuset")
}

/// Whether it is the root of the hierarchy, which has no `cgroup.type`. A container's own group only looks like a root.
pub(crate) fn is_root(group: &Path) -> bool {
    !group.join("cgroup.type").exists()
}

/// Creates the group of a run and sets its CPUs, memory nodes and partition.
pub(crate) fn prepare(
    base: &Path,
    id: u64,
    placement: &RunPlacement,
    partition: bool,
) -> Result<PathBuf, CgroupError> {
    if !lists_cpuset(base, SUBTREE) {
        control::write(&base.join(SUBTREE), "+cpuset")?;
    }
    let group = group(base, id);
    folder::create(&group)?;
    match fill(&group, placement, partition) {
        Ok(()) => Ok(group),
        Err(error) => {
            let _ = folder::remove(&group);
            Err(error)
        }
    }
}

fn fill(group: &Path, placement: &RunPlacement, partition: bool) -> Result<(), CgroupError> {
    if let Some(nodes) = placement.nodes {
        folder::set_mems(group, CgroupVersion::V2, nodes)?;
    }
    folder::set_cpus(group, CgroupVersion::V2, &placement.cpus)?;
    match partition {
        true => Partition::Root.apply_to(group, CgroupVersion::V2),
        false => Ok(()),
    }
}
