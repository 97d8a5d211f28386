//! [`CpuSet`]: a set of CPU IDs, 0 to 4095, without heap allocation up to 256 CPUs.
//!
//! The text format and error messages are those of the kubelet's `cpuset` package; see [`CpuSet::parse`].

use std::fmt;
use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Sub, SubAssign};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use crate::steps;

mod shift;
mod text;

pub use text::{CpuList, CpuSetTextError};

/// The ID of a logical CPU as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(u16);

impl CpuId {
    /// One more than the largest valid ID.
    pub const LIMIT: u32 = 4096;

    /// Checks the range. `None` if `id` is 4096 or more.
    #[must_use]
    pub fn new(id: u32) -> Option<Self> {
        match u16::try_from(id) {
            Ok(small) if id < Self::LIMIT => Some(Self(small)),
            _ => None,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a set has at most 64 words, so the id is below 4096"
    )]
    fn at(word: usize, bit: usize) -> Self {
        Self((word * 64 + bit) as u16)
    }

    /// The ID as an index into a table with one row per possible CPU.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The ID as a number.
    #[must_use]
    pub fn get(self) -> u32 {
        u32::from(self.0)
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A set of logical CPUs.
///
/// Words of 64 IDs, lowest first, without trailing zero words: equal sets are equal bytes.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet {
    words: SmallVec<[u64; 4]>,
}

/// Copies all words at once; the vector's own clone copies one by one.
impl Clone for CpuSet {
    fn clone(&self) -> Self {
        steps::add(self.words.len());
        Self {
            words: SmallVec::from_slice(&self.words),
        }
    }
}

impl CpuSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of one CPU.
    #[must_use]
    pub fn single(cpu: CpuId) -> Self {
        let mut set = Self::new();
        set.insert(cpu);
        set
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The number of CPUs in the set.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        steps::add(self.words.len());
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether `cpu` is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        steps::add(1);
        let (word, bit) = place(cpu);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds `cpu`. True if it was new.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        steps::add(1);
        let (word, bit) = place(cpu);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let was_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        was_new
    }

    /// Removes `cpu`. True if it was in the set.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        let was_member = self.contains(cpu);
        if was_member {
            self.words[word] &= !bit;
            self.trim();
        }
        was_member
    }

    /// The lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The highest CPU.
    #[must_use]
    pub fn last(&self) -> Option<CpuId> {
        let highest = self.words.last()?.checked_ilog2()?;
        Some(CpuId::at(self.words.len() - 1, highest as usize))
    }

    /// The CPUs in ascending order.
    #[must_use]
    pub fn iter(&self) -> Cpus<'_> {
        Cpus {
            words: &self.words,
            next_word: 0,
            word: 0,
        }
    }

    /// Whether every CPU of `self` is in `other`.
    #[inline]
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.words.len() <= other.words.len()
            && self
                .words
                .iter()
                .zip(&other.words)
                .all(|(mine, theirs)| mine & !theirs == 0)
    }

    /// Whether no CPU is in both sets.
    #[inline]
    #[must_use]
    pub fn is_disjoint(&self, other: &CpuSet) -> bool {
        self.words
            .iter()
            .zip(&other.words)
            .all(|(mine, theirs)| mine & theirs == 0)
    }

    /// The number of CPUs in both sets, without building the intersection.
    #[inline]
    #[must_use]
    pub fn common_len(&self, other: &CpuSet) -> usize {
        self.words
            .iter()
            .zip(&other.words)
            .map(|(mine, theirs)| (mine & theirs).count_ones() as usize)
            .sum()
    }

    /// The number of `cpus` in the set.
    #[must_use]
    pub fn count_of(&self, cpus: &[CpuId]) -> usize {
        let words = self.words.as_slice();
        let member = |&&cpu: &&CpuId| {
            let (word, bit) = place(cpu);
            words.get(word).is_some_and(|word| word & bit != 0)
        };
        cpus.iter().filter(member).count()
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn place(cpu: CpuId) -> (usize, u64) {
    (cpu.index() / 64, 1 << (cpu.index() % 64))
}

impl BitOrAssign<&CpuSet> for CpuSet {
    fn bitor_assign(&mut self, other: &CpuSet) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }
}

impl BitAndAssign<&CpuSet> for CpuSet {
    fn bitand_assign(&mut self, other: &CpuSet) {
        self.words.truncate(other.words.len());
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= theirs;
        }
        self.trim();
    }
}

impl SubAssign<&CpuSet> for CpuSet {
    fn sub_assign(&mut self, other: &CpuSet) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= !theirs;
        }
        self.trim();
    }
}

impl BitOr for &CpuSet {
    type Output = CpuSet;
    fn bitor(self, other: &CpuSet) -> CpuSet {
        let mut union = self.clone();
        union |= other;
        union
    }
}

impl BitAnd for &CpuSet {
    type Output = CpuSet;
    fn bitand(self, other: &CpuSet) -> CpuSet {
        let mut common = self.clone();
        common &= other;
        common
    }
}

impl Sub for &CpuSet {
    type Output = CpuSet;
    fn sub(self, other: &CpuSet) -> CpuSet {
        let mut rest = self.clone();
        rest -= other;
        rest
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = CpuSet::new();
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl<'a> IntoIterator for &'a CpuSet {
    type Item = CpuId;
    type IntoIter = Cpus<'a>;
    fn into_iter(self) -> Cpus<'a> {
        self.iter()
    }
}

/// The Linux list format: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::list_format::write(f, self.iter().map(CpuId::get))
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Serialized in the Linux list format, as in the kubelet's state files.
impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        CpuSet::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// The CPUs of a [`CpuSet`] in ascending order.
#[derive(Clone, Debug)]
pub struct Cpus<'a> {
    words: &'a [u64],
    next_word: usize,
    word: u64,
}

impl Iterator for Cpus<'_> {
    type Item = CpuId;

    fn next(&mut self) -> Option<CpuId> {
        while self.word == 0 {
            self.word = *self.words.get(self.next_word)?;
            self.next_word += 1;
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(CpuId::at(self.next_word - 1, bit))
    }
}
