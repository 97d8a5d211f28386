//! [`Preallocation`]: blank lines at the end of the file, which transactions overwrite.
//!
//! If a write extends the file, syncing it also syncs the file's new length, and many file systems then wait for all
//! other pending writes to the same disk, such as image layers. Overwriting preallocated space syncs only the
//! transaction.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are preallocated at a time: enough for hundreds of transactions.
const BYTES: u64 = 1 << 20;
/// Bytes of one write while preallocating.
const CHUNK: usize = 64 << 10;

/// The end of a file's preallocated space.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preallocation {
    end: u64,
    /// Set when the disk had too little space: the file then grows with every write.
    failed: bool,
}

impl Preallocation {
    /// For a file of this length: everything after its written part is preallocated.
    pub(super) fn up_to(file_length: u64) -> Self {
        Self {
            end: file_length,
            failed: false,
        }
    }

    /// Records that the file was truncated to `length`.
    pub(super) fn truncate(&mut self, length: u64) {
        self.end = length;
    }

    /// Preallocates space if `more` bytes after the first `length` would extend the file. If the disk has too little
    /// space, the file grows with every write instead.
    pub(super) fn extend(&mut self, file: &File, length: u64, more: u64) {
        let needed = length.saturating_add(more);
        if needed <= self.end || self.failed {
            return;
        }
        let end = needed.saturating_add(BYTES);
        let extended = write_blank(file, length, end).and_then(|()| file.sync_all());
        match extended {
            Ok(()) => self.end = end,
            Err(_) => {
                self.failed = true;
                // Blank lines that remain are harmless.
                let _ = file.set_len(length);
            }
        }
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
