//! Groups as folders: create, enter, list and remove them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use crate::control;
use crate::error::CgroupError;
use crate::hierarchy::CgroupVersion;
use crate::ids::IdSet;

const PROCESSES: &str = "cgroup.procs";

/// Attempts to remove a group, which may be busy for a moment after its last process exited.
const REMOVAL_TRIES: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// Upper bound on the descendants of one group.
const MAX_DESCENDANTS: usize = 4096;

/// Creates an empty group.
///
/// # Errors
/// If the folder cannot be created.
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

/// The processes in a group; empty if the group no longer exists.
#[must_use]
pub fn processes(group: &Path) -> Vec<u32> {
    let listed = control::read(&group.join(PROCESSES)).unwrap_or_default();
    let numbers = listed.lines().filter_map(|line| line.parse().ok());
    numbers.collect()
}

/// Whether a process is in a group or in one of its descendants; `false` if the group no longer exists.
#[must_use]
pub fn is_populated(group: &Path, version: CgroupVersion) -> bool {
    match version {
        CgroupVersion::V1 => {
            let descendants = descendants(group).into_iter().map(|(path, _)| path);
            [group.to_owned()]
                .into_iter()
                .chain(descendants)
                .any(|group| !processes(&group).is_empty())
        }
        CgroupVersion::V2 => {
            let events = control::read(&group.join("cgroup.events")).unwrap_or_default();
            events.lines().any(|line| line == "populated 1")
        }
    }
}

/// Sets the CPUs of a group without descendants, and checks that the effective CPUs are the same.
///
/// # Errors
/// If the kernel rejects them, or applies other ones.
pub fn set_cpus(group: &Path, version: CgroupVersion, cpus: &CpuSet) -> Result<(), CgroupError> {
    set(group, cpus, version.effective_cpus())
}

/// Sets the memory nodes of a group without descendants, and checks that the effective nodes are the same.
///
/// # Errors
/// If the kernel rejects them, or applies other ones.
pub fn set_mems(group: &Path, version: CgroupVersion, mems: NodeSet) -> Result<(), CgroupError> {
    set(group, &mems, version.effective_mems())
}

fn set<S: IdSet>(group: &Path, wanted: &S, effective: &str) -> Result<(), CgroupError> {
    control::write(&group.join(S::FILE), &wanted.to_string())?;
    let path = group.join(effective);
    let found = S::read(&path)?;
    match found == *wanted {
        true => Ok(()),
        false => Err(CgroupError::NotApplied {
            path,
            requested: wanted.to_string(),
            found: found.to_string(),
        }),
    }
}

/// Removes a group without processes. A group that no longer exists is no error.
///
/// # Errors
/// If it has processes or child groups.
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

/// The descendants of a group, each after its parent, with the parent's index in the list; `None` if the parent is
/// `group`.
pub(crate) fn descendants(group: &Path) -> Vec<(PathBuf, Option<usize>)> {
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
        let room = MAX_DESCENDANTS.saturating_sub(found.len());
        found.extend(folders.take(room));
        match found.get(next) {
            Some((path, _)) => folder.clone_from(path),
            None => return found,
        }
        parent = Some(next);
        next += 1;
    }
}
