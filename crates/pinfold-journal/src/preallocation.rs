//! [`Preallocation`]: blank lines at the end of the file, which transactions overwrite.
//!
//! If a write extends the file, syncing it also syncs the file's new length, and many file systems then wait for all
//! other pending writes to the same disk, such as image layers. Overwriting preallocated space syncs only the
//! transaction.
//!
//! Another thread preallocates ([`SpaceMaker`]) while transactions are written: it writes only beyond the preallocated
//! space, and transactions never do so without its lock.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are preallocated at a time: enough for hundreds of transactions.
const BYTES: u64 = 1 << 20;
/// Bytes of one write while preallocating.
const CHUNK: usize = 64 << 10;

/// The end of a file's preallocated space.
#[derive(Clone, Debug, Default)]
pub(super) struct Preallocation {
    shared: Arc<SharedEnd>,
}

#[derive(Debug, Default)]
struct SharedEnd {
    end: AtomicU64,
    growth: Mutex<Growth>,
}

/// Held while the file grows or is truncated.
#[derive(Debug, Default)]
struct Growth {
    /// Set when the disk had too little space: the file then grows with every write.
    failed: bool,
}

/// Preallocates space of a journal while transactions are written to it.
#[derive(Debug)]
pub struct SpaceMaker {
    file: File,
    space: Preallocation,
}

impl SpaceMaker {
    /// Preallocates space. If the disk has too little of it, the file grows with every transaction instead.
    pub fn preallocate(&self) {
        let mut growth = self.space.growth();
        let end = self.space.end();
        self.space.grow(&mut growth, &self.file, end, end);
    }
}

impl Preallocation {
    /// For a file of this length: everything after its written part is preallocated.
    pub(super) fn up_to(file_length: u64) -> Self {
        let preallocation = Self::default();
        preallocation.set_end(file_length);
        preallocation
    }

    /// Truncates the file to `length`.
    pub(super) fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        let _growth = self.growth();
        self.set_end(length);
        file.set_len(length)
    }

    /// What preallocates more space; `None` if at least half of the usual space is left after the first `length` bytes.
    pub(super) fn maker(&self, file: &File, length: u64) -> Option<io::Result<SpaceMaker>> {
        if self.end().saturating_sub(length) >= BYTES / 2 {
            return None;
        }
        let space = self.clone();
        Some(file.try_clone().map(|file| SpaceMaker { file, space }))
    }

    /// Preallocates space if `more` bytes after the first `length` would extend the file.
    pub(super) fn extend(&self, file: &File, length: u64, more: u64) {
        let needed = length.saturating_add(more);
        if needed <= self.end() {
            return;
        }
        let mut growth = self.growth();
        // Another thread may have preallocated meanwhile.
        if needed > self.end() {
            self.grow(&mut growth, file, self.end(), needed);
            // Without space the write extends the file.
            self.set_end(needed.max(self.end()));
        }
    }

    /// Preallocates again from now on, after the disk had too little space.
    pub(super) fn retry(&self) {
        self.growth().failed = false;
    }

    /// Writes blank lines from `start` to `needed` and further.
    fn grow(&self, growth: &mut Growth, file: &File, start: u64, needed: u64) {
        if growth.failed {
            return;
        }
        let end = needed.saturating_add(BYTES);
        let extended = write_blank(file, start, end).and_then(|()| file.sync_all());
        match extended {
            Ok(()) => self.set_end(end),
            Err(_) => {
                growth.failed = true;
                // Blank lines that remain are harmless.
                let _ = file.set_len(start);
            }
        }
    }

    fn end(&self) -> u64 {
        self.shared.end.load(Ordering::Acquire)
    }

    fn set_end(&self, end: u64) {
        self.shared.end.store(end, Ordering::Release);
    }

    fn growth(&self) -> MutexGuard<'_, Growth> {
        let growth = self.shared.growth.lock();
        growth.unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_blank(file: &File, from: u64, end: u64) -> io::Result<()> {
    let lines = [b'\n'; CHUNK];
    let mut at = from;
    while at < end {
        let rest = usize::try_from(end - at).unwrap_or(CHUNK);
        let chunk = lines.get(..rest).unwrap_or(&lines);
        file.write_all_at(chunk, at)?;
        at += chunk.len() as u64;
    }
    Ok(())
}
