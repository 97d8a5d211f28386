//! [`Combinations`]: all ways to choose k of n positions, and [`Kept`], a combination that was remembered.

use smallvec::SmallVec;

/// Chosen positions, ascending.
pub(super) type Chosen = SmallVec<[usize; 16]>;

/// All ways to choose k of n positions, in lexicographic order. Mirrors `iterateCombinations`.
pub(crate) struct Combinations {
    chosen: Chosen,
    n: usize,
    begun: bool,
}

impl Combinations {
    pub(crate) fn new(n: usize, k: usize) -> Self {
        Self {
            chosen: (0..k).collect(),
            n,
            begun: false,
        }
    }

    /// The next combination. There is none with no or too many positions.
    pub(crate) fn next(&mut self) -> Option<&[usize]> {
        let k = self.chosen.len();
        if k == 0 || k > self.n {
            return None;
        }
        if !self.begun {
            self.begun = true;
            return Some(&self.chosen);
        }
        let turn = (0..k).rev().find(|&i| self.chosen[i] < self.n - k + i)?;
        self.chosen[turn] += 1;
        for later in turn + 1..k {
            self.chosen[later] = self.chosen[later - 1] + 1;
        }
        Some(&self.chosen)
    }
}

/// A combination that is remembered while the enumeration continues.
///
/// The kubelet remembers it as a slice whose backing array the enumeration may still write to. A slice that grows one
/// by one is reallocated when its length is 0, 1, 2, 4, 8, ... and extended in place otherwise; so later combinations
/// with the same first 1, 2, 3, 5, 9, ... positions overwrite the positions after these.
#[derive(Clone, Debug)]
pub(super) struct Kept(Chosen);

impl Kept {
    pub(super) fn new(chosen: &[usize]) -> Self {
        Self(Chosen::from_slice(chosen))
    }

    pub(super) fn positions(&self) -> &[usize] {
        &self.0
    }

    /// Overwrites the shared part of the backing array as the enumeration does when it reaches `next`.
    pub(super) fn overwrite(&mut self, next: &[usize]) {
        let own = own_storage(self.0.len());
        if next.len() == self.0.len() && next[..own] == self.0[..own] {
            self.0.copy_from_slice(next);
        }
    }
}

/// The number of leading positions of a combination in storage that no other combination is written to: one more than
/// the largest power of two below its length.
fn own_storage(len: usize) -> usize {
    match len {
        0 | 1 => len,
        _ => (1 << (len - 1).ilog2()) + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(n: usize, k: usize) -> Vec<Vec<usize>> {
        let mut combinations = Combinations::new(n, k);
        let mut all = Vec::new();
        while let Some(chosen) = combinations.next() {
            all.push(chosen.to_vec());
        }
        all
    }

    #[test]
    fn combinations_come_in_lexicographic_order() {
        assert_eq!(all(3, 2), [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(all(3, 3), [[0, 1, 2]]);
    }

    #[test]
    fn there_is_no_combination_of_no_or_too_many_positions() {
        assert!(all(3, 0).is_empty());
        assert!(all(3, 4).is_empty());
        assert!(all(0, 1).is_empty());
    }

    #[test]
    fn storage_is_copied_at_powers_of_two() {
        let own: Vec<usize> = (0..=17).map(own_storage).collect();
        assert_eq!(own, [0, 1, 2, 3, 3, 5, 5, 5, 5, 9, 9, 9, 9, 9, 9, 9, 9, 17]);
    }

    #[test]
    fn a_kept_combination_changes_only_behind_its_own_storage() {
        let mut kept = Kept::new(&[0, 1, 2, 3]);
        kept.overwrite(&[0, 1, 2, 5]);
        assert_eq!(kept.positions(), [0, 1, 2, 5]);
        kept.overwrite(&[0, 1, 3, 4]);
        assert_eq!(kept.positions(), [0, 1, 2, 5]);
    }
}
