//! [`CgroupError`]: what could not be done with a group, what the kernel said, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::path::GroupPath;

/// Why a group could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The group is gone: its container ended. Nothing is wrong.
    #[error("{} is gone", .group.display())]
    Vanished {
        /// Its folder.
        group: PathBuf,
    },
    /// Nothing mounted here confines CPUs.
    #[error("no control group can confine CPUs here: {}", no_cpuset(.unified.as_deref()))]
    NoCpuset {
        /// Where the hierarchy of v2 is, if it is mounted.
        unified: Option<PathBuf>,
    },
    /// A group that cannot be seen from here.
    #[error("group /{path} is not below {}, which is all that is mounted here: mount the machine's whole hierarchy", .root.display())]
    Outside {
        /// The group.
        path: GroupPath,
        /// What can be seen.
        root: PathBuf,
    },
    /// The group is there and has no such file.
    #[error("{} is not there: {}", .path.display(), no_file(.path))]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        error: io::Error,
    },
    /// A file that says what no kernel says.
    #[error("{} says {text:?}, which cannot be understood", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What it says.
        text: String,
    },
    /// The kernel did not take a value.
    #[error("cannot write {value:?} to {}: {error}{}", .path.display(), advice(.path, .error))]
    Rejected {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// What the kernel said.
        #[source]
        error: io::Error,
    },
    /// A group further up, which is not Kubernetes' to widen, does not have what is wanted.
    #[error(
        "{} allows {allows:?} and lacks {lacks}, and whoever set it meant all groups below: \
         widen it first, or take {lacks} from what Pinfold may hand out", .path.display()
    )]
    ParentTooNarrow {
        /// The file that is too narrow.
        path: PathBuf,
        /// What it allows.
        allows: String,
        /// What is missing.
        lacks: String,
    },
    /// Neither all CPUs nor all nodes can be taken from a group.
    #[error("{} cannot do with nothing: give it at least one CPU and one memory node", .group.display())]
    Nothing {
        /// The group.
        group: PathBuf,
    },
    /// The kernel took a value and made something else of it.
    #[error("{}: asked for {asked:?}, the kernel made it {found:?}: CPUs may be offline or belong to a partition", .path.display())]
    NotInForce {
        /// The file that shows it.
        path: PathBuf,
        /// What was asked.
        asked: String,
        /// What it shows.
        found: String,
    },
    /// A partition that the kernel holds for invalid. The group is an ordinary one again.
    #[error("{} cannot become a partition ({asked}): {reason}", .group.display())]
    InvalidPartition {
        /// The group.
        group: PathBuf,
        /// The kind that was asked for.
        asked: &'static str,
        /// Why not, in the kernel's words.
        reason: String,
    },
    /// Only v2 has partitions.
    #[error("{} is in a hierarchy of cgroup v1, which has no partitions: use cgroup v2", .group.display())]
    NoPartitions {
        /// The group.
        group: PathBuf,
    },
    /// A folder of a group could not be made or taken away.
    #[error("cannot {action} {}: {error}", .path.display())]
    Folder {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

impl CgroupError {
    /// Whether the group simply ended meanwhile.
    #[must_use]
    pub fn is_vanished(&self) -> bool {
        matches!(self, CgroupError::Vanished { .. })
    }
}

fn no_cpuset(unified: Option<&Path>) -> String {
    match unified {
        Some(point) => format!(
            "{} does not list the controller cpuset, and v1 has not mounted it either",
            point.display()
        ),
        None => "no hierarchy is mounted; mount /sys/fs/cgroup into this container".to_owned(),
    }
}

fn no_file(path: &Path) -> &'static str {
    let name = path.file_name().and_then(|name| name.to_str());
    match name {
        Some(name) if name.starts_with("cpu") => {
            "the groups above do not hand this controller on (cgroup.subtree_control), \
             or the kernel is too old for it"
        }
        _ => "this is no control group, or the kernel is too old for it",
    }
}

/// What the kernel means by its numbers, and what helps.
fn advice(path: &Path, error: &io::Error) -> &'static str {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    let is_set = matches!(name, "cpuset.cpus" | "cpuset.mems");
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS) if is_set => {
            "; the group above does not have all of it, or this process may not write here: \
             widen the group above, or run as root"
        }
        Some(Errno::ACCESS | Errno::PERM) => "; this process may not write here: run as root",
        Some(Errno::ROFS) => "; it is mounted read-only: mount /sys/fs/cgroup writable",
        Some(Errno::BUSY) if is_set => "; a group below still uses what would be taken away",
        Some(Errno::BUSY) if name == "cgroup.subtree_control" => {
            "; a group with processes of its own cannot hand controllers on: move them into a group below"
        }
        Some(Errno::NOSPC) => "; processes in the group would have nothing left",
        Some(Errno::RANGE) => "; this machine does not have all of it",
        Some(Errno::INVAL) if is_set => {
            "; this machine does not have all of it, or another group has it exclusively"
        }
        Some(Errno::INVAL) => "; a group above or below has a limit that contradicts it",
        _ => "",
    }
}
