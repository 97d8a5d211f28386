//! [`Ascending`]: one walk along a sorted list of ids beside another.

use std::cmp::Ordering;
use std::iter::Peekable;

use crate::name::DeviceId;

/// A sorted list in which ids are looked up in ascending order: every id of either list is looked at once.
pub(super) struct Ascending<I: Iterator> {
    rest: Peekable<I>,
}

impl<'a, I: Iterator<Item = &'a DeviceId>> Ascending<I> {
    /// `ids` must ascend.
    pub(super) fn new(ids: I) -> Self {
        Self {
            rest: ids.peekable(),
        }
    }

    /// Whether `id` is in the list. It must not be smaller than the one asked for before.
    pub(super) fn contains(&mut self, id: &DeviceId) -> bool {
        while let Some(next) = self.rest.peek() {
            match (*next).cmp(id) {
                Ordering::Less => drop(self.rest.next()),
                Ordering::Equal => return true,
                Ordering::Greater => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn walking_along_finds_what_looking_up_finds(
            list in prop::collection::btree_set("[a-c]{0,2}", 0..8),
            asked in prop::collection::btree_set("[a-c]{0,2}", 0..8),
        ) {
            let list: BTreeSet<DeviceId> = list.into_iter().map(DeviceId::from).collect();
            let mut walk = Ascending::new(list.iter());
            for id in asked.into_iter().map(DeviceId::from) {
                prop_assert_eq!(walk.contains(&id), list.contains(&id));
            }
        }
    }
}
