//! [`HardwareError`]: why a machine could not be read, and what to do about it.

use std::path::PathBuf;

use crate::synthetic::NotationError;

/// Why a machine could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HardwareError {
    /// The text names nothing.
    #[error(
        "no machine {spec:?}: expected \"this\", a directory with sys and proc in it, a recording, \
         an hwloc XML file, a preset or a description such as \"2 sockets, 16 cores, smt2\"{}",
        did_you_mean(.nearest.as_deref())
    )]
    NoSuchMachine {
        /// What was asked for.
        spec: String,
        /// The preset that looks most like it.
        nearest: Option<String>,
    },
    /// A preset that does not exist.
    #[error("no preset {name:?}{}; the presets are {}", did_you_mean(.nearest.as_deref()), .known.join(", "))]
    NoSuchPreset {
        /// What was asked for.
        name: String,
        /// The preset that looks most like it.
        nearest: Option<String>,
        /// All presets.
        known: Vec<&'static str>,
    },
    /// A file that could not be read.
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// A file that could not be written.
    #[error("cannot write the recording: {0}")]
    Unwritable(#[source] std::io::Error),
    /// A tree without a CPU in it.
    #[error(
        "no CPU found under {root}/sys/devices/system/cpu: expected directories cpu0, cpu1, ...; \
         give the directory that holds sys and proc"
    )]
    NoCpus {
        /// Where was looked.
        root: String,
    },
    /// A file of the kernel that does not hold what it should.
    #[error("{path}: expected {expected}, found {found:?}")]
    Malformed {
        /// Which file, from the root of the tree.
        path: String,
        /// What it should hold.
        expected: &'static str,
        /// What it holds (its beginning).
        found: String,
    },
    /// More of something than is ever read.
    #[error("{what}: {found} is beyond the limit of {limit}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much is read.
        limit: u64,
    },
    /// Text that is not hwloc's XML.
    #[error(
        "not a topology of hwloc, at byte {position}: {problem}; make one with \"lstopo file.xml\""
    )]
    Xml {
        /// Where in the file.
        position: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that starts like a recording and is none.
    #[error("not a recording, line {line}: {problem}")]
    Recording {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A description that cannot be read.
    #[error(transparent)]
    Notation(#[from] NotationError),
}

/// `; did you mean "x"?`, or nothing.
pub(crate) fn did_you_mean(word: Option<&str>) -> String {
    word.map_or_else(String::new, |word| format!("; did you mean {word:?}?"))
}

/// The beginning of what was found, short enough for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}
