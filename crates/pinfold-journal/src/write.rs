//! Appends transactions to the journal, and compacts it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::entry::{JournalEntry, JournalSnapshot, JournalTransaction};
use super::preallocation::Preallocation;
use super::read::{EntryReader, JournalState, Replayed};
use super::{FILE, Journal, JournalError, JournalLimits, LineSpan, file, line, read};

pub(super) fn open(
    folder: &Path,
    limits: JournalLimits,
) -> Result<(Journal, Option<JournalState>), JournalError> {
    file::make_folder(folder)?;
    let lock = file::lock(folder)?;
    let path = folder.join(FILE);
    let exists = fs::symlink_metadata(&path).is_ok();
    if !exists {
        file::replace(&path, read::header().as_bytes())?;
    }
    let open = file::open(&path, OpenOptions::new().read(true).write(true))?;
    let Replayed {
        state,
        last_number,
        lines,
        end,
    } = read::replay(&path, &open)?;
    let file_length = open.metadata().map(|found| found.len());
    let file_length = file_length.map_err(|error| JournalError::file("read", &path, error))?;
    let mut journal = Journal {
        folder: folder.to_owned(),
        file: open,
        limits,
        lines,
        length: end.length,
        preallocation: Preallocation::up_to(file_length),
        compacted_length: 0,
        last_number,
        broken: false,
        _lock: lock,
    };
    if end.truncated_bytes > 0 {
        let mut rest = vec![0; usize::try_from(end.truncated_bytes).unwrap_or(0)];
        let read = journal.file.read_exact_at(&mut rest, end.length);
        read.map_err(|error| JournalError::file("read", &path, error))?;
        let aside = folder.join(format!("truncated-after-{last_number}"));
        file::replace(&aside, &rest)?;
        let cut = journal.file.set_len(end.length);
        let cut = cut.and_then(|()| journal.file.sync_all());
        cut.map_err(|error| JournalError::file("truncate", &path, error))?;
        journal.preallocation.truncate(end.length);
    }
    Ok((journal, state))
}

impl Journal {
    /// Writes the snapshot with which a new journal starts.
    ///
    /// # Errors
    /// If it cannot be written; the journal is then unchanged.
    pub fn write_first_snapshot(&mut self, snapshot: JournalSnapshot) -> Result<(), JournalError> {
        self.last_number = snapshot.number;
        self.append(&JournalTransaction {
            entry: None,
            snapshot: Some(snapshot),
        })
    }

    /// Writes an entry and syncs it to disk.
    ///
    /// # Errors
    /// If it cannot be written; the journal is then unchanged.
    pub fn write(&mut self, entry: JournalEntry) -> Result<(), JournalError> {
        self.write_with_snapshot(entry, None)
    }

    /// Writes an entry and a snapshot of the state after it as one transaction, for changes of the rules.
    ///
    /// # Errors
    /// If it cannot be written; the journal is then unchanged.
    pub fn write_with_snapshot(
        &mut self,
        entry: JournalEntry,
        snapshot: Option<JournalSnapshot>,
    ) -> Result<(), JournalError> {
        let number = entry.number;
        let start = self.length;
        self.append(&JournalTransaction {
            entry: Some(entry),
            snapshot,
        })?;
        let length = self.length - start;
        self.lines.push(LineSpan { start, length });
        self.last_number = number;
        Ok(())
    }

    fn append(&mut self, transaction: &JournalTransaction) -> Result<(), JournalError> {
        let path = self.path();
        if self.broken {
            return Err(JournalError::Broken { path });
        }
        let line = line::write(transaction);
        let line = line.map_err(|error| JournalError::damaged(&path, error))?;
        let more = line.len() as u64;
        self.preallocation.extend(&self.file, self.length, more);
        if let Err(error) = self.file.write_all_at(&line, self.length) {
            self.preallocation.truncate(self.length);
            let undone = self.file.set_len(self.length);
            let undone = undone.and_then(|()| self.file.sync_all());
            self.broken = undone.is_err();
            return Err(JournalError::file("write to", &path, error));
        }
        if let Err(error) = self.file.sync_data() {
            // The content of the disk is unknown: after a failed sync the kernel reports success to the next one.
            self.broken = true;
            let _ = self.file.set_len(self.length);
            return Err(JournalError::file("sync", &path, error));
        }
        self.length += more;
        Ok(())
    }

