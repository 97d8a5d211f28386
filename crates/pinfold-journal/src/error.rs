//! Why a journal cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// Why a journal cannot be read or written, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system said no.
    #[error("cannot {what} {}: {error}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Somebody else could change it.
    #[error("{} is not safe to use: {problem}; remove it, or make it yours alone", path.display())]
    Unsafe {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Another agent has it open.
    #[error("another agent has the journal in {} open; stop it first", folder.display())]
    Locked {
        /// Where.
        folder: PathBuf,
    },
    /// Written by a later Pinfold.
    #[error(
        "{} is of version {found}, this program knows versions up to {known}; use the program that wrote it", path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// Ours.
        known: u64,
    },
    /// What it says is not known.
    #[error(
        "{} is damaged: {problem}; it is left as it is and nothing is handed out. To begin anew, stop the pods with CPUs of their own and move it away: mv {file} {file}.damaged", path.display(), file = path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and how.
        problem: String,
    },
    /// An earlier write failed in a way that leaves unknown what is on disk.
    #[error("an earlier write to {} failed and could not be taken back; restart the agent", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
    },
}

impl JournalError {
    pub(super) fn file(what: &'static str, path: &Path, error: io::Error) -> Self {
        Self::File {
            what,
            path: path.to_owned(),
            error,
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "errors and texts are made for it and given away"
    )]
    pub(crate) fn damaged(path: &Path, problem: impl ToString) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }
}
