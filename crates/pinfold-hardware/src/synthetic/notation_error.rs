//! Why a description cannot be read: what, where, and what would do instead.

use std::fmt;
use std::ops::Range;

use crate::error::{did_you_mean, excerpt};

/// A description that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// The line of the description that it is about.
    pub line: String,
    /// The number of that line, from 1.
    pub line_number: usize,
    /// The first character of the offending word, from 1.
    pub column: usize,
    /// Its length in characters.
    pub length: usize,
    /// What is wrong with it.
    pub problem: Box<NotationProblem>,
}

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotationProblem {
    /// Nothing in it.
    #[error("the description is empty; write for example \"2 sockets, 16 cores, smt2\"")]
    Empty,
    /// More text than any machine needs.
    #[error("the description is longer than {limit} characters")]
    TooLong {
        /// The longest that is read.
        limit: usize,
    },
    /// A word that is no level.
    #[error(
        "{word:?} is not a level; expected socket, die, numa, l3, core or thread{}",
        did_you_mean(.nearest.as_deref())
    )]
    UnknownLevel {
        /// The word.
        word: String,
        /// The level it looks like.
        nearest: Option<String>,
    },
    /// A key that is no option.
    #[error("{key:?} is not an option{}", did_you_mean(.nearest.as_deref()))]
    UnknownOption {
        /// The key.
        key: String,
        /// The option it looks like.
        nearest: Option<String>,
    },
    /// A number without what it counts.
    #[error("{number} of what? write a level after it, such as \"{number} cores\"")]
    NumberAlone {
        /// The number.
        number: String,
    },
    /// A level without its number.
    #[error("how many? write \"4 {word}\" or \"{word}:4\"")]
    LevelAlone {
        /// The level.
        word: String,
    },
    /// A number that counts nothing, or more than there can be.
    #[error("{found:?} is not a number from 1 to {limit}")]
    BadCount {
        /// What was written.
        found: String,
        /// The largest that fits.
        limit: u32,
    },
    /// A level or option written twice.
    #[error("{what} is given twice")]
    Twice {
        /// Which.
        what: &'static str,
    },
    /// A level after a smaller one.
    #[error("{inner} cannot hold {outer}: write {outer} before {inner}")]
    WrongOrder {
        /// What comes too late.
        outer: &'static str,
        /// What it comes after.
        inner: &'static str,
    },
    /// Cores that cannot be divided among caches.
    #[error("{cores} cores cannot share {caches} L3 caches evenly")]
    UnevenCaches {
        /// How many cores a node has.
        cores: u32,
        /// How many caches were asked for.
        caches: u32,
    },
    /// A value that the option does not take.
    #[error("{key} takes {expected}, not {found:?}{}", did_you_mean(.nearest.as_deref()))]
    BadValue {
        /// The option.
        key: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What was written.
        found: String,
        /// The value it looks like.
        nearest: Option<String>,
    },
    /// A node that the machine does not have.
    #[error("the machine has no NUMA node {node}; it has {known}")]
    NoSuchNode {
        /// Which.
        node: u32,
        /// Those it has.
        known: String,
    },
    /// `@` after an option that is for the whole machine.
    #[error("{key} is for the whole machine; leave out \"@\" and what follows it")]
    NotPerNode {
        /// The option.
        key: &'static str,
    },
    /// More of something than a machine can have.
    #[error("{found} {what}, and at most {limit} are possible")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        found: u64,
        /// How many are possible.
        limit: u64,
    },
    /// A list of distances that does not fit the nodes.
    #[error(
        "distances have {found} rows for {expected} NUMA nodes; every row needs {expected} numbers"
    )]
    DistanceShape {
        /// How many rows there are.
        found: usize,
        /// How many nodes there are.
        expected: usize,
    },
    /// As many ids as nodes are needed.
    #[error("node-ids has {found} ids for {expected} NUMA nodes with CPUs")]
    NodeIdCount {
        /// How many ids there are.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// One id for two nodes.
    #[error("NUMA node {node} is there twice")]
    NodeTwice {
        /// Which.
        node: u32,
    },
    /// A CPU that the machine does not have.
    #[error("{key} names CPU {cpu}; the machine has CPUs 0 to {last}")]
    NoSuchCpu {
        /// The option.
        key: &'static str,
        /// Which CPU.
        cpu: u32,
        /// The last one there is.
        last: usize,
    },
    /// Nothing left to run on.
    #[error("offline leaves no CPU online")]
    AllOffline,
}

impl NotationProblem {
    /// The problem as an error about a part of the description.
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
