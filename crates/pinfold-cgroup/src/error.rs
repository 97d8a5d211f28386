//! [`CgroupError`]: the operation on a group that failed, the kernel's error, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::path::GroupPath;

/// Errors of reading or changing a group.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The group no longer exists because its container ended. This is not a failure.
    #[error("{} no longer exists", .group.display())]
    Vanished {
        /// The group's folder.
        group: PathBuf,
    },
    /// No mounted hierarchy has the cpuset controller.
    #[error("no control group can confine CPUs here: {}", no_cpuset(.unified.as_deref()))]
    NoCpuset {
        /// The mount point of the v2 hierarchy, if it is mounted.
        unified: Option<PathBuf>,
    },
    /// The group is outside the part of the hierarchy that is mounted here.
    #[error("group /{path} is not below {}, the only part of the hierarchy that is mounted here: mount the whole hierarchy", .root.display())]
    Outside {
        /// The group.
        path: GroupPath,
        /// The group at the root of the mounted part.
        root: PathBuf,
    },
    /// The group exists and has no such file.
    #[error("{} does not exist: {}", .path.display(), no_file(.path))]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
    /// A file's content is not in the kernel's format.
    #[error("{} contains {text:?}, which is not in the kernel's format", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// The kernel rejected a value.
    #[error("cannot write {value:?} to {}: {error}{}", .path.display(), advice(.path, .error))]
    Rejected {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
    /// An ancestor that belongs to the administrator, not to the kubelet, does not allow the requested set.
    #[error(
        "{} allows {allows:?} and lacks {lacks}, and that limit applies to all groups below: \
         widen it first, or exclude {lacks} from what Pinfold may assign", .path.display()
    )]
    ParentTooNarrow {
        /// The ancestor's file.
        path: PathBuf,
        /// What it allows.
        allows: String,
        /// The CPUs or nodes that it lacks.
        lacks: String,
    },
    /// The requested set of CPUs or nodes is empty.
    #[error("{} needs at least one CPU and one memory node", .group.display())]
    EmptySet {
        /// The group.
        group: PathBuf,
    },
    /// The kernel accepted a value and applied another one.
    #[error("{}: requested {requested:?}, the kernel applied {found:?}: CPUs may be offline or belong to a partition", .path.display())]
    NotApplied {
        /// The file with the effective value.
        path: PathBuf,
        /// The requested value.
        requested: String,
        /// The effective value.
        found: String,
    },
    /// The kernel reports the partition as invalid. The group is an ordinary member again.
    #[error("{} cannot become a partition ({requested}): {reason}", .group.display())]
    InvalidPartition {
        /// The group.
        group: PathBuf,
        /// The requested kind of partition.
        requested: &'static str,
        /// The kernel's reason.
        reason: String,
    },
    /// Nothing counts the CPU time of groups.
    #[error(
        "neither cgroup v2 nor the v1 controller cpuacct is mounted, so that no CPU time is counted: mount one of them"
    )]
    NoCpuUsage,
    /// The group is in cgroup v1, which has no partitions.
    #[error("{} is in a hierarchy of cgroup v1, which has no partitions: use cgroup v2", .group.display())]
    NoPartitions {
        /// The group.
        group: PathBuf,
    },
    /// A group's folder could not be created or removed.
    #[error("cannot {action} {}: {error}", .path.display())]
    Folder {
        /// The operation.
        action: &'static str,
        /// The folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

impl CgroupError {
    /// Whether the group no longer exists.
    #[must_use]
    pub fn is_vanished(&self) -> bool {
        matches!(self, CgroupError::Vanished { .. })
    }
}

fn no_cpuset(unified: Option<&Path>) -> String {
    match unified {
        Some(point) => format!(
            "{} does not list the controller cpuset, and no v1 hierarchy has it either",
            point.display()
        ),
        None => "no hierarchy is mounted; mount /sys/fs/cgroup into this container".to_owned(),
    }
}

fn no_file(path: &Path) -> &'static str {
    let name = path.file_name().and_then(|name| name.to_str());
    match name {
        Some(name) if name.starts_with("cpu") => {
            "the groups above do not enable this controller (cgroup.subtree_control), \
             or the kernel is too old for it"
        }
        _ => "this is not a control group, or the kernel is too old for it",
    }
}

/// The meaning of the kernel's error number for this file, and a remedy.
fn advice(path: &Path, error: &io::Error) -> &'static str {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    let is_set = matches!(name, "cpuset.cpus" | "cpuset.mems");
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS) if is_set => {
            "; the parent group does not allow all of it, or this process may not write here: \
             widen the parent group, or run as root"
        }
        Some(Errno::ACCESS | Errno::PERM) => "; this process may not write here: run as root",
        Some(Errno::ROFS) => "; it is mounted read-only: mount /sys/fs/cgroup writable",
        Some(Errno::BUSY) if is_set => "; a group below still uses what would be removed",
        Some(Errno::BUSY) if name == "cgroup.subtree_control" => {
            "; a group with processes cannot enable controllers for groups below: move its processes into a group below"
        }
        Some(Errno::NOSPC) => "; processes in the group would have no CPU or memory node left",
        Some(Errno::RANGE) => "; this machine does not have all of it",
        Some(Errno::INVAL) if is_set => {
            "; this machine does not have all of it, or another group has it exclusively"
        }
        Some(Errno::INVAL) => "; it contradicts a limit of a group above or below",
        _ => "",
    }
}
