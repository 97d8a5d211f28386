//! Sorts with a comparison that is no ordering, as Go's `sort.Slice` does.
//!
//! The plugin compares cores with "smaller in any key" where "smaller in the first key that differs" was meant. Two
//! cores can then each be "less" than the other, and the result depends on which pairs the sort compares. So the pairs
//! must be the same: this is a pattern-defeating quicksort with the same thresholds, pivots and fallbacks as Go's
//! (unchanged since Go 1.19). It terminates after O(n log n) comparisons whatever the comparison returns.

/// Up to this many elements insertion sort is used.
const INSERTION: usize = 12;
/// From this many elements on pivots are medians of medians, and nearly sorted runs are shifted.
const LONG: usize = 50;
/// The most out-of-order pairs of a run that counts as nearly sorted.
const MAX_REPAIRS: usize = 5;

/// Sorts `items` with `less` the way `sort.Slice` would.
pub(super) fn sort<T>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let bad_pivots = usize::BITS - items.len().leading_zeros();
    let end = items.len();
    Sorter { items, less }.quick(0, end, bad_pivots);
}

struct Sorter<'a, T, F> {
    items: &'a mut [T],
    less: F,
}

/// The order of a range as the choice of its pivot suggests.
#[derive(PartialEq)]
enum PivotHint {
    Ascending,
    Descending,
    Unknown,
}

