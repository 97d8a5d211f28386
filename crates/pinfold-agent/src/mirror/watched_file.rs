//! [`WatchedFile`]: a file of the kubelet that is parsed again whenever it changes.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pinfold_kube::state::MAX_FILE_BYTES;

use super::MirrorProblem;

/// Problems of reading a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// The file does not exist.
    #[error("the file is missing")]
    Missing,
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The content is invalid.
    #[error("{0}")]
    Damaged(String),
}

/// A file with its content at the last poll and its last valid value.
#[derive(Debug)]
pub(super) struct WatchedFile<T> {
    path: PathBuf,
    last: Option<FileContent>,
    problem: Option<FileProblem>,
    /// The value of the last valid content.
    pub(super) value: Option<T>,
}

#[derive(Debug, PartialEq, Eq)]
struct FileContent {
    stamp: Result<Stamp, FileProblem>,
    content: Vec<u8>,
}

/// Metadata by which a change of a file is detected without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    modified: (i64, i64),
    length: u64,
}

impl<T> WatchedFile<T> {
    /// A file that has not been read yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            last: None,
            problem: None,
            value: None,
        }
    }

    /// Reads the file if it has changed. Returns whether the content or the problem is new.
    pub(super) fn poll(&mut self, parse: impl Fn(&str, &[u8]) -> Result<T, String>) -> bool {
        let stamp = stamp(&self.path);
        if self.last.as_ref().is_some_and(|last| last.stamp == stamp) {
            return false;
        }
        let (stamp, content) = match stamp.and_then(|_| read(&self.path)) {
            Ok((stamp, content)) => (Ok(stamp), content),
            Err(problem) => (Err(problem), Vec::new()),
        };
        let is_copy =
            |last: &FileContent| last.stamp.is_ok() && stamp.is_ok() && last.content == content;
        let is_new = !self.last.as_ref().is_some_and(is_copy);
        let parsed = match &stamp {
            Err(problem) => Err(problem.clone()),
            Ok(_) => parse(&self.path.to_string_lossy(), &content).map_err(FileProblem::Damaged),
        };
        self.last = Some(FileContent { stamp, content });
        match parsed {
            Ok(value) => {
                self.value = Some(value);
                self.problem = None;
            }
            Err(problem) => self.problem = Some(problem),
        }
        is_new
    }

    /// Makes the next poll read the file even if it has not changed.
    pub(super) fn read_again(&mut self) {
        self.last = None;
    }

    /// The present problem of a file that need not exist before it is first written.
    pub(super) fn problem_once_written(&self) -> Option<MirrorProblem> {
        match (&self.problem, &self.value) {
            (Some(FileProblem::Missing), None) => None,
            _ => self.problem(),
        }
    }

    /// The file's present problem; `None` if its content is valid.
    pub(super) fn problem(&self) -> Option<MirrorProblem> {
        Some(MirrorProblem::File {
            path: self.path.clone(),
            problem: self.problem.clone()?,
            kept: self.value.is_some(),
        })
    }
}

fn stamp(path: &Path) -> Result<Stamp, FileProblem> {
    std::fs::metadata(path)
        .map_err(|error| problem(&error))
        .and_then(|found| stamp_of(&found))
}

/// The stamp of a regular file. Other files are rejected: reading a pipe could block forever.
fn stamp_of(found: &Metadata) -> Result<Stamp, FileProblem> {
    if !found.is_file() {
        return Err(FileProblem::Unreadable("not a regular file".to_owned()));
    }
    Ok(Stamp {
        file: (found.dev(), found.ino()),
        modified: (found.mtime(), found.mtime_nsec()),
        length: found.len(),
    })
}

/// Reads a file with its stamp.
fn read(path: &Path) -> Result<(Stamp, Vec<u8>), FileProblem> {
    let file = File::open(path).map_err(|error| problem(&error))?;
    let stamp = file
        .metadata()
        .map_err(|error| problem(&error))
        .and_then(|found| stamp_of(&found))?;
    let most = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
    let mut content = Vec::new();
    // One byte more than the limit, so that the parser rejects a file that is too large.
    let mut bounded = file.take(most.saturating_add(1));
    bounded
        .read_to_end(&mut content)
        .map_err(|error| problem(&error))?;
    Ok((stamp, content))
}

fn problem(error: &io::Error) -> FileProblem {
    match error.kind() {
        io::ErrorKind::NotFound => FileProblem::Missing,
        _ => FileProblem::Unreadable(error.to_string()),
    }
}
