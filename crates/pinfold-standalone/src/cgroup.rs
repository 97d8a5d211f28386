//! Control groups: the group of this process, and what cgroup v1 and v2 have in common.
//!
//! A run's group is named `pinfold-ID`. It is created beside or below the group of the process that started it, so that
//! the limits an administrator set on the groups above still apply.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_cgroup::{CgroupMount, CgroupMounts, CgroupVersion, GroupPath, folder};

pub(crate) mod v1;
pub(crate) mod v2;

const PREFIX: &str = "pinfold-";

/// A mounted hierarchy, and the folder of this process's group in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnHierarchy {
    mount: PathBuf,
    own: PathBuf,
}

impl OwnHierarchy {
    /// Finds the hierarchy of a cgroup version from the mount table and the text of `/proc/self/cgroup`.
    fn find(mounts: &CgroupMounts, groups: &str, version: CgroupVersion) -> Option<Self> {
        let mount: &CgroupMount = match version {
            CgroupVersion::V1 => mounts.v1("cpuset")?,
            CgroupVersion::V2 => mounts.v2()?,
        };
        let group = groups.lines().find_map(|line| group_in(version, line))?;
        // A group outside our namespace starts with `..` and is not mounted here.
        let group = GroupPath::parse(group).ok()?;
        let own = mount.folder(&group).ok()?;
        let mount = mount.point.clone();
        Some(Self { mount, own })
    }

    fn of_this_process(version: CgroupVersion) -> Option<Self> {
        let mounts = CgroupMounts::read(Path::new("/")).ok()?;
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let found = Self::find(&mounts, &groups, version)?;
        // In a container the path may be the host's and name another group here.
        let here = folder::processes(&found.own).contains(&std::process::id());
        here.then_some(found)
    }
}

/// The group in a line of `/proc/self/cgroup`, if the line is about this hierarchy.
fn group_in(version: CgroupVersion, line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, group) = rest.split_once(':')?;
    let wanted = match version {
        CgroupVersion::V1 => controllers.split(',').any(|name| name == "cpuset"),
        CgroupVersion::V2 => controllers.is_empty(),
    };
    wanted.then_some(group)
}

/// The folder of a run's group below `base`.
fn group(base: &Path, id: u64) -> PathBuf {
    base.join(format!("{PREFIX}{id}"))
}

/// The groups of runs in every folder in which this process could have created one.
pub(crate) fn groups_of_runs() -> Vec<(u64, PathBuf)> {
    let bases = v2::bases().into_iter().chain(v1::base());
    bases
        .filter_map(|base| fs::read_dir(base).ok())
        .flat_map(|entries| entries.filter_map(Result::ok))
        .filter_map(|entry| {
            let name = entry.file_name();
            let id = name.to_str()?.strip_prefix(PREFIX)?.parse().ok()?;
            Some((id, entry.path()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "1 0 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        2 1 0:2 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        3 1 0:3 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
        4 1 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const UNIFIED: &str = "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
    const CONFINED: &str = "1 0 0:1 /user.slice /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";

    fn own(mounts: &str, groups: &str, version: CgroupVersion) -> Option<PathBuf> {
        let mounts = CgroupMounts::parse(mounts, Path::new("/"));
        OwnHierarchy::find(&mounts, groups, version).map(|found| found.own)
    }

    #[test]
    fn the_group_of_this_process_is_found_in_both_versions() {
        let groups = "3:cpuset:/jobs\n2:cpu,cpuacct:/\n0::/user.slice/app\n";
        let table = [
            (
                HYBRID,
                CgroupVersion::V1,
                Some("/sys/fs/cgroup/cpuset/jobs"),
            ),
            (
                HYBRID,
                CgroupVersion::V2,
                Some("/sys/fs/cgroup/unified/user.slice/app"),
            ),
            (UNIFIED, CgroupVersion::V1, None),
            (
                UNIFIED,
                CgroupVersion::V2,
                Some("/sys/fs/cgroup/user.slice/app"),
            ),
            (CONFINED, CgroupVersion::V2, Some("/sys/fs/cgroup/app")),
        ];
        for (mounts, version, expected) in table {
            let found = own(mounts, groups, version);
            assert_eq!(found, expected.map(PathBuf::from), "{version} in {mounts}");
        }
    }

    #[test]
    fn a_group_outside_the_namespace_is_not_taken_for_one_inside() {
        assert_eq!(own(UNIFIED, "0::/../other\n", CgroupVersion::V2), None);
        assert_eq!(own(CONFINED, "0::/other\n", CgroupVersion::V2), None);
        let root = own(UNIFIED, "0::/\n", CgroupVersion::V2);
        assert_eq!(root, Some("/sys/fs/cgroup".into()));
    }
}
