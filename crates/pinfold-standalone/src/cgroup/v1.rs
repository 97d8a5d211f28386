//! cgroup v1: the `cpuset` hierarchy. A group may contain both processes and groups, so a run's group is created right
//! below the group of this process. A new group has no CPUs and no memory nodes and accepts no process before both are
//! set.

use std::path::{Path, PathBuf};

use pinfold_cgroup::{CgroupError, CgroupVersion, control, folder};

use super::{OwnHierarchy, group};
use crate::placement::RunPlacement;

/// The folder in which groups of runs are created; `None` if this process may not write to it.
pub(crate) fn base() -> Option<PathBuf> {
    let own = OwnHierarchy::of_this_process(CgroupVersion::V1)?.own;
    let may_write = rustix::fs::access(&own, rustix::fs::Access::WRITE_OK).is_ok();
    may_write.then_some(own)
}

/// Creates the group of a run and sets its CPUs and memory nodes.
pub(crate) fn prepare(
    base: &Path,
    id: u64,
    placement: &RunPlacement,
) -> Result<PathBuf, CgroupError> {
    let group = group(base, id);
    folder::create(&group)?;
    match fill(base, &group, placement) {
        Ok(()) => Ok(group),
        Err(error) => {
            let _ = folder::remove(&group);
            Err(error)
        }
    }
}

fn fill(base: &Path, group: &Path, placement: &RunPlacement) -> Result<(), CgroupError> {
    let nodes = match placement.nodes {
        Some(nodes) => nodes,
        None => control::read_mems(&base.join("cpuset.mems"))?,
    };
    folder::set_mems(group, CgroupVersion::V1, nodes)?;
    folder::set_cpus(group, CgroupVersion::V1, &placement.cpus)
}
