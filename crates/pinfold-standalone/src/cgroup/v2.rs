//! cgroup v2: the `cpuset` controller. Only the root may hold processes and groups with controllers at once, so a
//! run's group lies in the nearest group above ours that holds no processes, or in the root.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;

use super::{Hierarchy, Kind, check, create, group, processes, remove};
use crate::error::StandaloneError;
use crate::files;
use crate::place::Placement;

const CPUS: &str = "cpuset.cpus";
const MEMS: &str = "cpuset.mems";
const PARTITION: &str = "cpuset.cpus.partition";
const SUBTREE: &str = "cgroup.subtree_control";

/// The groups that could hold runs' groups, nearest first.
pub(crate) fn bases() -> Vec<PathBuf> {
    let Some(Hierarchy { mount, own }) = Hierarchy::of_this_process(Kind::V2) else {
        return Vec::new();
    };
    own.ancestors()
        .take_while(|group| group.starts_with(&mount))
        .filter(|group| can_hold_groups(group))
        .map(Path::to_owned)
        .collect()
}

/// Whether `group` has the controller, may have groups with it, and lets us move processes into them.
fn can_hold_groups(group: &Path) -> bool {
    let may_write =
        |file: &str| rustix::fs::access(group.join(file), rustix::fs::Access::WRITE_OK).is_ok();
    lists_cpuset(group, "cgroup.controllers")
        && (is_root(group) || processes(group).is_empty())
        && may_write("cgroup.procs")
        && may_write(".")
        && (lists_cpuset(group, SUBTREE) || may_write(SUBTREE))
}

fn lists_cpuset(group: &Path, file: &str) -> bool {
    fs::read_to_string(group.join(file))
        .is_ok_and(|text| text.split_ascii_whitespace().any(|name| name == "cpuset"))
}

/// Only the real root has no type. A container's own group looks like a root and is none.
pub(crate) fn is_root(group: &Path) -> bool {
    !group.join("cgroup.type").exists()
}

/// Makes the group of a run.
pub(crate) fn prepare(
    base: &Path,
    id: u64,
    placement: &Placement,
    partition: bool,
) -> Result<PathBuf, StandaloneError> {
    if !lists_cpuset(base, SUBTREE) {
        files::write(&base.join(SUBTREE), "+cpuset")?;
    }
    let group = group(base, id);
    create(&group)?;
    match fill(&group, placement, partition) {
        Ok(()) => Ok(group),
        Err(error) => {
            let _ = remove(&group);
            Err(error)
        }
    }
}

fn fill(group: &Path, placement: &Placement, partition: bool) -> Result<(), StandaloneError> {
    if let Some(nodes) = placement.nodes {
        let nodes = nodes.to_string();
        files::write(&group.join(MEMS), &nodes)?;
        check(&group.join("cpuset.mems.effective"), &nodes)?;
    }
    set_cpus(group, &placement.cpus)?;
    if partition {
        files::write(&group.join(PARTITION), "root")?;
        check(&group.join(PARTITION), "root")?;
    }
    Ok(())
}

/// Gives a group other CPUs.
pub(crate) fn set_cpus(group: &Path, cpus: &CpuSet) -> Result<(), StandaloneError> {
    let cpus = cpus.to_string();
    files::write(&group.join(CPUS), &cpus)?;
    check(&group.join("cpuset.cpus.effective"), &cpus)
}
