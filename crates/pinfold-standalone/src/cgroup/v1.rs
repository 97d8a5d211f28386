//! cgroup v1: the `cpuset` hierarchy. Groups may hold processes and groups at once, so a run's group lies right
//! below ours. A new group has neither CPUs nor nodes and takes no process before it has both.

use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;

use super::{Hierarchy, Kind, check, create, group, remove};
use crate::error::StandaloneError;
use crate::files;
use crate::place::Placement;

const CPUS: &str = "cpuset.cpus";
const MEMS: &str = "cpuset.mems";

/// The group that runs' groups lie in.
pub(crate) fn base() -> Option<PathBuf> {
    let own = Hierarchy::of_this_process(Kind::V1)?.own;
    let may_write = rustix::fs::access(&own, rustix::fs::Access::WRITE_OK).is_ok();
    may_write.then_some(own)
}

/// Makes the group of a run.
pub(crate) fn prepare(
    base: &Path,
    id: u64,
    placement: &Placement,
) -> Result<PathBuf, StandaloneError> {
    let group = group(base, id);
    create(&group)?;
    match fill(base, &group, placement) {
        Ok(()) => Ok(group),
        Err(error) => {
            let _ = remove(&group);
            Err(error)
        }
    }
}

fn fill(base: &Path, group: &Path, placement: &Placement) -> Result<(), StandaloneError> {
    let nodes = match placement.nodes {
        Some(nodes) => nodes.to_string(),
        None => files::read(&base.join(MEMS))?.trim().to_owned(),
    };
    files::write(&group.join(MEMS), &nodes)?;
    check(&group.join(MEMS), &nodes)?;
    set_cpus(group, &placement.cpus)
}

/// Gives a group other CPUs.
pub(crate) fn set_cpus(group: &Path, cpus: &CpuSet) -> Result<(), StandaloneError> {
    let cpus = cpus.to_string();
    files::write(&group.join(CPUS), &cpus)?;
    check(&group.join(CPUS), &cpus)
}
