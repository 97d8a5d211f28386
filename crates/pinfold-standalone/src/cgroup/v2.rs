//! cgroup v2: the `cpuset` controller. Only the root may hold processes and groups with controllers at once, so a
//! run's group lies in the nearest group above ours that holds no processes, or in the root.

use std::path::{Path, PathBuf};

use pinfold_cgroup::{CgroupError, Partition, Version, control, folder};

use super::{Hierarchy, group};
use crate::place::Placement;

const SUBTREE: &str = "cgroup.subtree_control";

/// The groups that could hold runs' groups, nearest first.
pub(crate) fn bases() -> Vec<PathBuf> {
    let Some(Hierarchy { mount, own }) = Hierarchy::of_this_process(Version::V2) else {
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
        && (is_root(group) || folder::processes(group).is_empty())
        && may_write("cgroup.procs")
        && may_write(".")
        && (lists_cpuset(group, SUBTREE) || may_write(SUBTREE))
}

fn lists_cpuset(group: &Path, file: &str) -> bool {
    control::lists(&group.join(file), "cpuset")
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

fn fill(group: &Path, placement: &Placement, partition: bool) -> Result<(), CgroupError> {
    if let Some(nodes) = placement.nodes {
        folder::set_mems(group, Version::V2, nodes)?;
    }
    folder::set_cpus(group, Version::V2, &placement.cpus)?;
    match partition {
        true => Partition::Root.give_to(group, Version::V2),
        false => Ok(()),
    }
}
