//! cgroup v1: the `cpuset` hierarchy. Groups may hold processes and groups at once, so a run's group lies right
//! below ours. A new group has neither CPUs nor nodes and takes no process before it has both.

use std::path::{Path, PathBuf};

use pinfold_cgroup::{CgroupError, Version, control, folder};

use super::{Hierarchy, group};
use crate::place::Placement;

/// The group that runs' groups lie in.
pub(crate) fn base() -> Option<PathBuf> {
    let own = Hierarchy::of_this_process(Version::V1)?.own;
    let may_write = rustix::fs::access(&own, rustix::fs::Access::WRITE_OK).is_ok();
    may_write.then_some(own)
}

/// Makes the group of a run.
pub(crate) fn prepare(base: &Path, id: u64, placement: &Placement) -> Result<PathBuf, CgroupError> {
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

fn fill(base: &Path, group: &Path, placement: &Placement) -> Result<(), CgroupError> {
    let nodes = match placement.nodes {
        Some(nodes) => nodes,
        None => control::read_mems(&base.join("cpuset.mems"))?,
    };
    folder::set_mems(group, Version::V1, nodes)?;
    folder::set_cpus(group, Version::V1, &placement.cpus)
}
