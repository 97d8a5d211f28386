//! Plans the order of writes that changes a group's set without the kernel rejecting any write.
//!
//! v1 enforces two rules at every moment: a group's set is a subset of its parent's, and a group with processes does
//! not have an empty set. Hence:
//!
//! ```text
//! 1  ancestors, from the root down          old ∪ wanted    only those that may be widened
//! 2  own and descendants, from the top      old ∪ new       only those that have child groups
//! 3  own and descendants, from the leaves   new
//! ```
//!
//! A descendant keeps the part of its set that is in the new set, or gets the whole new set if that part is empty.
//!
//! v2 accepts any set, and applies its intersection with the parent's; if that is empty, it applies *all* of the
//! parent's. So the same ancestors are widened, and descendants are left to the kernel.

use crate::hierarchy::CgroupVersion;
use crate::ids::IdSet;

/// The sets of a group, its ancestors and its descendants before the change.
#[derive(Clone, Debug)]
pub(crate) struct CgroupTree<S> {
    /// From the root down.
    pub(crate) ancestors: Vec<Ancestor<S>>,
    pub(crate) own: S,
    /// Parents before children. Empty for v2, which does not need them.
    pub(crate) descendants: Vec<Descendant<S>>,
}

/// An ancestor of the group.
#[derive(Clone, Debug)]
pub(crate) struct Ancestor<S> {
    pub(crate) set: S,
    /// Whether it belongs to the kubelet and may be widened.
    pub(crate) widenable: bool,
}

/// A descendant of the group.
#[derive(Clone, Debug)]
pub(crate) struct Descendant<S> {
    pub(crate) set: S,
    /// The index of its parent among the descendants; `None` if the parent is the group itself.
    pub(crate) parent: Option<usize>,
}

/// A group of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupRef {
    Ancestor(usize),
    Own,
    Descendant(usize),
}

/// One write of a set to a group's control file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpusetWrite<S> {
    pub(crate) group_ref: GroupRef,
    pub(crate) set: S,
}

/// The index of an ancestor that lacks a part of the wanted set and may not be widened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooNarrow(pub(crate) usize);

/// Plans the writes in order; none if the group has the wanted set already.
pub(crate) fn plan_writes<S: IdSet>(
    version: CgroupVersion,
    tree: &CgroupTree<S>,
    wanted: &S,
) -> Result<Vec<CpusetWrite<S>>, TooNarrow> {
    let mut writes = widen(version, &tree.ancestors, wanted)?;
    match version {
        CgroupVersion::V1 => writes.extend(confine(tree, wanted)),
        CgroupVersion::V2 => {
            if tree.own != *wanted {
                writes.push(CpusetWrite {
                    group_ref: GroupRef::Own,
                    set: wanted.clone(),
                });
            }
        }
    }
    Ok(writes)
}

fn widen<S: IdSet>(
    version: CgroupVersion,
    ancestors: &[Ancestor<S>],
    wanted: &S,
) -> Result<Vec<CpusetWrite<S>>, TooNarrow> {
    let mut writes = Vec::new();
    let mut parent: Option<S> = None;
    for (index, group) in ancestors.iter().enumerate() {
        // An empty set means in v2 that the parent's is inherited, and in v1 that the group was not configured yet.
        let inherits = version == CgroupVersion::V2 && group.set.is_empty_set();
        let mut set = group.set.clone();
        if !inherits && !wanted.is_subset_of(&set) {
            if !group.widenable {
                return Err(TooNarrow(index));
            }
            set = match &parent {
                Some(parent) if set.is_empty_set() => parent.clone(),
                _ => set.union(wanted),
            };
            let group_ref = GroupRef::Ancestor(index);
            writes.push(CpusetWrite {
                group_ref,
                set: set.clone(),
            });
        }
        parent = Some(set);
    }
    Ok(writes)
}

/// The writes of v1 for the group itself and its descendants.
fn confine<S: IdSet>(tree: &CgroupTree<S>, wanted: &S) -> Vec<CpusetWrite<S>> {
    let descendants = &tree.descendants;
    let mut new: Vec<S> = Vec::with_capacity(descendants.len());
    for group in descendants {
        let parent = group.parent.and_then(|parent| new.get(parent));
        let parent = parent.unwrap_or(wanted);
        let kept = group.set.intersection(parent);
        // A group that was not configured yet stays unconfigured.
        let target = match kept.is_empty_set() && !group.set.is_empty_set() {
            true => parent.clone(),
            false => kept,
        };
        new.push(target);
    }
    let has_children = |group_ref: Option<usize>| {
        descendants
            .iter()
            .any(|group| group.parent == group_ref && !group.set.is_empty_set())
    };
    let members = || {
        let own = (GroupRef::Own, None, &tree.own, wanted);
        let descendants = descendants.iter().zip(&new).enumerate();
        let descendants = descendants
            .map(|(at, (group, new))| (GroupRef::Descendant(at), Some(at), &group.set, new));
        std::iter::once(own).chain(descendants)
    };
    let mut writes = Vec::new();
    for (group_ref, at, old, new) in members() {
        if !new.is_subset_of(old) && has_children(at) {
            let set = old.union(new);
            writes.push(CpusetWrite { group_ref, set });
        }
    }
    let mut shrink: Vec<CpusetWrite<S>> = members()
        .filter(|(_, at, old, new)| {
            let now = match has_children(*at) {
                true => old.union(new),
                false => (*old).clone(),
            };
            now != **new
        })
        .map(|(group_ref, _, _, new)| CpusetWrite {
            group_ref,
            set: new.clone(),
        })
        .collect();
    shrink.reverse();
    writes.extend(shrink);
    writes
}

#[cfg(test)]
mod tests;
