//! How is an entry of the state changed, and the change taken back? An edit names the entry before and after; applying
//! and reverting it are the same replacement in two [directions](Direction).

use std::collections::BTreeMap;

use crate::name::PodUid;

/// An edit of an entry that differs from what the edit expects. The state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entry} is not what the edit expects")]
pub struct StaleEdit {
    /// The entry.
    pub entry: String,
}

/// Whether an edit is applied or reverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Apply,
    Revert,
}

impl Direction {
    /// What the entry must be, and what it becomes.
    pub(crate) fn order<T>(self, before: T, after: T) -> (T, T) {
        match self {
            Direction::Apply => (before, after),
            Direction::Revert => (after, before),
        }
    }

    fn opposite(self) -> Self {
        match self {
            Direction::Apply => Direction::Revert,
            Direction::Revert => Direction::Apply,
        }
    }
}

/// Makes all edits or none: in order if they are applied, the last one first if they are reverted.
pub(crate) fn all_or_none<E>(
    edits: &[E],
    direction: Direction,
    mut edit: impl FnMut(&E, Direction) -> Result<(), StaleEdit>,
) -> Result<(), StaleEdit> {
    let nth = |at: usize| match direction {
        Direction::Apply => &edits[at],
        Direction::Revert => &edits[edits.len() - 1 - at],
    };
    for at in 0..edits.len() {
        if let Err(stale) = edit(nth(at), direction) {
            for done in (0..at).rev() {
                edit(nth(done), direction.opposite()).expect("an edit just made can be taken back");
            }
            return Err(stale);
        }
    }
    Ok(())
}

/// Replaces a value.
pub(crate) fn replace<T: PartialEq + Clone>(
    value: &mut T,
    (from, to): (&T, &T),
    entry: impl FnOnce() -> String,
) -> Result<(), StaleEdit> {
    if value != from {
        return Err(StaleEdit { entry: entry() });
    }
    value.clone_from(to);
    Ok(())
}

/// Replaces, adds or removes an entry of a table.
pub(crate) fn replace_entry<K: Ord + Clone, V: PartialEq + Clone>(
    table: &mut BTreeMap<K, V>,
    key: &K,
    (from, to): (Option<&V>, Option<&V>),
    entry: impl FnOnce() -> String,
) -> Result<(), StaleEdit> {
    if table.get(key) != from {
        return Err(StaleEdit { entry: entry() });
    }
    match to {
        Some(value) => drop(table.insert(key.clone(), value.clone())),
        None => drop(table.remove(key)),
    }
    Ok(())
}

/// The same in a table of one pod, which is removed with its last entry.
pub(crate) fn replace_entry_of_pod<K: Ord + Clone, V: PartialEq + Clone>(
    pods: &mut BTreeMap<PodUid, BTreeMap<K, V>>,
    pod: &PodUid,
    key: &K,
    change: (Option<&V>, Option<&V>),
    entry: impl FnOnce() -> String,
) -> Result<(), StaleEdit> {
    let table = pods.entry(pod.clone()).or_default();
    let replaced = replace_entry(table, key, change, entry);
    if table.is_empty() {
        pods.remove(pod);
    }
    replaced
}
