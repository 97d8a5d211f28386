//! [`Ascending`]: lookups in a sorted list of IDs, in ascending order.

use std::cmp::Ordering;
use std::iter::Peekable;

use crate::name::DeviceId;

/// A sorted list in which IDs are looked up in ascending order: every ID of either list is visited once.
pub(super) struct Ascending<I: Iterator> {
    rest: Peekable<I>,
}

impl<'a, I: Iterator<Item = &'a DeviceId>> Ascending<I> {
    /// `ids` must be ascending.
    pub(super) fn new(ids: I) -> Self {
        Self {
            rest: ids.peekable(),
        }
    }

    /// Whether `id` is in the list. It must not be smaller than the previous one.
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
        fn ascending_lookups_find_what_a_set_finds(
            list in prop::collection::btree_set("[a-c]{0,2}", 0..8),
            looked_up in prop::collection::btree_set("[a-c]{0,2}", 0..8),
        ) {
            let list: BTreeSet<DeviceId> = list.into_iter().map(DeviceId::from).collect();
            let mut walk = Ascending::new(list.iter());
            for id in looked_up.into_iter().map(DeviceId::from) {
                prop_assert_eq!(walk.contains(&id), list.contains(&id));
            }
        }
    }
}
