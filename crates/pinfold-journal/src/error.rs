//! Errors of reading and writing a journal.

use std::io;
use std::path::{Path, PathBuf};

/// Errors of reading and writing a journal. The messages say what to do.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file operation failed.
    #[error("cannot {operation} {}: {error}", path.display())]
    File {
        /// The operation, such as `open`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Another user could change the file.
    #[error("{} is not safe to use: {problem}; remove it, or give it to the agent's user with write access for no other", path.display())]
    Unsafe {
        /// The file or folder.
        path: PathBuf,
        /// What makes it unsafe.
        problem: &'static str,
    },
    /// Another agent has the journal open.
    #[error("another agent has the journal in {} open; stop it first", folder.display())]
    Locked {
        /// The folder of the journal.
        folder: PathBuf,
    },
    /// The journal was written by a later version of Pinfold.
    #[error(
        "{} has version {found}, this program reads versions up to {known}; use the program that wrote it", path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: u64,
        /// The latest version that this program reads.
        known: u64,
    },
    /// The content is damaged.
    #[error(
        "{} is damaged: {problem}; it is not changed and no pod is admitted. To start with an empty journal, stop the pods with exclusive CPUs and run: mv {file} {file}.damaged", path.display(), file = path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line and what is wrong with it.
        problem: String,
    },
    /// An earlier write failed and left the content of the disk unknown.
    #[error("an earlier write to {} failed and could not be undone; restart the agent", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
    },
}

impl JournalError {
    pub(super) fn file(operation: &'static str, path: &Path, error: io::Error) -> Self {
        Self::File {
            operation,
            path: path.to_owned(),
            error,
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers construct the error or text for this call"
    )]
    pub(crate) fn damaged(path: &Path, problem: impl ToString) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }
}
