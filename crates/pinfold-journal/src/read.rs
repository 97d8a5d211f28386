//! Reads the entries and the state of a journal, also while an agent has it open.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use pinfold_core::ledger::Ledger;
use pinfold_core::name::PodUid;

use super::entry::{JournalEntry, JournalEvent, JournalSnapshot, JournalTransaction};
use super::scan::{self, ScanEnd};
use super::{JournalError, JournalPodRecord, LineSpan, line};

/// The format version that is written.
pub(super) const VERSION: u64 = 1;
/// Start of the first line, before the version.
const MAGIC: &str = "pinfold-journal ";

/// The content of a journal.
#[derive(Clone, Debug)]
pub struct JournalHistory {
    /// The entries that are kept, oldest first.
    pub entries: Vec<JournalEntry>,
    /// The last snapshot.
    pub snapshot: JournalSnapshot,
    /// Bytes of an incomplete transaction at the end, whose change was never reported as done.
    pub truncated_bytes: u64,
}

/// The state of a node at the end of its journal.
#[derive(Clone, Debug)]
pub struct JournalState {
    /// The ledger.
    pub ledger: Ledger,
    /// The records of the pods that the ledger holds.
    pub records: BTreeMap<PodUid, JournalPodRecord>,
    /// Bytes of an incomplete transaction at the end, whose change was never reported as done.
    pub truncated_bytes: u64,
}

/// Entries of a journal that are read when they are needed.
#[derive(Debug)]
pub struct EntryReader {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) spans: Vec<LineSpan>,
}

impl EntryReader {
    /// Reads the entries.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn read(&self) -> Result<Vec<JournalEntry>, JournalError> {
        let mut entries = Vec::new();
        for span in &self.spans {
            let bytes = span.read(&self.file);
            let bytes = bytes.map_err(|error| JournalError::file("read", &self.path, error))?;
            let damaged =
                || JournalError::damaged(&self.path, "an entry does not match its checksum");
            let json = bytes.strip_suffix(b"\n").and_then(line::check);
            let transaction: JournalTransaction =
                serde_json::from_slice(json.ok_or_else(damaged)?).map_err(|_| damaged())?;
            entries.extend(transaction.entry);
        }
        Ok(entries)
    }
}

impl JournalHistory {
    /// Reads a journal without locking or changing it, also while an agent has it open.
    ///
    /// # Errors
    /// If it cannot be read, is damaged or of a later version.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let file = File::open(path).map_err(|error| JournalError::file("open", path, error))?;
        let (mut entries, mut snapshot) = (Vec::new(), None);
        let mut order = EntryOrder::default();
        let end = scan::scan(path, &file, |scanned| {
            order.check(path, &scanned)?;
            entries.extend(scanned.transaction.entry);
            snapshot = scanned.transaction.snapshot.or(snapshot.take());
            Ok(())
        })?;
        let snapshot = snapshot.ok_or_else(|| no_snapshot(path))?;
        Ok(Self {
            entries,
            snapshot,
            truncated_bytes: end.truncated_bytes,
        })
    }

    /// Number of the last entry.
    #[must_use]
    pub fn last_number(&self) -> u64 {
        let last = self.entries.last().map_or(0, |entry| entry.number);
        last.max(self.snapshot.number)
    }

    /// Rebuilds the ledger from the snapshot and the entries after it, and audits it.
    ///
    /// # Errors
    /// If an entry does not fit the state before it, or the audit fails. `path` is named in the message.
    pub fn ledger(&self, path: &Path) -> Result<Ledger, JournalError> {
        let mut ledger = ledger_of(path, &self.snapshot)?;
        let start = self.snapshot.number;
        for entry in self.entries.iter().filter(|entry| entry.number > start) {
            apply(path, entry, &mut ledger)?;
        }
        audited(path, &ledger)?;
        Ok(ledger)
    }

    /// The records of the pods that the rebuilt ledger holds.
    #[must_use]
    pub fn records(&self) -> BTreeMap<PodUid, JournalPodRecord> {
        let mut records = self.snapshot.records.clone();
        let start = self.snapshot.number;
        for entry in self.entries.iter().filter(|entry| entry.number > start) {
            update_records(entry, &mut records);
        }
        records
    }
}

/// First line of a journal, with its line break.
pub(super) fn header() -> String {
    format!("{MAGIC}{VERSION}\n")
}

/// A journal that was read from its beginning to its end.
pub(super) struct Replayed {
    /// `None` if the journal has only its header: the agent that created it stopped before it wrote a snapshot.
    pub(super) state: Option<JournalState>,
    pub(super) last_number: u64,
    pub(super) lines: Vec<LineSpan>,
    pub(super) end: ScanEnd,
}

