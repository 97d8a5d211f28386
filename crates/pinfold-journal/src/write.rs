//! Writing: appending one transaction, and shortening the file.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::entry::{Base, Entry, Transaction};
use super::room::{self, Room};
use super::{FILE, History, Journal, JournalError, Limits, Span, file, line, read};

pub(super) fn open(
    folder: &Path,
    limits: Limits,
) -> Result<(Journal, Option<History>), JournalError> {
    file::make_folder(folder)?;
    let lock = file::lock(folder)?;
    let path = folder.join(FILE);
    let exists = fs::symlink_metadata(&path).is_ok();
    if !exists {
        file::replace(folder, &path, read::header().as_bytes())?;
    }
    let open = file::open(&path, OpenOptions::new().read(true).write(true))?;
    let bytes = read::bytes(&path, &open)?;
    let room = Room::of(bytes.len() as u64);
    let bytes = room::without(&bytes);
    let mut journal = Journal {
        folder: folder.to_owned(),
        file: open,
        limits,
        lines: Vec::new(),
        length: bytes.len() as u64,
        room,
        shortest: 0,
        last: 0,
        broken: false,
        _lock: lock,
    };
    // Nothing but the first line: whoever made it was stopped before the node was written down.
    if bytes == read::header().as_bytes() {
        return Ok((journal, None));
    }
    let mut history = read::parse(&path, bytes)?;
    if history.torn > 0 {
        let at = usize::try_from(history.length).unwrap_or(usize::MAX);
        let aside = folder.join(format!("torn-after-{}", history.last()));
        file::replace(folder, &aside, bytes.get(at..).unwrap_or_default())?;
        let cut = journal.file.set_len(history.length);
        let cut = cut.and_then(|()| journal.file.sync_all());
        cut.map_err(|error| JournalError::file("shorten", &path, error))?;
        journal.room.lose(history.length);
    }
    journal.length = history.length;
    journal.last = history.last();
    journal.lines = std::mem::take(&mut history.lines);
    Ok((journal, Some(history)))
}

impl Journal {
    /// Writes down the node as a whole: the first thing in a new journal.
    ///
    /// # Errors
    /// If it cannot be written; nothing is then.
    pub fn begin(&mut self, base: Base) -> Result<(), JournalError> {
        self.last = base.number;
        self.append(&Transaction {
            entry: None,
            base: Some(base),
        })
    }

    /// Writes down one entry. When this returns it is on disk.
    ///
    /// # Errors
    /// If it cannot be written; nothing is then.
    pub fn write(&mut self, entry: Entry) -> Result<(), JournalError> {
        self.write_with(entry, None)
    }

    /// The same with the node as a whole after it, for changes of the rules.
    ///
    /// # Errors
    /// If it cannot be written; nothing is then.
    pub fn write_with(&mut self, entry: Entry, base: Option<Base>) -> Result<(), JournalError> {
        let number = entry.number;
        let start = self.length;
        self.append(&Transaction {
            entry: Some(entry),
            base,
        })?;
        let length = self.length - start;
        self.lines.push(Span { start, length });
        self.last = number;
        Ok(())
    }

    fn append(&mut self, transaction: &Transaction) -> Result<(), JournalError> {
        let path = self.path();
        if self.broken {
            return Err(JournalError::Broken { path });
        }
        let line = line::write(transaction);
        let line = line.map_err(|error| JournalError::damaged(&path, error))?;
        let more = line.len() as u64;
        self.room.make(&self.file, self.length, more);
        if let Err(error) = self.file.write_all_at(&line, self.length) {
            self.room.lose(self.length);
            let taken_back = self.file.set_len(self.length);
            let taken_back = taken_back.and_then(|()| self.file.sync_all());
            self.broken = taken_back.is_err();
            return Err(JournalError::file("write to", &path, error));
        }
        if let Err(error) = self.file.sync_data() {
            // What the disk has now is anybody's guess, and asking again would not tell.
            self.broken = true;
            let _ = self.file.set_len(self.length);
            return Err(JournalError::file("sync", &path, error));
        }
        self.length += more;
        Ok(())
    }

    /// Finds out whether there is room on the disk for more, after a write failed.
    ///
    /// # Errors
    /// If there is not, or nothing can be written any more.
    pub fn try_again(&mut self) -> Result<(), JournalError> {
        const ROOM: usize = 64 << 10;
        if self.broken {
            return Err(JournalError::Broken { path: self.path() });
        }
        let trial = self.folder.join("trial");
        let tried = file::replace(&self.folder, &trial, &vec![0; ROOM]);
        let _ = fs::remove_file(&trial);
        if tried.is_ok() {
            self.room = Room::of(self.length);
        }
        tried
    }

    /// Whether there is more history than the limits allow.
    #[must_use]
    pub fn is_long(&self) -> bool {
        let large = self.length > self.limits.bytes.max(self.shortest.saturating_mul(2));
        large || self.lines.len() > self.limits.entries
    }

    /// Replaces the file by one with the newest entries and `base`, which is the state after all of them.
    ///
    /// # Errors
    /// If it cannot be written; the file is as it was then.
    pub fn shorten(&mut self, base: Base) -> Result<(), JournalError> {
        let path = self.path();
        let mut content = read::header().into_bytes();
        let mut kept = Vec::new();
        let mut room = self.limits.bytes / 2;
        let newest = self.lines.iter().rev().take(self.limits.entries / 2);
        let fitting = newest.take_while(|line| {
            let fits = line.length <= room;
            room = room.saturating_sub(line.length);
            fits
        });
        let mut fitting: Vec<Span> = fitting.copied().collect();
        fitting.reverse();
        for span in fitting {
            let mut bytes = vec![0; usize::try_from(span.length).unwrap_or(0)];
            let read = self.file.read_exact_at(&mut bytes, span.start);
            read.map_err(|error| JournalError::file("read", &path, error))?;
            kept.push(Span {
                start: content.len() as u64,
                length: span.length,
            });
            content.extend(bytes);
        }
        let base = line::write(&Transaction {
            entry: None,
            base: Some(base),
        });
        content.extend(base.map_err(|error| JournalError::damaged(&path, error))?);
        if let Err(error) = file::replace(&self.folder, &path, &content) {
            self.broken |= !self.is_at(&path);
            return Err(error);
        }
        self.reopen(&path)?;
        self.lines = kept;
        self.length = content.len() as u64;
        self.room = Room::of(self.length);
        self.shortest = self.length;
        Ok(())
    }

    /// Whether the open file is still the one of that name.
    fn is_at(&self, path: &Path) -> bool {
        let place = |found: fs::Metadata| (found.dev(), found.ino());
        let open = self.file.metadata().map(place).ok();
        open.is_some() && open == fs::symlink_metadata(path).map(place).ok()
    }

    /// The old file is not the journal any more: without the new one nothing can be written.
    fn reopen(&mut self, path: &Path) -> Result<(), JournalError> {
        self.broken = true;
        self.file = file::open(path, OpenOptions::new().read(true).write(true))?;
        self.broken = false;
        Ok(())
    }
}
