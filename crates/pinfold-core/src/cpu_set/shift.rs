//! Shifts all CPUs of a set up or down by a number of IDs, as SMT siblings are often numbered.

use std::ops::{Shl, Shr};

use smallvec::SmallVec;

use super::{CpuId, CpuSet};

/// Every CPU `by` IDs lower; CPUs below `by` are dropped.
impl Shr<usize> for &CpuSet {
    type Output = CpuSet;

    fn shr(self, by: usize) -> CpuSet {
        let (words, bits) = (by / 64, by % 64);
        let mut lower = CpuSet {
            words: SmallVec::from_slice(self.words.get(words..).unwrap_or_default()),
        };
        if bits > 0 {
            let mut carry = 0;
            for word in lower.words.iter_mut().rev() {
                (*word, carry) = (*word >> bits | carry, *word << (64 - bits));
            }
            lower.trim();
        }
        lower
    }
}

/// Every CPU `by` IDs higher; CPUs beyond the valid range are dropped.
impl Shl<usize> for &CpuSet {
    type Output = CpuSet;

    fn shl(self, by: usize) -> CpuSet {
        const MOST_WORDS: usize = CpuId::LIMIT as usize / 64;
        let (words, bits) = (by / 64, by % 64);
        let mut higher = CpuSet::new();
        if self.is_empty() || words >= MOST_WORDS {
            return higher;
        }
        higher.words.resize(words, 0);
        higher.words.extend_from_slice(&self.words);
        if bits > 0 {
            let mut carry = 0;
            for word in &mut higher.words[words..] {
                (*word, carry) = (*word << bits | carry, *word >> (64 - bits));
            }
            higher.words.push(carry);
        }
        higher.words.truncate(MOST_WORDS);
        higher.trim();
        higher
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moved(cpus: &CpuSet, by: i64) -> CpuSet {
        let ids = cpus.iter().map(|cpu| i64::from(cpu.get()) + by);
        ids.filter_map(|id| u32::try_from(id).ok().and_then(CpuId::new))
            .collect()
    }

    proptest! {
        #[test]
        fn every_id_moves_and_none_leaves_the_range(
            ids in proptest::collection::btree_set(0_u32..CpuId::LIMIT, 0..40),
            by in prop_oneof![0_usize..200, 0_usize..5000],
        ) {
            let cpus: CpuSet = ids.into_iter().filter_map(CpuId::new).collect();
            let distance = i64::try_from(by).expect("small");
            prop_assert_eq!(&cpus >> by, moved(&cpus, -distance));
            prop_assert_eq!(&cpus << by, moved(&cpus, distance));
        }
    }
}
