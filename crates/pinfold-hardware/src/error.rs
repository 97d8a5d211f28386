//! [`HardwareError`]: why a machine could not be read, and what to do about it.

use std::path::PathBuf;

use crate::synthetic::NotationError;

/// Errors of reading or recording a machine.
#[derive(Debug, thiserror::Error)]
pub enum HardwareError {
    /// The specification matches no machine, file or preset.
    #[error(
        "no machine {spec:?}: expected \"this\", a directory with sys and proc in it, a recording, \
         an hwloc XML file, JSON of a topology, a preset or a description such as \"2 sockets, 16 cores, smt2\"{}",
        did_you_mean(.nearest.as_deref())
    )]
    NoSuchMachine {
        /// The specification.
        spec: String,
        /// The preset with the most similar name.
        nearest: Option<String>,
    },
    /// There is no such preset.
    #[error("no preset {name:?}{}; the presets are {}", did_you_mean(.nearest.as_deref()), .known.join(", "))]
    NoSuchPreset {
        /// The name.
        name: String,
        /// The preset with the most similar name.
        nearest: Option<String>,
        /// All presets.
        known: Vec<&'static str>,
    },
    /// A file could not be read.
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The recording could not be written.
    #[error("cannot write the recording: {0}")]
    Unwritable(#[source] std::io::Error),
    /// The directory tree has no CPU.
    #[error(
        "no CPU found under {root}/sys/devices/system/cpu: expected directories cpu0, cpu1, ...; \
         give the directory that holds sys and proc"
    )]
    NoCpus {
        /// The root of the tree.
        root: String,
    },
    /// A kernel file has unexpected content.
    #[error("{path}: expected {expected}, found {found:?}")]
    Malformed {
        /// The file, relative to the root of the tree.
        path: String,
        /// The expected format.
        expected: &'static str,
        /// The beginning of its content.
        found: String,
    },
    /// A size or count exceeds its limit.
    #[error("{what}: {found} is beyond the limit of {limit}")]
    TooMuch {
        /// The name of the quantity.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The text is not an XML export of hwloc.
    #[error(
        "not a topology of hwloc, at byte {position}: {problem}; make one with \"lstopo file.xml\""
    )]
    Xml {
        /// The byte offset in the file.
        position: u64,
        /// What is wrong there.
        problem: String,
    },
    /// The file begins like a recording and cannot be parsed.
    #[error("not a recording, line {line}: {problem}")]
    Recording {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        problem: &'static str,
    },
    /// The text is not the JSON of a topology.
    #[error("not the JSON of a topology: {problem}; make one with \"pinfold topology -o json\"")]
    Json {
        /// What is wrong.
        problem: String,
    },
    /// The file is an archive.
    #[error(
        "{}: expected a recording, an hwloc XML file, JSON of a topology or a description, found a {format} archive; \
         unpack it and name the directory that holds sys and proc",
        .path.display()
    )]
    Archive {
        /// The file.
        path: PathBuf,
        /// The format of the archive.
        format: &'static str,
    },
    /// A description could not be parsed.
    #[error(transparent)]
    Notation(#[from] NotationError),
}

/// The text `; did you mean "x"?`, or an empty one.
pub(crate) fn did_you_mean(word: Option<&str>) -> String {
    word.map_or_else(String::new, |word| format!("; did you mean {word:?}?"))
}

/// The beginning of a text, short enough for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}
