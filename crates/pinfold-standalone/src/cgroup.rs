//! Control groups: where ours is, and what the two generations have in common.
//!
//! A run's group is named `pinfold-ID`. It lies beside or below the group of whoever started it, so that everything
//! an administrator said further up still holds.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::StandaloneError;
use crate::files;

pub(crate) mod v1;
pub(crate) mod v2;

const PREFIX: &str = "pinfold-";

/// A group that just lost its last process may be busy for a moment longer.
const REMOVAL_TRIES: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// A mounted hierarchy and where this process is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    mount: PathBuf,
    own: PathBuf,
}

impl Hierarchy {
    /// The first one of this kind that is mounted here and in which this process can be found.
    fn find(mounts: &str, groups: &str, kind: Kind) -> Option<Self> {
        let mount = mounts.lines().find_map(|line| kind.mount_point(line))?;
        let group = groups.lines().find_map(|line| kind.group(line))?;
        let steps = Path::new(group).strip_prefix("/").ok()?;
        // A group outside our namespace starts with `..` and is not mounted here.
        if steps.starts_with("..") {
            return None;
        }
        let own = if steps.as_os_str().is_empty() {
            mount.clone()
        } else {
            mount.join(steps)
        };
        Some(Self { mount, own })
    }

    fn of_this_process(kind: Kind) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let found = Self::find(&mounts, &groups, kind)?;
        // Inside containers the path may be one of the host that means another group here.
        let here = processes(&found.own).contains(&std::process::id());
        here.then_some(found)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    V1,
    V2,
}

impl Kind {
    fn mount_point(self, line: &str) -> Option<PathBuf> {
        let mut fields = line.split(' ').skip(1);
        let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let wanted = match self {
            Kind::V1 => kind == "cgroup" && options.split(',').any(|option| option == "cpuset"),
            Kind::V2 => kind == "cgroup2",
        };
        wanted.then(|| PathBuf::from(point))
    }

    fn group(self, line: &str) -> Option<&str> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let wanted = match self {
            Kind::V1 => controllers.split(',').any(|name| name == "cpuset"),
            Kind::V2 => controllers.is_empty(),
        };
        wanted.then_some(group)
    }
}

/// The group of a run below `base`.
fn group(base: &Path, id: u64) -> PathBuf {
    base.join(format!("{PREFIX}{id}"))
}

/// Makes an empty group.
fn create(group: &Path) -> Result<(), StandaloneError> {
    fs::create_dir(group).map_err(|error| StandaloneError::file("create", group, error))
}

/// The processes in a group; none if it is gone.
pub(crate) fn processes(group: &Path) -> Vec<u32> {
    let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    listed
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect()
}

/// Moves this process into a group.
pub(crate) fn enter(group: &Path) -> Result<(), StandaloneError> {
    files::write(&group.join("cgroup.procs"), &std::process::id().to_string())
}

/// Removes a group without processes; one that is gone is fine.
pub(crate) fn remove(group: &Path) -> Result<(), StandaloneError> {
    for attempt in 0.. {
        match fs::remove_dir(group) {
            Ok(()) => break,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
            Err(error) => {
                if attempt == REMOVAL_TRIES || !processes(group).is_empty() {
                    return Err(StandaloneError::file("remove", group, error));
                }
                std::thread::sleep(REMOVAL_PAUSE);
            }
        }
    }
    Ok(())
}

/// Groups of runs that this process could have made, wherever they are.
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

/// Checks that the kernel made of a list what was asked.
fn check(path: &Path, asked: &str) -> Result<(), StandaloneError> {
    let found = files::read(path)?;
    match found.trim() == asked {
        true => Ok(()),
        false => Err(StandaloneError::NotTaken {
            path: path.to_owned(),
            asked: asked.to_owned(),
            found: found.trim().to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
        cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    const UNIFIED: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";

    #[test]
    fn the_group_of_this_process_is_found_in_both_generations() {
        let groups = "3:cpuset:/jobs\n2:cpu,cpuacct:/\n0::/user.slice/app\n";
        let table = [
            (HYBRID, Kind::V1, Some("/sys/fs/cgroup/cpuset/jobs")),
            (
                HYBRID,
                Kind::V2,
                Some("/sys/fs/cgroup/unified/user.slice/app"),
            ),
            (UNIFIED, Kind::V1, None),
            (UNIFIED, Kind::V2, Some("/sys/fs/cgroup/user.slice/app")),
        ];
        for (mounts, kind, own) in table {
            let found = Hierarchy::find(mounts, groups, kind).map(|found| found.own);
            assert_eq!(found, own.map(PathBuf::from), "{kind:?} in {mounts}");
        }
    }

    #[test]
    fn a_group_outside_the_namespace_is_not_taken_for_one_inside() {
        assert_eq!(Hierarchy::find(UNIFIED, "0::/../other\n", Kind::V2), None);
        let root = Hierarchy::find(UNIFIED, "0::/\n", Kind::V2).expect("the root");
        assert_eq!(root.own, root.mount);
    }
}
