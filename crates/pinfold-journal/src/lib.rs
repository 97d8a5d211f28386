//! [`Journal`]: the write-ahead file of a node's ledger. Every change is on disk before it takes effect.
//!
//! One file of lines. Each line is a transaction with its checksum, written and synced as a whole:
//!
//! ```text
//! pinfold-journal 1
//! 5d41402a {"snapshot":{machine, settings, state}}
//! 7d793037 {"entry":{"number":1,"time":"2026-01-01T00:00:00Z","event":{"admitted":…},"change":…,"decision":…}}
//! ```
//!
//! Blank lines at the end are preallocated space. The state is the last snapshot plus the changes of the entries after
//! it. An incomplete last line is cut off and moved to another file: its change was never reported as done. Damage
//! anywhere else is an error: resources that the lost lines assigned could otherwise be assigned twice.
//!
//! When the file exceeds its limits, it is replaced by one with the newest entries and a snapshot at its end.

use std::fs::File;
use std::path::{Path, PathBuf};

mod compaction;
mod entry;
mod error;
mod file;
mod line;
mod pod_record;
mod preallocation;
mod read;
mod scan;
mod write;

pub use compaction::{Compaction, WrittenCompaction};
pub use entry::{JournalEntry, JournalEvent, JournalSnapshot};
pub use error::JournalError;
pub use jiff::Timestamp;
pub use pod_record::{JournalPodRecord, PinnedProcess, PodOrigin};
pub use preallocation::SpaceMaker;
pub use read::{EntryReader, JournalHistory, JournalState};

/// Name of the journal file in its folder.
pub const FILE: &str = "journal";

/// JournalLimits of the history that is kept. The current state is always kept, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLimits {
    /// The file is compacted when it has more entries than this. Compaction keeps at most half as many.
    pub entries: usize,
    /// The file is compacted when it has more bytes than this. Compaction keeps entries of at most half as many.
    pub bytes: u64,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self {
            entries: 20_000,
            bytes: 16 << 20,
        }
    }
}

/// An open journal. It holds the lock file, so that no other process can write the journal.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: File,
    limits: JournalLimits,
    /// Positions of the lines that hold entries, oldest first.
    lines: Vec<LineSpan>,
    /// Length of the written part of the file.
    length: u64,
    /// The preallocated space after it.
    preallocation: preallocation::Preallocation,
    /// Length of the file after the last compaction.
    compacted_length: u64,
    /// Number of the last entry.
    last_number: u64,
    /// Set when a failed write left the content of the disk unknown.
    broken: bool,
    /// Whether syncing is left to the end of a batch.
    in_batch: bool,
    /// Number of syncs since the journal was opened.
    syncs: u64,
    _lock: File,
}

/// Byte position of a line in the file.
#[derive(Clone, Copy, Debug)]
struct LineSpan {
    start: u64,
    length: u64,
}

impl Journal {
    /// Opens the journal in `folder`, which is created if it does not exist. A new journal has no state (`None`) and
    /// must be given a [`JournalSnapshot`] first.
    ///
    /// # Errors
    /// If another process has it open, it is damaged or of a later version, or another user can write to it.
    pub fn open(
        folder: &Path,
        limits: JournalLimits,
    ) -> Result<(Self, Option<JournalState>), JournalError> {
        write::open(folder, limits)
    }

    /// Reads the state of the journal from its file again.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn reread(&self) -> Result<JournalState, JournalError> {
        let path = self.path();
        let file = File::open(&path).map_err(|error| JournalError::file("open", &path, error))?;
        let state = read::replay(&path, &file)?.state;
        state.ok_or_else(|| JournalError::damaged(&path, "it has no snapshot"))
    }

    /// Number of the last entry. It increases with every entry.
    #[must_use]
    pub fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Whether a failed write left the content of the disk unknown. All further writes then fail.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Length of the file in bytes, without preallocated space.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How many times transactions were synced to disk since the journal was opened.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// The journal's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of the journal file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}
