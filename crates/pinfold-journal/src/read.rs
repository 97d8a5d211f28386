//! Reads the entries and the state of a journal, also while an agent has it open.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use pinfold_core::ledger::Ledger;
use pinfold_core::name::PodUid;

use super::entry::{JournalEntry, JournalEvent, JournalSnapshot, JournalTransaction};
use super::{JournalError, JournalPodRecord, LineSpan, line, preallocation};

/// The format version that is written.
pub(super) const VERSION: u64 = 1;
/// Start of the first line, before the version.
const MAGIC: &str = "pinfold-journal ";
/// Largest file that is read. Journals stay far smaller because of their limits.
const MAX_BYTES: u64 = 1 << 30;

/// The content of a journal.
#[derive(Clone, Debug)]
pub struct JournalHistory {
    /// The entries that are kept, oldest first.
    pub entries: Vec<JournalEntry>,
    /// The last snapshot.
    pub snapshot: JournalSnapshot,
    /// Bytes of an incomplete transaction at the end, whose change was never reported as done.
    pub truncated_bytes: u64,
    pub(super) lines: Vec<LineSpan>,
    pub(super) length: u64,
}

impl JournalHistory {
    /// Reads a journal without locking or changing it, also while an agent has it open.
    ///
    /// # Errors
    /// If it cannot be read, is damaged or of a later version.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let file = File::open(path).map_err(|error| JournalError::file("open", path, error))?;
        parse(path, preallocation::strip(&bytes(path, &file)?))
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
        let rules = self.snapshot.rules();
        let rules = rules.map_err(|error| JournalError::damaged(path, error))?;
        let ledger = Ledger::from_journal(rules.into(), self.snapshot.state.clone());
        let mut ledger = ledger.map_err(|finding| JournalError::damaged(path, finding))?;
        let start = self.snapshot.number;
        for entry in self.entries.iter().filter(|entry| entry.number > start) {
            let Some(change) = &entry.change else {
                continue;
            };
            ledger.apply(change).map_err(|conflict| {
                JournalError::damaged(path, format!("entry {}: {conflict}", entry.number))
            })?;
        }
        match ledger.audit().first() {
            Some(finding) => Err(JournalError::damaged(path, finding)),
            None => Ok(ledger),
        }
    }

    /// The records of the pods that the rebuilt ledger holds.
    #[must_use]
    pub fn records(&self) -> BTreeMap<PodUid, JournalPodRecord> {
        let mut records = self.snapshot.records.clone();
        let start = self.snapshot.number;
        for entry in self.entries.iter().filter(|entry| entry.number > start) {
            match (&entry.event, &entry.record) {
                (JournalEvent::Admitted(pod) | JournalEvent::Pinned(pod, _), Some(record)) => {
                    drop(records.insert(pod.clone(), record.clone()));
                }
                (JournalEvent::Released(pod), _) => drop(records.remove(pod)),
                _ => {}
            }
        }
        records
    }
}

pub(super) fn bytes(path: &Path, file: &File) -> Result<Vec<u8>, JournalError> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| JournalError::file("read", path, error))?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(JournalError::damaged(path, "it is larger than 1 GiB")),
        false => Ok(bytes),
    }
}

/// First line of a journal, with its line break.
pub(super) fn header() -> String {
    format!("{MAGIC}{VERSION}\n")
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<JournalHistory, JournalError> {
    let mut at = check_header(path, bytes)?;
    let (mut entries, mut lines): (Vec<JournalEntry>, Vec<LineSpan>) = (Vec::new(), Vec::new());
    let mut snapshot: Option<JournalSnapshot> = None;
    let mut number = 1;
    while let Some(length) = bytes[at..].iter().position(|&byte| byte == b'\n') {
        number += 1;
        let Some(json) = line::check(&bytes[at..at + length]) else {
            break;
        };
        let broken =
            |problem: String| JournalError::damaged(path, format!("line {number}: {problem}"));
        let transaction: JournalTransaction =
            serde_json::from_slice(json).map_err(|error| broken(error.to_string()))?;
        if let Some(entry) = transaction.entry {
            let before = entries.last().map(|entry| entry.number);
            let before = before.or(snapshot.as_ref().map(|snapshot| snapshot.number));
            if before.is_some_and(|before| before.checked_add(1) != Some(entry.number)) {
                return Err(broken(format!("entry {} is out of order", entry.number)));
            }
            lines.push(LineSpan {
                start: at as u64,
                length: length as u64 + 1,
            });
            entries.push(entry);
        }
        if let Some(new) = transaction.snapshot {
            let last = entries.last().map(|entry| entry.number);
            if last.is_some_and(|last| last != new.number) {
                return Err(broken(format!("snapshot {} is out of order", new.number)));
            }
            snapshot = Some(new);
        }
        at += length + 1;
    }
    let rest = &bytes[at..];
    if has_valid_line(rest) {
        let problem =
            format!("the checksum of line {number} does not match, but later lines are valid");
        return Err(JournalError::damaged(path, problem));
    }
    let snapshot = snapshot.ok_or_else(|| JournalError::damaged(path, "it has no snapshot"))?;
    Ok(JournalHistory {
        entries,
        snapshot,
        truncated_bytes: rest.len() as u64,
        lines,
        length: at as u64,
    })
}

/// Whether any line after the first has a matching checksum.
fn has_valid_line(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|&byte| byte == b'\n').skip(1);
    lines.any(|line| line::check(line).is_some())
}

fn check_header(path: &Path, bytes: &[u8]) -> Result<usize, JournalError> {
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
