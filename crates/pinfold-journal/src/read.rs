//! Reading: the history and the state of a journal, with or without having it open.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use pinfold_core::ledger::Ledger;
use pinfold_core::name::PodUid;

use super::entry::{Base, Entry, Transaction, What};
use super::{JournalError, Note, Span, line, room};

/// The version that is written. Version 1 is the first; there is none before it to migrate from.
pub(super) const VERSION: u64 = 1;
/// How the first line begins.
const NAME: &str = "pinfold-journal ";
/// No journal grows so large; limits and state are far below.
const LARGEST: u64 = 1 << 30;

/// Everything that a journal says.
#[derive(Clone, Debug)]
pub struct History {
    /// The entries that are kept, oldest first.
    pub entries: Vec<Entry>,
    /// The node from which the entries after its number go on.
    pub base: Base,
    /// Bytes at the end that are no whole transaction: it was being written when the power went, and nobody was told
    /// that it was done.
    pub torn: u64,
    pub(super) lines: Vec<Span>,
    pub(super) length: u64,
}

impl History {
    /// Reads a journal as it is, even while an agent has it open. Nothing is changed.
    ///
    /// # Errors
    /// If it cannot be read, is damaged or of a later version.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let file = File::open(path).map_err(|error| JournalError::file("open", path, error))?;
        parse(path, room::without(&bytes(path, &file)?))
    }

    /// The number of the last entry.
    #[must_use]
    pub fn last(&self) -> u64 {
        let last = self.entries.last().map_or(0, |entry| entry.number);
        last.max(self.base.number)
    }

    /// The ledger that all this makes, audited.
    ///
    /// # Errors
    /// If the parts contradict each other; `path` is for the message.
    pub fn ledger(&self, path: &Path) -> Result<Ledger, JournalError> {
        let rules = self.base.rules();
        let rules = rules.map_err(|error| JournalError::damaged(path, error))?;
        let ledger = Ledger::from_journal(rules.into(), self.base.state.clone());
        let mut ledger = ledger.map_err(|finding| JournalError::damaged(path, finding))?;
        let base = self.base.number;
        for entry in self.entries.iter().filter(|entry| entry.number > base) {
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

    /// What is remembered about the pods that are on the node after all this.
    #[must_use]
    pub fn notes(&self) -> BTreeMap<PodUid, Note> {
        let mut notes = self.base.notes.clone();
        let base = self.base.number;
        for entry in self.entries.iter().filter(|entry| entry.number > base) {
            match (&entry.what, &entry.note) {
                (What::Admitted(pod) | What::Held(pod, _), Some(note)) => {
                    drop(notes.insert(pod.clone(), note.clone()));
                }
                (What::Released(pod), _) => drop(notes.remove(pod)),
                _ => {}
            }
        }
        notes
    }
}

pub(super) fn bytes(path: &Path, file: &File) -> Result<Vec<u8>, JournalError> {
    let mut bytes = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| JournalError::file("read", path, error))?;
    match bytes.len() as u64 > LARGEST {
        true => Err(JournalError::damaged(path, "it is larger than 1 GiB")),
        false => Ok(bytes),
    }
}

/// The first line of a journal, with its line break.
pub(super) fn header() -> String {
    format!("{NAME}{VERSION}\n")
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<History, JournalError> {
    let mut at = check_header(path, bytes)?;
    let (mut entries, mut lines): (Vec<Entry>, Vec<Span>) = (Vec::new(), Vec::new());
    let mut base: Option<Base> = None;
    let mut number = 1;
    while let Some(length) = bytes[at..].iter().position(|&byte| byte == b'\n') {
        number += 1;
        let Some(json) = line::check(&bytes[at..at + length]) else {
            break;
        };
        let broken =
            |problem: String| JournalError::damaged(path, format!("line {number}: {problem}"));
        let transaction: Transaction =
            serde_json::from_slice(json).map_err(|error| broken(error.to_string()))?;
        if let Some(entry) = transaction.entry {
            let before = entries.last().map(|entry| entry.number);
            let before = before.or(base.as_ref().map(|base| base.number));
            if before.is_some_and(|before| before.checked_add(1) != Some(entry.number)) {
                return Err(broken(format!("entry {} is out of order", entry.number)));
            }
            lines.push(Span {
                start: at as u64,
                length: length as u64 + 1,
            });
            entries.push(entry);
        }
        if let Some(new) = transaction.base {
            let last = entries.last().map(|entry| entry.number);
            if last.is_some_and(|last| last != new.number) {
                return Err(broken(format!("base {} is out of order", new.number)));
            }
            base = Some(new);
        }
        at += length + 1;
    }
    let torn = &bytes[at..];
    if has_good_line(torn) {
        let problem = format!("line {number} is not what was written, but lines after it are");
        return Err(JournalError::damaged(path, problem));
    }
    let base = base.ok_or_else(|| JournalError::damaged(path, "no state in it is whole"))?;
    Ok(History {
        entries,
        base,
        torn: torn.len() as u64,
        lines,
        length: at as u64,
    })
}

/// Whether any line after the first is whole.
fn has_good_line(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|&byte| byte == b'\n').skip(1);
    lines.any(|line| line::check(line).is_some())
}

fn check_header(path: &Path, bytes: &[u8]) -> Result<usize, JournalError> {
    let end = bytes.iter().take(64).position(|&byte| byte == b'\n');
    let found = end
        .and_then(|end| std::str::from_utf8(&bytes[..end]).ok())
        .and_then(|line| line.strip_prefix(NAME))
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
            "it does not begin as a journal does",
        )),
    }
}
