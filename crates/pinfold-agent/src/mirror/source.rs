//! [`Source`]: a file that somebody else writes.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pinfold_kube::state::MAX_FILE_BYTES;

use super::Remark;

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// It is not there.
    #[error("the file is missing")]
    Missing,
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Its content makes no sense.
    #[error("{0}")]
    Damaged(String),
}

/// A file, as it was when it was last looked at, and the last value it had.
#[derive(Debug)]
pub(super) struct Source<T> {
    path: PathBuf,
    seen: Option<Seen>,
    fault: Option<FileFault>,
    /// The last good value.
    pub(super) good: Option<T>,
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    stamp: Result<Stamp, FileFault>,
    content: Vec<u8>,
}

/// What tells two versions of a file apart without reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    modified: (i64, i64),
    length: u64,
}

impl<T> Source<T> {
    /// A file that nobody has looked at yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: None,
            fault: None,
            good: None,
        }
    }

    /// Looks again. Whether there is another content, or another reason why there is none.
    pub(super) fn look(&mut self, parse: impl Fn(&str, &[u8]) -> Result<T, String>) -> bool {
        let stamp = stamp(&self.path);
        if self.seen.as_ref().is_some_and(|seen| seen.stamp == stamp) {
            return false;
        }
        let (stamp, content) = match stamp.and_then(|_| read(&self.path)) {
            Ok((stamp, content)) => (Ok(stamp), content),
            Err(fault) => (Err(fault), Vec::new()),
        };
        let is_copy = |seen: &Seen| seen.stamp.is_ok() && stamp.is_ok() && seen.content == content;
        let is_new = !self.seen.as_ref().is_some_and(is_copy);
        let parsed = match &stamp {
            Err(fault) => Err(fault.clone()),
            Ok(_) => parse(&self.path.to_string_lossy(), &content).map_err(FileFault::Damaged),
        };
        self.seen = Some(Seen { stamp, content });
        match parsed {
            Ok(value) => {
                self.good = Some(value);
                self.fault = None;
            }
            Err(fault) => self.fault = Some(fault),
        }
        is_new
    }

    /// The next look reads it again, whether it has changed or not.
    pub(super) fn read_again(&mut self) {
        self.seen = None;
    }

    /// What is wrong with it, if anything is.
    pub(super) fn remark(&self) -> Option<Remark> {
        Some(Remark::File {
            path: self.path.clone(),
            fault: self.fault.clone()?,
            kept: self.good.is_some(),
        })
    }
}

fn stamp(path: &Path) -> Result<Stamp, FileFault> {
    std::fs::metadata(path)
        .map_err(|error| fault(&error))
        .and_then(|found| of(&found))
}

/// The stamp of a regular file: others could make the reader wait forever.
fn of(found: &Metadata) -> Result<Stamp, FileFault> {
    if !found.is_file() {
        return Err(FileFault::Unreadable("not a regular file".to_owned()));
    }
    Ok(Stamp {
        file: (found.dev(), found.ino()),
        modified: (found.mtime(), found.mtime_nsec()),
        length: found.len(),
    })
}

/// The content, with the stamp that belongs to it.
fn read(path: &Path) -> Result<(Stamp, Vec<u8>), FileFault> {
    let file = File::open(path).map_err(|error| fault(&error))?;
    let stamp = file
        .metadata()
        .map_err(|error| fault(&error))
        .and_then(|found| of(&found))?;
    let most = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
    let mut content = Vec::new();
    // One byte too many is enough to be rejected.
    let mut bounded = file.take(most.saturating_add(1));
    bounded
        .read_to_end(&mut content)
        .map_err(|error| fault(&error))?;
    Ok((stamp, content))
}

fn fault(error: &io::Error) -> FileFault {
    match error.kind() {
        io::ErrorKind::NotFound => FileFault::Missing,
        _ => FileFault::Unreadable(error.to_string()),
    }
}
