//! [`Compaction`]: writes a shorter file in place of the journal's, while transactions are written to the old one.
//!
//! ```text
//! Journal::begin_compaction   which entries are kept, and the state after them
//! Compaction::write           the new file: entries, then the snapshot        (takes long; needs no lock)
//! Journal::finish_compaction  transactions written meanwhile, then the rename
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::entry::{JournalSnapshot, JournalTransaction};
use super::preallocation::Preallocation;
use super::{Journal, JournalError, LineSpan, file, line, read};

/// A compaction that has not been written.
#[derive(Debug)]
pub struct Compaction {
    /// The journal's file.
    path: PathBuf,
    old: File,
    kept: Vec<LineSpan>,
    snapshot: JournalSnapshot,
    /// Lines of entries and length of the old file, whose state the snapshot is.
    lines: usize,
    length: u64,
}

/// The new file of a compaction, which does not replace the old one yet.
#[derive(Debug)]
pub struct WrittenCompaction {
    path: PathBuf,
    file: File,
    kept: Vec<LineSpan>,
    length: u64,
    /// Identity of the old file, and its lines and length when the snapshot was made.
    old: (u64, u64),
    old_lines: usize,
    old_length: u64,
}

impl Compaction {
    /// Writes the new file beside the journal, and syncs it to disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(self) -> Result<WrittenCompaction, JournalError> {
        let mut new_path = self.path.clone().into_os_string();
        new_path.push(".new");
        let path = PathBuf::from(new_path);
        // A leftover of a crash before the rename.
        let _ = fs::remove_file(&path);
        let written = self.write_to(&path);
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written
    }

    fn write_to(self, path: &Path) -> Result<WrittenCompaction, JournalError> {
        let failed = |error| JournalError::file("write", path, error);
        let unreadable = |error| JournalError::file("read", &self.path, error);
        let mut options = OpenOptions::new();
        let new = file::open(path, options.read(true).write(true).create_new(true))?;
        let mut writer = BufWriter::new(new);
        let header = read::header();
        writer.write_all(header.as_bytes()).map_err(failed)?;
        let mut length = header.len() as u64;
        let mut kept = Vec::with_capacity(self.kept.len());
        for span in &self.kept {
            let bytes = span.read(&self.old).map_err(unreadable)?;
            writer.write_all(&bytes).map_err(failed)?;
            kept.push(LineSpan {
                start: length,
                length: span.length,
            });
            length += span.length;
        }
        let line = line::write(&JournalTransaction {
            entry: None,
            snapshot: Some(self.snapshot),
        });
        let line = line.map_err(|error| JournalError::damaged(path, error))?;
        writer.write_all(&line).map_err(failed)?;
        length += line.len() as u64;
        let new = writer
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        new.sync_all().map_err(failed)?;
        Ok(WrittenCompaction {
            path: path.to_owned(),
            file: new,
            kept,
            length,
            old: identity(&self.old).map_err(unreadable)?,
            old_lines: self.lines,
            old_length: self.length,
        })
    }
}

impl LineSpan {
    /// Reads the line.
    pub(super) fn read(&self, file: &File) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.length).unwrap_or(0)];
        file.read_exact_at(&mut bytes, self.start)?;
        Ok(bytes)
    }
}

impl Journal {
    /// Whether the file exceeds its limits.
    #[must_use]
    pub fn needs_compaction(&self) -> bool {
        let limit = self.limits.bytes;
        let large = self.length > limit.max(self.compacted_length.saturating_mul(2));
        large || self.lines.len() > self.limits.entries
    }

    /// Begins to replace the file by one with the newest entries and `snapshot`, which is the state after all of them.
    ///
    /// # Errors
    /// If the file cannot be opened once more.
    pub fn begin_compaction(&self, snapshot: JournalSnapshot) -> Result<Compaction, JournalError> {
        let path = self.path();
        let old = self.file.try_clone();
        let old = old.map_err(|error| JournalError::file("open", &path, error))?;
        let mut bytes_left = self.limits.bytes / 2;
        let newest = self.lines.iter().rev().take(self.limits.entries / 2);
        let fitting = newest.take_while(|line| {
            let fits = line.length <= bytes_left;
            bytes_left = bytes_left.saturating_sub(line.length);
            fits
        });
        let mut kept: Vec<LineSpan> = fitting.copied().collect();
        kept.reverse();
        Ok(Compaction {
            path,
            old,
            kept,
            snapshot,
            lines: self.lines.len(),
            length: self.length,
        })
    }

    /// Replaces the file by the new one, with the transactions that were written meanwhile.
    ///
    /// # Errors
    /// If the new file cannot be completed; the old one is then unchanged. If the folder cannot be synced, the journal is
    /// broken: after a power failure the old file could be back, without what is written from now on.
    pub fn finish_compaction(&mut self, new: WrittenCompaction) -> Result<(), JournalError> {
        let path = self.path();
        let replaced = self.replace_by(&path, new);
        if replaced.is_err() {
            self.broken |= !self.is_at(&path);
        }
        replaced
    }

    fn replace_by(&mut self, path: &Path, mut new: WrittenCompaction) -> Result<(), JournalError> {
        let failed = |error| JournalError::file("write", &new.path, error);
        let unreadable = |error| JournalError::file("read", path, error);
        if self.broken || identity(&self.file).map_err(unreadable)? != new.old {
            let _ = fs::remove_file(&new.path);
            return Err(JournalError::damaged(
                path,
                "it was replaced during a compaction",
            ));
        }
        let meanwhile = LineSpan {
            start: new.old_length,
            length: self.length - new.old_length,
        };
        if meanwhile.length > 0 {
            let bytes = meanwhile.read(&self.file).map_err(unreadable)?;
            let written = new.file.write_all_at(&bytes, new.length);
            let written = written.and_then(|()| new.file.sync_data());
            if let Err(error) = written {
                let _ = fs::remove_file(&new.path);
                return Err(failed(error));
            }
            let moved = self.lines[new.old_lines..].iter().map(|span| LineSpan {
                start: span.start - new.old_length + new.length,
                length: span.length,
            });
            new.kept.extend(moved);
            new.length += meanwhile.length;
        }
        fs::rename(&new.path, path).map_err(|error| JournalError::file("replace", path, error))?;
        self.file = new.file;
        self.lines = new.kept;
        self.length = new.length;
        self.preallocation = Preallocation::up_to(self.length);
        self.compacted_length = self.length;
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(|error| {
            self.broken = true;
            JournalError::file("sync", &self.folder, error)
        })
    }

    /// Whether `path` still names the open file.
    fn is_at(&self, path: &Path) -> bool {
        let open = identity(&self.file).ok();
        let named = fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
        open.is_some() && open == named.ok()
    }
}

fn identity(file: &File) -> std::io::Result<(u64, u64)> {
    file.metadata().map(|found| (found.dev(), found.ino()))
}