    /// At most `limit` entries after the one with this number, to be read later: the journal may be written meanwhile.
    ///
    /// # Errors
    /// If the file cannot be opened once more.
    pub fn entries_after(&self, number: u64, limit: usize) -> Result<EntryReader, JournalError> {
        let path = self.path();
        let file = self.file.try_clone();
        let file = file.map_err(|error| JournalError::file("open", &path, error))?;
        let before = self.last_number.saturating_sub(self.lines.len() as u64);
        let skipped = usize::try_from(number.saturating_sub(before)).unwrap_or(usize::MAX);
        let spans = self.lines.iter().skip(skipped).take(limit).copied();
        let spans = spans.collect();
        Ok(EntryReader { path, file, spans })
    }

    /// Checks after a failed write whether the disk has space again, by writing and removing a small file.
    ///
    /// # Errors
    /// If the file cannot be written, or the journal is broken.
    pub fn probe_disk(&mut self) -> Result<(), JournalError> {
        const BYTES: usize = 64 << 10;
        if self.broken {
            return Err(JournalError::Broken { path: self.path() });
        }
        let probe = self.folder.join("probe");
        let written = file::replace(&probe, &vec![0; BYTES]);
        let _ = fs::remove_file(&probe);
        if written.is_ok() {
            self.preallocation = Preallocation::up_to(self.length);
        }
        written
    }

    /// Whether the file exceeds its limits.
    #[must_use]
    pub fn needs_compaction(&self) -> bool {
        let limit = self.limits.bytes;
        let large = self.length > limit.max(self.compacted_length.saturating_mul(2));
        large || self.lines.len() > self.limits.entries
    }

    /// Replaces the file by one with the newest entries and `snapshot`, which is the state after all of them.
    ///
    /// # Errors
    /// If the new file cannot be written; the old one is then unchanged.
    pub fn compact(&mut self, snapshot: JournalSnapshot) -> Result<(), JournalError> {
        let path = self.path();
        let mut content = read::header().into_bytes();
        let mut kept = Vec::new();
        let mut bytes_left = self.limits.bytes / 2;
        let newest = self.lines.iter().rev().take(self.limits.entries / 2);
        let fitting = newest.take_while(|line| {
            let fits = line.length <= bytes_left;
            bytes_left = bytes_left.saturating_sub(line.length);
            fits
        });
        let mut fitting: Vec<LineSpan> = fitting.copied().collect();
        fitting.reverse();
        for span in fitting {
            let mut bytes = vec![0; usize::try_from(span.length).unwrap_or(0)];
            let read = self.file.read_exact_at(&mut bytes, span.start);
            read.map_err(|error| JournalError::file("read", &path, error))?;
            kept.push(LineSpan {
                start: content.len() as u64,
                length: span.length,
            });
            content.extend(bytes);
        }
        let line = line::write(&JournalTransaction {
            entry: None,
            snapshot: Some(snapshot),
        });
        content.extend(line.map_err(|error| JournalError::damaged(&path, error))?);
        if let Err(error) = file::replace(&path, &content) {
            self.broken |= !self.is_at(&path);
            return Err(error);
        }
        self.reopen(&path)?;
        self.lines = kept;
        self.length = content.len() as u64;
        self.preallocation = Preallocation::up_to(self.length);
        self.compacted_length = self.length;
        Ok(())
    }

    /// Whether `path` still names the open file.
    fn is_at(&self, path: &Path) -> bool {
        let identity = |found: fs::Metadata| (found.dev(), found.ino());
        let open = self.file.metadata().map(identity).ok();
        open.is_some() && open == fs::symlink_metadata(path).map(identity).ok()
    }

    /// Opens the new file after a compaction. If that fails the journal is broken: the open file is the replaced one.
    fn reopen(&mut self, path: &Path) -> Result<(), JournalError> {
        self.broken = true;
        self.file = file::open(path, OpenOptions::new().read(true).write(true))?;
        self.broken = false;
        Ok(())
    }
}
