//! Groups as folders: made, entered, looked into, taken away.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use crate::control;
use crate::error::CgroupError;
use crate::hierarchy::Version;
use crate::ids::Ids;

const PROCESSES: &str = "cgroup.procs";

/// A group that just lost its last process may be busy for a moment longer.
const REMOVAL_TRIES: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// No container has more groups of its own.
const MOST_BELOW: usize = 4096;

/// Makes an empty group.
///
/// # Errors
/// If the system does not allow it.
pub fn create(group: &Path) -> Result<(), CgroupError> {
    fs::create_dir(group).map_err(|error| CgroupError::Folder {
        action: "create",
        path: group.to_owned(),
        error,
    })
}

/// Moves this process into a group.
///
/// # Errors
/// If the kernel does not allow it.
pub fn enter(group: &Path) -> Result<(), CgroupError> {
    control::write(&group.join(PROCESSES), &std::process::id().to_string())
}

/// The processes in a group; none if it is gone.
#[must_use]
pub fn processes(group: &Path) -> Vec<u32> {
    let listed = control::read(&group.join(PROCESSES)).unwrap_or_default();
    let numbers = listed.lines().filter_map(|line| line.parse().ok());
    numbers.collect()
}

/// Whether a process is in a group or in one below; not if it is gone.
#[must_use]
pub fn is_populated(group: &Path, version: Version) -> bool {
    match version {
        Version::V1 => {
            let below = below(group).into_iter().map(|(path, _)| path);
            [group.to_owned()]
                .into_iter()
                .chain(below)
                .any(|group| !processes(&group).is_empty())
        }
        Version::V2 => {
            let events = control::read(&group.join("cgroup.events")).unwrap_or_default();
            events.lines().any(|line| line == "populated 1")
        }
    }
}

/// Gives a group without groups below these CPUs, and checks that it has exactly them in the end.
///
/// # Errors
/// If the kernel rejects them, or makes something else of them.
pub fn set_cpus(group: &Path, version: Version, cpus: &CpuSet) -> Result<(), CgroupError> {
    set(group, cpus, version.effective_cpus())
}

/// Gives a group without groups below these memory nodes, and checks that it has exactly them in the end.
///
/// # Errors
/// If the kernel rejects them, or makes something else of them.
pub fn set_mems(group: &Path, version: Version, mems: NodeSet) -> Result<(), CgroupError> {
    set(group, &mems, version.effective_mems())
}

fn set<S: Ids>(group: &Path, wanted: &S, effective: &str) -> Result<(), CgroupError> {
    control::write(&group.join(S::FILE), &wanted.to_string())?;
    let path = group.join(effective);
    let found = S::read(&path)?;
    match found == *wanted {
        true => Ok(()),
        false => Err(CgroupError::NotInForce {
            path,
            asked: wanted.to_string(),
            found: found.to_string(),
        }),
    }
}

/// Removes a group without processes; one that is gone is fine.
///
/// # Errors
/// If processes or groups are in it.
pub fn remove(group: &Path) -> Result<(), CgroupError> {
    for attempt in 0.. {
        match fs::remove_dir(group) {
            Ok(()) => break,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
            Err(error) => {
                if attempt == REMOVAL_TRIES || !processes(group).is_empty() {
                    return Err(CgroupError::Folder {
                        action: "remove",
                        path: group.to_owned(),
                        error,
                    });
                }
                std::thread::sleep(REMOVAL_PAUSE);
            }
        }
    }
    Ok(())
}

/// The groups below, each after its parent and with its place in the list; `None` if that is `group` itself.
pub(crate) fn below(group: &Path) -> Vec<(PathBuf, Option<usize>)> {
    let mut found: Vec<(PathBuf, Option<usize>)> = Vec::new();
    let mut next = 0;
    let mut parent = None;
    let mut folder = group.to_owned();
    loop {
        let entries = fs::read_dir(&folder).into_iter().flatten();
        let folders = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| (entry.path(), parent));
        let room = MOST_BELOW.saturating_sub(found.len());
        found.extend(folders.take(room));
        match found.get(next) {
            Some((path, _)) => folder.clone_from(path),
            None => return found,
        }
        parent = Some(next);
        next += 1;
    }
}