impl<T, F: Fn(&T, &T) -> bool> Sorter<'_, T, F> {
    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.items[a], &self.items[b])
    }

    /// Sorts `from..to`; after `bad_pivots` unbalanced partitions with heap sort.
    fn quick(&mut self, mut from: usize, mut to: usize, mut bad_pivots: u32) {
        let (mut balanced, mut partitioned) = (true, true);
        loop {
            let length = to - from;
            if length <= INSERTION {
                return self.insertion(from, to);
            }
            if bad_pivots == 0 {
                return self.heap(from, to);
            }
            if !balanced {
                self.scatter(from, to);
                bad_pivots -= 1;
            }
            let (mut pivot, mut hint) = self.choose_pivot(from, to);
            if hint == PivotHint::Descending {
                self.items[from..to].reverse();
                pivot = (to - 1) - (pivot - from);
                hint = PivotHint::Ascending;
            }
            if balanced
                && partitioned
                && hint == PivotHint::Ascending
                && self.repair_nearly_sorted(from, to)
            {
                return;
            }
            if from > 0 && !self.less(from - 1, pivot) {
                from = self.partition_equal(from, to, pivot);
                continue;
            }
            let middle;
            (middle, partitioned) = self.partition(from, to, pivot);
            let (left, right) = (middle - from, to - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.quick(from, middle, bad_pivots);
                from = middle + 1;
            } else {
                self.quick(middle + 1, to, bad_pivots);
                to = middle;
            }
        }
    }

    fn insertion(&mut self, from: usize, to: usize) {
        for next in from + 1..to {
            let mut at = next;
            while at > from && self.less(at, at - 1) {
                self.items.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    fn heap(&mut self, from: usize, to: usize) {
        let length = to - from;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift_down(from, root, length);
        }
        for last in (0..length).rev() {
            self.items.swap(from, from + last);
            self.sift_down(from, 0, last);
        }
    }

    fn sift_down(&mut self, from: usize, mut root: usize, length: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= length {
                return;
            }
            if child + 1 < length && self.less(from + child, from + child + 1) {
                child += 1;
            }
            if !self.less(from + root, from + child) {
                return;
            }
            self.items.swap(from + root, from + child);
            root = child;
        }
    }

    /// Moves the elements less than the pivot before it and the others behind it. Returns the new position of the
    /// pivot, and whether no other element was moved.
    fn partition(&mut self, from: usize, to: usize, pivot: usize) -> (usize, bool) {
        self.items.swap(from, pivot);
        let (mut low, mut high) = (from + 1, to - 1);
        let mut untouched = true;
        loop {
            while low <= high && self.less(low, from) {
                low += 1;
            }
            while low <= high && !self.less(high, from) {
                high -= 1;
            }
            if low > high {
                break;
            }
            self.items.swap(low, high);
            untouched = false;
            low += 1;
            high -= 1;
        }
        self.items.swap(high, from);
        (high, untouched)
    }

    /// For a range without elements less than the pivot: moves equal elements first, and returns where the greater ones
    /// begin.
    fn partition_equal(&mut self, from: usize, to: usize, pivot: usize) -> usize {
        self.items.swap(from, pivot);
        let (mut low, mut high) = (from + 1, to - 1);
        loop {
            while low <= high && !self.less(from, low) {
                low += 1;
            }
            while low <= high && self.less(from, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.items.swap(low, high);
            low += 1;
            high -= 1;
        }
    }

    /// Repairs a few pairs; returns whether the range is sorted then.
    fn repair_nearly_sorted(&mut self, from: usize, to: usize) -> bool {
        let mut at = from + 1;
        for _ in 0..MAX_REPAIRS {
            while at < to && !self.less(at, at - 1) {
                at += 1;
            }
            if at == to {
                return true;
            }
            if to - from < LONG {
                return false;
            }
            self.items.swap(at, at - 1);
            if at - from >= 2 {
                // Down to the first element of all, not only to `from`.
                let mut down = at - 1;
                while down >= 1 && self.less(down, down - 1) {
                    self.items.swap(down, down - 1);
                    down -= 1;
                }
            }
            if to - at >= 2 {
                let mut up = at + 1;
                while up < to && self.less(up, up - 1) {
                    self.items.swap(up, up - 1);
                    up += 1;
                }
            }
        }
        false
    }

    /// Swaps three elements of the middle with elements at pseudo-random positions of a fixed sequence.
    fn scatter(&mut self, from: usize, to: usize) {
        let length = to - from;
        let mut random = length as u64;
        let mask = (1_u64 << (u64::BITS - random.leading_zeros())) - 1;
        let middle = from + length / 4 * 2;
        for at in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let mut other = usize::try_from(random & mask).unwrap_or(0);
            if other >= length {
                other -= length;
            }
            self.items.swap(at, from + other);
        }
    }

    fn choose_pivot(&self, from: usize, to: usize) -> (usize, PivotHint) {
        let length = to - from;
        let quarter = length / 4;
        let mut swaps = 0;
        let mut candidates = [from + quarter, from + quarter * 2, from + quarter * 3];
        if length >= LONG {
            candidates = candidates.map(|at| self.median(at - 1, at, at + 1, &mut swaps));
        }
        let [low, middle, high] = candidates;
        let pivot = self.median(low, middle, high, &mut swaps);
        let hint = match swaps {
            0 => PivotHint::Ascending,
            12 => PivotHint::Descending,
            _ => PivotHint::Unknown,
        };
        (pivot, hint)
    }

    fn median(&self, mut a: usize, mut b: usize, c: usize, swaps: &mut u32) -> usize {
        if self.less(b, a) {
            *swaps += 1;
            (a, b) = (b, a);
        }
        if self.less(c, b) {
            *swaps += 1;
            b = c;
        }
        if self.less(b, a) {
            *swaps += 1;
            b = a;
        }
        b
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_real_ordering_is_sorted(mut items in proptest::collection::vec(0_u8..40, 0..300)) {
            let mut expected = items.clone();
            expected.sort_unstable();
            super::sort(&mut items, |a, b| a < b);
            prop_assert_eq!(items, expected);
        }

        #[test]
        fn a_comparison_that_is_no_ordering_terminates_and_keeps_all_elements(
            mut items in proptest::collection::vec((0_u8..9, 0_u8..9), 0..300),
        ) {
            let mut expected = items.clone();
            super::sort(&mut items, |a, b| a.0 < b.0 || a.1 < b.1);
            items.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(items, expected);
        }

        #[test]
        fn patterns_that_defeat_quicksorts_are_sorted_too(
            length in 13_usize..500, period in 1_usize..60, descending: bool,
        ) {
            let mut items: Vec<usize> = (0..length).map(|at| at % period).collect();
            if descending {
                items.reverse();
            }
            super::sort(&mut items, |a, b| a < b);
            prop_assert!(items.is_sorted());
        }
    }
}
