//! Opens the journal, and appends transactions to it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::entry::{JournalEntry, JournalSnapshot, JournalTransaction};
use super::preallocation::{Preallocation, SpaceMaker};
use super::read::{EntryReader, JournalState, Replayed};
use super::{FILE, Journal, JournalError, JournalLimits, LineSpan, file, line, read};

/// The most bytes of entries that are read at once.
const PAGE_BYTES: u64 = 256 << 10;

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
    let journal = Journal {
        folder: folder.to_owned(),
        file: open,
        limits,
        lines,
        length: end.length,
        preallocation: Preallocation::up_to(file_length),
        compacted_length: 0,
        last_number,
        broken: false,
        in_batch: false,
        syncs: 0,
        _lock: lock,
    };
    if end.truncated_bytes > 0 {
        let mut rest = vec![0; usize::try_from(end.truncated_bytes).unwrap_or(0)];
        let read = journal.file.read_exact_at(&mut rest, end.length);
        read.map_err(|error| JournalError::file("read", &path, error))?;
        let aside = folder.join(format!("truncated-after-{last_number}"));
        file::replace(&aside, &rest)?;
        let cut = journal.preallocation.truncate(&journal.file, end.length);
        let cut = cut.and_then(|()| journal.file.sync_all());
        cut.map_err(|error| JournalError::file("truncate", &path, error))?;
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
            let undone = self.preallocation.truncate(&self.file, self.length);
            let undone = undone.and_then(|()| self.file.sync_all());
            self.broken = undone.is_err();
            return Err(JournalError::file("write to", &path, error));
        }
        let written = self.length;
        self.length += more;
        if self.in_batch {
            return Ok(());
        }
        self.sync().inspect_err(|_| {
            self.length = written;
            let _ = self.preallocation.truncate(&self.file, written);
        })
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.syncs += 1;
        self.file.sync_data().map_err(|error| {
            // The content of the disk is unknown: after a failed sync the kernel reports success to the next one.
            self.broken = true;
            JournalError::file("sync", &self.path(), error)
        })
    }

    /// Leaves syncing to [`Journal::end_batch`]. What is written until then must have no effect before that returns.
    pub fn begin_batch(&mut self) {
        self.in_batch = true;
    }

    /// Syncs what was written since [`Journal::begin_batch`] to disk.
    ///
    /// # Errors
    /// If that fails; the journal is broken then, and its content on disk unknown.
    pub fn end_batch(&mut self) -> Result<(), JournalError> {
        self.in_batch = false;
        self.sync()
    }

    /// What preallocates space for further transactions, while they are written; `None` if there is enough.
    ///
    /// # Errors
    /// If the file cannot be opened once more.
    pub fn space_maker(&self) -> Result<Option<SpaceMaker>, JournalError> {
        let maker = self.preallocation.maker(&self.file, self.length);
        let maker = maker.transpose();
        maker.map_err(|error| JournalError::file("open", &self.path(), error))
    }

    /// At most `limit` entries after the one with this number, to be read later: the journal may be written meanwhile.
    /// They have at most 256 KiB together, or are a single one, so that reading them needs bounded memory.
    ///
    /// # Errors
    /// If the file cannot be opened once more.
    pub fn entries_after(&self, number: u64, limit: usize) -> Result<EntryReader, JournalError> {
        let path = self.path();
        let file = self.file.try_clone();
        let file = file.map_err(|error| JournalError::file("open", &path, error))?;
        let before = self.last_number.saturating_sub(self.lines.len() as u64);
        let skipped = usize::try_from(number.saturating_sub(before)).unwrap_or(usize::MAX);
        let mut bytes_left = PAGE_BYTES;
        let spans = self.lines.iter().skip(skipped).take(limit).copied();
        let fitting = spans.enumerate().take_while(|(index, span)| {
            let fits = *index == 0 || span.length <= bytes_left;
            bytes_left = bytes_left.saturating_sub(span.length);
            fits
        });
        let spans = fitting.map(|(_, span)| span).collect();
        Ok(EntryReader { path, file, spans })
    }

    /// Checks after a failed write whether the disk has space again, by writing and removing a small file in `folder`, the
    /// journal's.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn probe_disk(folder: &Path) -> Result<(), JournalError> {
        const BYTES: usize = 64 << 10;
        let probe = folder.join("probe");
        let written = file::replace(&probe, &vec![0; BYTES]);
        let _ = fs::remove_file(&probe);
        written
    }

    /// Preallocates again from now on: the disk has space.
    pub fn resume_preallocation(&self) {
        self.preallocation.retry();
    }
}
