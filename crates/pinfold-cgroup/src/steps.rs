//! The order of writes that takes a group from one set to another without the kernel rejecting any of them.
//!
//! v1 holds two rules at every moment: a group that has something has no more than the group above, and a group with
//! processes has something. Hence:
//!
//! ```text
//! 1  groups above, from the top   old ∪ wanted    only those that are ours to widen
//! 2  own and below, from the top  old ∪ new       only those that have groups below
//! 3  own and below, from the leaves up  new
//! ```
//!
//! A group below keeps what it had of the new set, or gets all of it if that is nothing.
//!
//! v2 takes any set, and gives a group what the one above has of it; if that is nothing, it gives it *everything* the
//! one above has. So there the same groups above are widened, and whatever is below is the kernel's business.

use crate::hierarchy::Version;
use crate::ids::Ids;

/// A group with everything above and below, as it is before the change.
#[derive(Clone, Debug)]
pub(crate) struct Family<S> {
    /// From the top down.
    pub(crate) above: Vec<Above<S>>,
    pub(crate) own: S,
    /// Parents before children. v2 does not need them.
    pub(crate) below: Vec<Below<S>>,
}

/// A group above.
#[derive(Clone, Debug)]
pub(crate) struct Above<S> {
    pub(crate) set: S,
    /// Whether it may be widened.
    pub(crate) ours: bool,
}

/// A group below.
#[derive(Clone, Debug)]
pub(crate) struct Below<S> {
    pub(crate) set: S,
    /// Its parent among those below; `None` if that is the group itself.
    pub(crate) parent: Option<usize>,
}

/// A member of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Above(usize),
    Own,
    Below(usize),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step<S> {
    pub(crate) who: Who,
    pub(crate) set: S,
}

/// A group above that lacks something and is not ours to widen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooNarrow(pub(crate) usize);

/// The writes, in order; none if everything is as wanted.
pub(crate) fn steps<S: Ids>(
    version: Version,
    family: &Family<S>,
    wanted: &S,
) -> Result<Vec<Step<S>>, TooNarrow> {
    let mut steps = widen(version, &family.above, wanted)?;
    match version {
        Version::V1 => steps.extend(confine(family, wanted)),
        Version::V2 => {
            if family.own != *wanted {
                steps.push(Step {
                    who: Who::Own,
                    set: wanted.clone(),
                });
            }
        }
    }
    Ok(steps)
}

fn widen<S: Ids>(
    version: Version,
    above: &[Above<S>],
    wanted: &S,
) -> Result<Vec<Step<S>>, TooNarrow> {
    let mut steps = Vec::new();
    let mut parent: Option<S> = None;
    for (index, group) in above.iter().enumerate() {
        // Nothing means in v2 that all is inherited, and in v1 that nobody has filled the group yet.
        let inherits = version == Version::V2 && group.set.none();
        let mut set = group.set.clone();
        if !inherits && !wanted.is_within(&set) {
            if !group.ours {
                return Err(TooNarrow(index));
            }
            set = match &parent {
                Some(parent) if set.none() => parent.clone(),
                _ => set.and(wanted),
            };
            let who = Who::Above(index);
            steps.push(Step {
                who,
                set: set.clone(),
            });
        }
        parent = Some(set);
    }
    Ok(steps)
}

/// The writes of v1 for the group itself and what is below.
fn confine<S: Ids>(family: &Family<S>, wanted: &S) -> Vec<Step<S>> {
    let below = &family.below;
    let mut new: Vec<S> = Vec::with_capacity(below.len());
    for group in below {
        let parent = group.parent.and_then(|parent| new.get(parent));
        let parent = parent.unwrap_or(wanted);
        let kept = group.set.common(parent);
        // A group that nobody has filled yet stays so.
        let target = match kept.none() && !group.set.none() {
            true => parent.clone(),
            false => kept,
        };
        new.push(target);
    }
    let has_children = |who: Option<usize>| {
        below
            .iter()
            .any(|group| group.parent == who && !group.set.none())
    };
    let members = || {
        let own = (Who::Own, None, &family.own, wanted);
        let below = below.iter().zip(&new).enumerate();
        let below = below.map(|(at, (group, new))| (Who::Below(at), Some(at), &group.set, new));
        std::iter::once(own).chain(below)
    };
    let mut steps = Vec::new();
    for (who, at, old, new) in members() {
        if !new.is_within(old) && has_children(at) {
            let set = old.and(new);
            steps.push(Step { who, set });
        }
    }
    let mut shrink: Vec<Step<S>> = members()
        .filter(|(_, at, old, new)| {
            let now = match has_children(*at) {
                true => old.and(new),
                false => (*old).clone(),
            };
            now != **new
        })
        .map(|(who, _, _, new)| Step {
            who,
            set: new.clone(),
        })
        .collect();
    shrink.reverse();
    steps.extend(shrink);
    steps
}

#[cfg(test)]
mod tests;
