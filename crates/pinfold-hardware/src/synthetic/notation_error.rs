//! [`NotationError`]: why a description cannot be parsed, where, and what is expected instead.

use std::fmt;
use std::ops::Range;

use crate::error::{did_you_mean, excerpt};

/// An error in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// The line with the error.
    pub line: String,
    /// The number of that line, from 1.
    pub line_number: usize,
    /// The column of the invalid word, from 1.
    pub column: usize,
    /// Its length in characters.
    pub length: usize,
    /// The kind of error.
    pub problem: Box<NotationProblem>,
}

/// The kinds of errors in a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotationProblem {
    /// The description is empty.
    #[error("the description is empty; write for example \"2 sockets, 16 cores, smt2\"")]
    Empty,
    /// The description is too long.
    #[error("the description is longer than {limit} characters")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// A word is not a level.
    #[error(
        "{word:?} is not a level; expected socket, die, numa, l3, core or thread{}",
        did_you_mean(.nearest.as_deref())
    )]
    UnknownLevel {
        /// The word.
        word: String,
        /// The most similar level.
        nearest: Option<String>,
    },
    /// A key is not an option.
    #[error("{key:?} is not an option{}", did_you_mean(.nearest.as_deref()))]
    UnknownOption {
        /// The key.
        key: String,
        /// The most similar option.
        nearest: Option<String>,
    },
    /// A number without a level.
    #[error("{number} of what? write a level after it, such as \"{number} cores\"")]
    NumberAlone {
        /// The number.
        number: String,
    },
    /// A level without a number.
    #[error("how many? write \"4 {word}\" or \"{word}:4\"")]
    LevelAlone {
        /// The level.
        word: String,
    },
    /// A number is 0, too large or malformed.
    #[error("{found:?} is not a number from 1 to {limit}")]
    BadCount {
        /// The text.
        found: String,
        /// The largest valid number.
        limit: u32,
    },
    /// A level or option is repeated.
    #[error("{what} is given twice")]
    Twice {
        /// The level or option.
        what: &'static str,
    },
    /// A level follows a smaller one.
    #[error("{inner} cannot hold {outer}: write {outer} before {inner}")]
    WrongOrder {
        /// The larger level.
        outer: &'static str,
        /// The smaller level before it.
        inner: &'static str,
    },
    /// The cores cannot be divided evenly among the caches.
    #[error("{cores} cores cannot share {caches} L3 caches evenly")]
    UnevenCaches {
        /// The number of cores of a node.
        cores: u32,
        /// The number of caches.
        caches: u32,
    },
    /// An option's value is invalid.
    #[error("{key} takes {expected}, not {found:?}{}", did_you_mean(.nearest.as_deref()))]
    BadValue {
        /// The option.
        key: &'static str,
        /// The expected value.
        expected: &'static str,
        /// The text.
        found: String,
        /// The most similar valid value.
        nearest: Option<String>,
    },
    /// The machine does not have such a NUMA node.
    #[error("the machine has no NUMA node {node}; it has {known}")]
    NoSuchNode {
        /// The node.
        node: u32,
        /// The machine's nodes.
        known: String,
    },
    /// `@` after an option of the whole machine.
    #[error("{key} is for the whole machine; leave out \"@\" and what follows it")]
    NotPerNode {
        /// The option.
        key: &'static str,
    },
    /// A count exceeds what a machine can have.
    #[error("{found} {what}, and at most {limit} are possible")]
    TooMany {
        /// The name of the count.
        what: &'static str,
        /// The count.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The matrix of distances does not match the number of nodes.
    #[error(
        "distances have {found} rows for {expected} NUMA nodes; every row needs {expected} numbers"
    )]
    DistanceShape {
        /// The number of rows.
        found: usize,
        /// The number of nodes.
        expected: usize,
    },
    /// `node-ids` does not match the number of nodes.
    #[error("node-ids has {found} ids for {expected} NUMA nodes with CPUs")]
    NodeIdCount {
        /// The number of ids.
        found: usize,
        /// The number of nodes with CPUs.
        expected: usize,
    },
    /// Two nodes have the same id.
    #[error("two NUMA nodes have the id {node}")]
    NodeTwice {
        /// The id.
        node: u32,
    },
    /// The machine does not have such a CPU.
    #[error("{key} names CPU {cpu}; the machine has CPUs 0 to {last}")]
    NoSuchCpu {
        /// The option.
        key: &'static str,
        /// The CPU.
        cpu: u32,
        /// The machine's last CPU.
        last: usize,
    },
    /// No CPU is online.
    #[error("offline leaves no CPU online")]
    AllOffline,
}

impl NotationProblem {
    /// The error for this problem in a part of the description.
    pub(crate) fn at(self, description: &str, part: Range<usize>) -> NotationError {
        let start = part.start.min(description.len());
        let before = description.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = description.get(line_start..).unwrap_or_default();
        let line = line.lines().next().unwrap_or_default();
        let word = description.get(part).unwrap_or_default();
        let word = word.lines().next().unwrap_or_default();
        NotationError {
            line: line.to_owned(),
            line_number: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            length: word.chars().count(),
            problem: Box::new(self),
        }
    }
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDEST: usize = 60;
        let Self {
            line_number,
            column,
            problem,
            ..
        } = self;
        write!(f, "cannot read the description of the machine, ")?;
        if *line_number > 1 {
            write!(f, "line {line_number}, ")?;
        }
        writeln!(f, "column {column}: {problem}")?;
        if self.column + self.length <= WIDEST {
            writeln!(f, "  {}", excerpt(&self.line))?;
            let (blank, mark) = (column.saturating_sub(1), self.length.max(1));
            return write!(f, "  {:blank$}{:^<mark$}", "", "");
        }
        let word: String = self
            .line
            .chars()
            .skip(column - 1)
            .take(self.length)
            .collect();
        write!(f, "  {}", excerpt(&word))
    }
}

impl std::error::Error for NotationError {}
