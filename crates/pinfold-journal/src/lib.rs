//! [`Journal`]: every change of one node's ledger, on disk before anybody acts on it.
//!
//! One file of lines, each a transaction with its checksum, written and synced as a whole:
//!
//! ```text
//! pinfold-journal 1
//! 5d41402a {"base":{machine, settings, state}}
//! 7d793037 {"entry":{"number":1,"at":1767225600000,"what":"admitted","pod":…,"change":…,"decision":…}}
//! ```
//!
//! Blank lines at the end are room for more. The state is the last `base` with the changes of the entries after it. A line that was being written when the power
//! went has never been reported as done; it is cut off and kept aside. Damage anywhere else is rejected: what the
//! lost lines said is not known, and to hand it out again would be worse than to hand out nothing.
//!
//! From time to time the file is replaced as a whole by a shorter one with the newest entries and a base at its end.

use std::fs::File;
use std::path::{Path, PathBuf};

mod entry;
mod error;
mod file;
mod line;
mod note;
mod read;
mod room;
mod write;

pub use entry::{Base, Entry, What};
pub use error::JournalError;
pub use note::{HeldProcess, Note, Origin};
pub use pinfold_kube::Timestamp;
pub use read::History;

/// The name of the file in its folder.
pub const FILE: &str = "journal";

/// How much history is kept. The current state is never given up, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The file is shortened when it has more entries than this ...
    pub entries: usize,
    /// ... or more bytes than this, and then has at most half of both.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 20_000,
            bytes: 32 << 20,
        }
    }
}

/// The open journal. Nobody else can open it for writing until it is dropped.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: File,
    limits: Limits,
    /// Lengths in bytes of the lines that hold entries, oldest first, with where they start.
    lines: Vec<Span>,
    /// The length of what is written.
    length: u64,
    /// Where more can be written.
    room: room::Room,
    /// The length when the file was last shortened.
    shortest: u64,
    /// The number of the last entry.
    last: u64,
    /// A write failed in a way that leaves unknown what is on disk.
    broken: bool,
    _lock: File,
}

/// Where a line is.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    length: u64,
}

impl Journal {
    /// Opens the journal in `folder`, which is made if there is none. `None` beside the journal if it is new: it needs
    /// a [`Base`] first.
    ///
    /// # Errors
    /// If somebody else has it open, if it is damaged, of a later version, or not ours alone.
    pub fn open(folder: &Path, limits: Limits) -> Result<(Self, Option<History>), JournalError> {
        write::open(folder, limits)
    }

    /// The number of the last entry: it only ever grows.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether an earlier write left unknown what is on disk: nothing more is written then.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// How many bytes are written.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}