/// Rebuilds the ledger while the journal is read, without keeping its entries, and audits it.
///
/// # Errors
/// If the journal is damaged, or an entry does not fit the state before it.
pub(super) fn replay(path: &Path, file: &File) -> Result<Replayed, JournalError> {
    let mut state: Option<(Ledger, BTreeMap<PodUid, JournalPodRecord>)> = None;
    let mut lines = Vec::new();
    let mut order = EntryOrder::default();
    let end = scan::scan(path, file, |scanned| {
        order.check(path, &scanned)?;
        let JournalTransaction { entry, snapshot } = scanned.transaction;
        if let Some(entry) = entry {
            lines.push(scanned.span);
            if let Some((ledger, records)) = &mut state {
                apply(path, &entry, ledger)?;
                update_records(&entry, records);
            }
        }
        if let Some(snapshot) = snapshot {
            let ledger = ledger_of(path, &snapshot)?;
            state = Some((ledger, snapshot.records));
        }
        Ok(())
    })?;
    let state = match state {
        None if lines.is_empty() && end.truncated_bytes == 0 => None,
        None => return Err(no_snapshot(path)),
        Some((ledger, records)) => {
            audited(path, &ledger)?;
            let truncated_bytes = end.truncated_bytes;
            Some(JournalState {
                ledger,
                records,
                truncated_bytes,
            })
        }
    };
    Ok(Replayed {
        state,
        last_number: order.last.unwrap_or(0),
        lines,
        end,
    })
}

/// Checks that the numbers of entries and snapshots follow each other.
#[derive(Default)]
struct EntryOrder {
    last: Option<u64>,
}

impl EntryOrder {
    fn check(&mut self, path: &Path, scanned: &scan::Scanned) -> Result<(), JournalError> {
        let broken = |what: &str, number: u64| {
            let problem = format!("line {}: {what} {number} is out of order", scanned.line);
            Err(JournalError::damaged(path, problem))
        };
        if let Some(entry) = &scanned.transaction.entry {
            if self
                .last
                .is_some_and(|last| last.checked_add(1) != Some(entry.number))
            {
                return broken("entry", entry.number);
            }
            self.last = Some(entry.number);
        }
        if let Some(snapshot) = &scanned.transaction.snapshot {
            if self.last.is_some_and(|last| last != snapshot.number) {
                return broken("snapshot", snapshot.number);
            }
            self.last = Some(snapshot.number);
        }
        Ok(())
    }
}

fn no_snapshot(path: &Path) -> JournalError {
    JournalError::damaged(path, "it has no snapshot")
}

fn ledger_of(path: &Path, snapshot: &JournalSnapshot) -> Result<Ledger, JournalError> {
    let rules = snapshot.rules();
    let rules = rules.map_err(|error| JournalError::damaged(path, error))?;
    let ledger = Ledger::from_journal(rules.into(), snapshot.state.clone());
    ledger.map_err(|finding| JournalError::damaged(path, finding))
}

fn apply(path: &Path, entry: &JournalEntry, ledger: &mut Ledger) -> Result<(), JournalError> {
    let Some(change) = &entry.change else {
        return Ok(());
    };
    ledger.apply(change).map_err(|conflict| {
        JournalError::damaged(path, format!("entry {}: {conflict}", entry.number))
    })
}

fn audited(path: &Path, ledger: &Ledger) -> Result<(), JournalError> {
    match ledger.audit().first() {
        Some(finding) => Err(JournalError::damaged(path, finding)),
        None => Ok(()),
    }
}

fn update_records(entry: &JournalEntry, records: &mut BTreeMap<PodUid, JournalPodRecord>) {
    match (&entry.event, &entry.record) {
        (JournalEvent::Admitted(pod) | JournalEvent::Pinned(pod, _), Some(record)) => {
            drop(records.insert(pod.clone(), record.clone()));
        }
        (JournalEvent::Released(pod), _) => drop(records.remove(pod)),
        _ => {}
    }
}

pub(super) fn check_header(path: &Path, bytes: &[u8]) -> Result<usize, JournalError> {
    let end = bytes.iter().take(64).position(|&byte| byte == b'\n');
    let found = end
        .and_then(|end| std::str::from_utf8(&bytes[..end]).ok())
        .and_then(|line| line.strip_prefix(MAGIC))
        .and_then(|version| version.parse::<u64>().ok());
    match (found, end) {
        (Some(VERSION), Some(end)) => Ok(end + 1),
        (Some(found), _) if found > VERSION => Err(JournalError::Version {
            path: path.to_owned(),
            found,
            known: VERSION,
        }),
        _ => Err(JournalError::damaged(
            path,
            "it does not start with the header of a journal",
        )),
    }
}
