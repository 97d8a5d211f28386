//! Warm answers: what nodes said about pods of one shape, as long as it holds.
//!
//! Every answer carries the generation of its node; it holds while the node has that generation. Generations are never
//! used for two states, so a stale answer cannot pass for a fresh one. The [`MOST_SHAPES`] shapes asked about last are
//! kept: one answer per shape and node at the most.

use std::cell::Cell;

use super::ask::PodAsk;
use super::verdict::Verdict;

/// So many shapes of pods are remembered.
pub const MOST_SHAPES: usize = 64;

/// The generation of an answer that does not hold; no node has it.
pub(super) const NEVER: u64 = 0;

/// One node's answer, and the state of the node it was given in.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) generation: u64,
    pub(super) verdict: Verdict,
    /// What whoever asked made of it.
    pub(super) note: Cell<Option<i64>>,
}

/// The answers about one shape, by seat.
#[derive(Clone, Debug)]
struct Answers {
    /// Some pod of that shape.
    shape: PodAsk,
    known: Vec<Known>,
}

/// All answers that may still hold, the shape asked about last in front.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    recent: Vec<Answers>,
}

impl Memory {
    /// The answers about pods like `ask` of `seats` seats.
    pub(super) fn about(&mut self, ask: &PodAsk, seats: usize) -> &mut [Known] {
        let found = (self.recent.iter()).position(|answers| answers.shape.is_shaped_like(ask));
        let answers = match found {
            Some(at) => self.recent.remove(at),
            None => {
                self.recent.truncate(MOST_SHAPES - 1);
                Answers {
                    shape: ask.clone(),
                    known: Vec::new(),
                }
            }
        };
        self.recent.insert(0, answers);
        let known = &mut self.recent[0].known;
        if known.len() < seats {
            known.resize_with(seats, Known::default);
        }
        known
    }

    /// The answers asked for last.
    pub(super) fn latest(&self) -> &[Known] {
        self.recent.first().map_or(&[], |answers| &answers.known)
    }
}
