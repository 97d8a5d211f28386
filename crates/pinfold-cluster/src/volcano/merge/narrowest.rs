//! The narrowest non-empty AND of one mask of each list.

use smallvec::SmallVec;

use pinfold_core::node_set::NodeSet;

/// The number of ANDs and comparisons after which only the narrowest masks are kept: some ten milliseconds. Lists on up
/// to 12 nodes need far fewer.
const MAX_STEPS: usize = 1 << 25;
/// The number of masks that are kept once the steps are used up.
const BEAM: usize = 16;
/// The number of unsorted masks at which they are reduced to minimal ones.
const HEAP: usize = 1 << 16;

/// The narrowest non-empty AND of one mask of each list. All masks are subsets of `all`.
pub(super) fn narrowest_and(all: NodeSet, lists: &[Vec<NodeSet>]) -> Option<NodeSet> {
    let mut best: Option<NodeSet> = None;
    let mut steps = Steps(0);
    for node in all {
        let holding = |list: &Vec<NodeSet>| {
            let with_node = list.iter().filter(|mask| mask.contains(node));
            minimal(with_node.copied().collect(), &mut steps)
        };
        let mut lists: SmallVec<[Vec<NodeSet>; 4]> = lists.iter().map(holding).collect();
        if lists.iter().any(Vec::is_empty) {
            continue;
        }
        // No AND that contains the node can be narrower than the AND of all masks.
        let shared = lists
            .iter()
            .flatten()
            .fold(all, |shared, &mask| shared & mask);
        if best.is_some_and(|best| !shared.is_narrower_than(best)) {
            continue;
        }
        lists.sort_by_key(Vec::len);
        // Trying only the narrowest masks first usually finds that one.
        let mut found = narrowest_of_lists(shared, &lists, BEAM, &mut steps);
        if found != shared {
            found = narrowest_of_lists(shared, &lists, usize::MAX, &mut steps);
        }
        if best.is_none_or(|best| found.is_narrower_than(best)) {
            best = Some(found);
        }
        if found.len() == 1 {
            // Nodes are visited from the lowest: no other single node has a smaller number.
            break;
        }
    }
    best
}

/// The narrowest AND of one mask of each list, where all masks contain `shared`. Keeps only the narrowest `width` masks
/// after each list.
fn narrowest_of_lists(
    shared: NodeSet,
    lists: &[Vec<NodeSet>],
    width: usize,
    steps: &mut Steps,
) -> NodeSet {
    let mut ands = vec![NodeSet::FULL];
    for list in lists {
        ands.truncate(if steps.are_used_up() { BEAM } else { width });
        let mut next = Vec::with_capacity(ands.len().saturating_mul(list.len()).min(HEAP));
        for &mask in &ands {
            steps.count(list.len());
            next.extend(list.iter().map(|&other| mask & other));
            if next.len() >= HEAP {
                next = minimal(next, steps);
            }
        }
        ands = minimal(next, steps);
        if ands.first() == Some(&shared) {
            break;
        }
    }
    // Sorted narrowest first; empty only if there was an empty list.
    ands.first().copied().unwrap_or(NodeSet::FULL)
}

/// The masks that contain no other, narrowest first.
fn minimal(mut masks: Vec<NodeSet>, steps: &mut Steps) -> Vec<NodeSet> {
    masks.sort_unstable_by_key(|mask| (mask.len(), *mask));
    masks.dedup();
    let mut kept: Vec<NodeSet> = Vec::new();
    for mask in masks {
        steps.count(kept.len());
        if steps.are_used_up() && kept.len() >= BEAM {
            break;
        }
        if !kept.iter().any(|narrower| narrower.is_subset(mask)) {
            kept.push(mask);
        }
    }
    kept
}

/// The number of steps done.
struct Steps(usize);

impl Steps {
    fn count(&mut self, more: usize) {
        self.0 = self.0.saturating_add(more);
    }

    fn are_used_up(&self) -> bool {
        self.0 > MAX_STEPS
    }
}
