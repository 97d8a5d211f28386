//! [`Amounts`]: how much of each resource, in the units the scheduler counts in.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};
use crate::pod::ResourceList;

/// The name of the CPU resource.
pub const CPU: &str = "cpu";
/// The name of the memory resource.
pub const MEMORY: &str = "memory";
/// Milli-CPUs of one whole CPU.
pub const MILLI: i64 = 1000;

/// Amounts by resource name: thousandths for `cpu`, whole units (bytes, pieces) for everything else.
///
/// Ascending by name. A zero amount is not the same as a missing one: a NUMA node that reports none
/// of a resource still reports it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Amounts {
    rows: SmallVec<[(ResourceName, i64); 4]>,
}

/// Amounts that belong to one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAmounts {
    /// The NUMA node.
    pub node: NodeId,
    /// What it has, or what a pod has on it.
    #[serde(rename = "resources")]
    pub amounts: Amounts,
}

/// One amount for each NUMA node, by id; 0 where nothing was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByNode {
    amounts: SmallVec<[i64; 8]>,
}

impl ByNode {
    /// Sets the amount of a NUMA node.
    pub fn set(&mut self, node: NodeId, amount: i64) {
        let at = node.index();
        if at >= self.amounts.len() {
            self.amounts.resize(at + 1, 0);
        }
        self.amounts[at] = amount;
    }

    /// The amount of the NUMA node with this id.
    #[must_use]
    pub fn at(&self, id: usize) -> i64 {
        self.amounts.get(id).copied().unwrap_or(0)
    }

    /// The sum over some NUMA nodes.
    #[must_use]
    pub fn sum(&self, nodes: NodeSet) -> i64 {
        let parts = nodes.iter().map(|node| self.at(node.index()));
        parts.fold(0, i64::saturating_add)
    }
}

impl Amounts {
    /// Nothing at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Kubernetes quantities in the units used here; a fraction of a unit counts as a whole one.
    #[must_use]
    pub fn of(list: &ResourceList) -> Self {
        list.iter()
            .map(|(name, quantity)| match name.as_str() {
                CPU => (name.clone(), quantity.milli_value()),
                _ => (name.clone(), quantity.value()),
            })
            .collect()
    }

    /// The amount of `resource`; 0 if it is missing.
    #[must_use]
    pub fn get(&self, resource: &str) -> i64 {
        self.find(resource).map_or(0, |at| self.rows[at].1)
    }

    /// Whether there is an entry, be it zero.
    #[must_use]
    pub fn contains(&self, resource: &str) -> bool {
        self.find(resource).is_ok()
    }

    /// Sets the amount of `resource`.
    pub fn set(&mut self, resource: &ResourceName, amount: i64) {
        match self.find(resource.as_str()) {
            Ok(at) => self.rows[at].1 = amount,
            Err(at) => self.rows.insert(at, (resource.clone(), amount)),
        }
    }

    /// Sets the amount of CPU in thousandths.
    pub fn set_cpu(&mut self, milli: i64) {
        match self.find(CPU) {
            Ok(at) => self.rows[at].1 = milli,
            Err(at) => self.rows.insert(at, (CPU.into(), milli)),
        }
    }

    /// Names and amounts, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, i64)> {
        self.rows.iter().map(|(name, amount)| (name, *amount))
    }

    /// Whether every amount is zero or there is none.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.rows.iter().all(|(_, amount)| *amount == 0)
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Amounts) {
        for (name, amount) in other.iter() {
            self.set(name, self.get(name.as_str()).saturating_add(amount));
        }
    }

    /// What is left of `self` after `other` is taken away, never below zero. Resources that only
    /// `other` has appear as zero. Mirrors `SubtractWithNonNegativeResult`.
    #[must_use]
    pub fn minus(&self, other: &Amounts) -> Amounts {
        let mut left = self.clone();
        for (_, amount) in &mut left.rows {
            *amount = (*amount).max(0);
        }
        for (name, amount) in other.iter() {
            let rest = self.get(name.as_str()).saturating_sub(amount);
            left.set(name, rest.max(0));
        }
        left
    }

    fn find(&self, resource: &str) -> Result<usize, usize> {
        self.rows
            .binary_search_by(|(name, _)| name.as_str().cmp(resource))
    }
}

impl FromIterator<(ResourceName, i64)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (ResourceName, i64)>>(rows: I) -> Self {
        let mut amounts = Amounts::new();
        for (name, amount) in rows {
            amounts.set(&name, amount);
        }
        amounts
    }
}

impl<const N: usize> From<[(&str, i64); N]> for Amounts {
    fn from(rows: [(&str, i64); N]) -> Self {
        rows.into_iter()
            .map(|(name, amount)| (ResourceName::from(name), amount))
            .collect()
    }
}

impl fmt::Debug for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<ResourceName, i64>::deserialize(deserializer)?
            .into_iter()
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtraction_stops_at_zero_and_keeps_every_name() {
        let have = Amounts::from([("cpu", 1000), ("memory", -5), ("gpu", 2)]);
        let used = Amounts::from([("cpu", 3000), ("pods", 1)]);
        let left = have.minus(&used);
        let expected = Amounts::from([("cpu", 0), ("gpu", 2), ("memory", 0), ("pods", 0)]);
        assert_eq!(left, expected);
    }

    #[test]
    fn a_zero_entry_is_not_a_missing_one() {
        let amounts = Amounts::from([("cpu", 0)]);
        assert!(amounts.contains("cpu") && amounts.is_zero());
        assert!(!amounts.contains("memory") && !amounts.is_empty());
    }
}
