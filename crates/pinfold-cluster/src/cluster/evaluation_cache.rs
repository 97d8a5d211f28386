//! [`EvaluationCache`]: evaluations of nodes for pods of the same shape, reused until the node changes.
//!
//! Every cached evaluation carries the generation of its node and is valid while the node has that generation. No
//! generation is used for two states of a node, so a stale evaluation is never taken for a valid one. The cache holds
//! the [`MAX_SHAPES`] shapes used last, with at most one evaluation per shape and node.

use std::cell::Cell;

use super::evaluation::Evaluation;
use super::pod_request::PodRequest;

/// The most pod shapes for which evaluations are cached.
pub const MAX_SHAPES: usize = 64;

/// The generation of an entry that is not valid. No node ever has it.
pub(super) const NO_GENERATION: u64 = 0;

/// The evaluation of one node, and the generation that the node had then.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheEntry {
    pub(super) generation: u64,
    pub(super) evaluation: Evaluation,
    /// A score that the caller computed from the evaluation.
    pub(super) cached_score: Cell<Option<i64>>,
}

/// The evaluations of all nodes for one pod shape, by slot.
#[derive(Clone, Debug)]
struct ShapeEntries {
    /// Some pod of that shape.
    shape: PodRequest,
    entries: Vec<CacheEntry>,
}

/// The cached evaluations, the shape used last in front.
#[derive(Clone, Debug, Default)]
pub(super) struct EvaluationCache {
    recent: Vec<ShapeEntries>,
}

impl EvaluationCache {
    /// The entries for pods of the shape of `request`, one for each of `slots` slots. Makes that shape the latest.
    pub(super) fn entries(&mut self, request: &PodRequest, slots: usize) -> &mut [CacheEntry] {
        let found = (self.recent.iter()).position(|cached| cached.shape.has_shape_of(request));
        let cached = match found {
            Some(at) => self.recent.remove(at),
            None => {
                self.recent.truncate(MAX_SHAPES - 1);
                ShapeEntries {
                    shape: request.clone(),
                    entries: Vec::new(),
                }
            }
        };
        self.recent.insert(0, cached);
        let entries = &mut self.recent[0].entries;
        if entries.len() < slots {
            entries.resize_with(slots, CacheEntry::default);
        }
        entries
    }

    /// The entries of the shape that was used last, to be changed.
    pub(super) fn latest_mut(&mut self) -> &mut [CacheEntry] {
        let latest = self.recent.first_mut();
        latest.map_or(&mut [], |cached| &mut cached.entries)
    }

    /// The entries of the shape that was used last.
    pub(super) fn latest(&self) -> &[CacheEntry] {
        self.recent.first().map_or(&[], |cached| &cached.entries)
    }
}
