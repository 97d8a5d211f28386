//! [`Amounts`]: an amount of each resource, in the units that the scheduler counts in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use pinfold_core::name::ResourceName;
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::ResourceList;

/// The name of the CPU resource.
pub const CPU: &str = "cpu";
/// The name of the memory resource.
pub const MEMORY: &str = "memory";
/// Milli-CPUs of one whole CPU.
pub const MILLI: i64 = 1000;

/// Amounts by resource name: milli-CPUs for `cpu`, whole units (bytes, devices) for everything else.
///
/// Ascending by name. A zero amount is not the same as a missing one: a NUMA node that reports none
/// of a resource still reports it.
///
/// Every decision about thousands of nodes reads CPU and memory of every NUMA node, so these two have fields of their
/// own: reading them compares no names, and copying them counts no references.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Amounts {
    cpu: Option<i64>,
    memory: Option<i64>,
    /// All others, ascending by name.
    others: SmallVec<[(ResourceName, i64); 1]>,
}

static CPU_NAME: LazyLock<ResourceName> = LazyLock::new(|| CPU.into());
static MEMORY_NAME: LazyLock<ResourceName> = LazyLock::new(|| MEMORY.into());

/// The key of a resource in [`Amounts`], so that a name is compared only once for many lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKey<'a> {
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
    /// Any other, by name.
    Other(&'a str),
}

impl<'a> From<&'a str> for ResourceKey<'a> {
    #[inline]
    fn from(name: &'a str) -> Self {
        match name {
            CPU => ResourceKey::Cpu,
            MEMORY => ResourceKey::Memory,
            other => ResourceKey::Other(other),
        }
    }
}

/// Amounts that belong to one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAmounts {
    /// The NUMA node.
    pub node: NodeId,
    /// What the NUMA node has, or what a pod holds on it.
    #[serde(rename = "resources")]
    pub amounts: Amounts,
}

/// One amount for each NUMA node, by id; 0 if not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByNode {
    amounts: SmallVec<[i64; 8]>,
}

impl ByNode {
    /// Sets the amount of a NUMA node.
    #[inline]
    pub fn set(&mut self, node: NodeId, amount: i64) {
        let at = node.index();
        // Ids are mostly set in ascending order.
        if at == self.amounts.len() {
            self.amounts.push(amount);
            return;
        }
        if at > self.amounts.len() {
            self.amounts.resize(at + 1, 0);
        }
        self.amounts[at] = amount;
    }

    /// The amount of the NUMA node with this id.
    #[must_use]
    #[inline]
    pub fn at(&self, id: usize) -> i64 {
        self.amounts.get(id).copied().unwrap_or(0)
    }

    /// The sum over some NUMA nodes.
    #[must_use]
    #[inline]
    pub fn sum(&self, nodes: NodeSet) -> i64 {
        let parts = nodes.iter().map(|node| self.at(node.index()));
        parts.fold(0, i64::saturating_add)
    }
}

impl Amounts {
    /// No entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Converts Kubernetes quantities to the units used here; a fraction of a unit is rounded up.
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
    #[inline]
    pub fn get<'k>(&self, resource: impl Into<ResourceKey<'k>>) -> i64 {
        self.entry(resource).unwrap_or(0)
    }

    /// Whether there is an entry, even if it is zero.
    #[must_use]
    #[inline]
    pub fn contains<'k>(&self, resource: impl Into<ResourceKey<'k>>) -> bool {
        self.entry(resource).is_some()
    }

    /// The amount of `resource`, if there is an entry.
    #[must_use]
    #[inline]
    pub fn entry<'k>(&self, resource: impl Into<ResourceKey<'k>>) -> Option<i64> {
        match resource.into() {
            ResourceKey::Cpu => self.cpu,
            ResourceKey::Memory => self.memory,
            ResourceKey::Other(name) => self.find(name).ok().map(|at| self.others[at].1),
        }
    }

    /// Sets the amount of `resource`.
    pub fn set(&mut self, resource: &ResourceName, amount: i64) {
        match resource.as_str() {
            CPU => self.cpu = Some(amount),
            MEMORY => self.memory = Some(amount),
            other => match self.find(other) {
                Ok(at) => self.others[at].1 = amount,
                Err(at) => self.others.insert(at, (resource.clone(), amount)),
            },
        }
    }

    /// Sets the amount of CPU in milli-CPUs.
    pub fn set_cpu(&mut self, milli: i64) {
        self.cpu = Some(milli);
    }

    /// Names and amounts, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, i64)> {
        let before = |name: &'static str| {
            let others = self.others.iter();
            others
                .take_while(|(other, _)| other.as_str() < name)
                .count()
        };
        let (to_cpu, rest) = self.others.split_at(before(CPU));
        let (to_memory, rest) = rest.split_at(before(MEMORY) - to_cpu.len());
        let cpu = self.cpu.map(|amount| (&*CPU_NAME, amount));
        let memory = self.memory.map(|amount| (&*MEMORY_NAME, amount));
        rows(to_cpu)
            .chain(cpu)
            .chain(rows(to_memory))
            .chain(memory)
            .chain(rows(rest))
    }

    /// Keys and amounts, in no particular order.
    #[inline]
    pub fn keyed(&self) -> impl Iterator<Item = (ResourceKey<'_>, i64)> {
        let others = self.others.iter();
        let cpu = self.cpu.map(|amount| (ResourceKey::Cpu, amount));
        let memory = self.memory.map(|amount| (ResourceKey::Memory, amount));
        cpu.into_iter()
            .chain(memory)
            .chain(others.map(|(name, amount)| (ResourceKey::Other(name.as_str()), *amount)))
    }

    /// Whether every amount is zero or there is none.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.iter().all(|(_, amount)| amount == 0)
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none() && self.others.is_empty()
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Amounts) {
        self.combine(other, i64::saturating_add);
    }

    /// `self` minus `other`, never below zero. Resources that only
    /// `other` has appear as zero. Mirrors `SubtractWithNonNegativeResult`.
    #[must_use]
    pub fn minus(&self, other: &Amounts) -> Amounts {
        let mut left = self.clone();
        left.combine(other, i64::saturating_sub);
        let others = left.others.iter_mut().map(|(_, amount)| amount);
        for amount in others.chain(&mut left.cpu).chain(&mut left.memory) {
            *amount = (*amount).max(0);
        }
        left
    }

    /// Replaces every amount that `other` has by `with` of both amounts.
    fn combine(&mut self, other: &Amounts, with: impl Fn(i64, i64) -> i64) {
        for (own, amount) in [(&mut self.cpu, other.cpu), (&mut self.memory, other.memory)] {
            if let Some(amount) = amount {
                *own = Some(with(own.unwrap_or(0), amount));
            }
        }
        for (name, amount) in &other.others {
            self.set(name, with(self.get(name.as_str()), *amount));
        }
    }

    fn find(&self, resource: &str) -> Result<usize, usize> {
        self.others
            .binary_search_by(|(name, _)| name.as_str().cmp(resource))
    }
}

/// `amount` minus `taken`, never below zero; `None` if both are `None`.
pub(super) fn subtract(amount: Option<i64>, taken: Option<i64>) -> Option<i64> {
    amount.or(taken)?;
    let left = amount.unwrap_or(0).saturating_sub(taken.unwrap_or(0));
    Some(left.max(0))
}

fn rows(rows: &[(ResourceName, i64)]) -> impl Iterator<Item = (&ResourceName, i64)> {
    rows.iter().map(|(name, amount)| (name, *amount))
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
    fn names_ascend_in_whatever_order_they_were_set() {
        let names = [
            "pods",
            "memory",
            "cpu",
            "a",
            "dev",
            "hugepages-2Mi",
            "cpus",
            "nvidia.com/gpu",
        ];
        for count in 0..=names.len() {
            let rows = names[..count].iter().map(|&name| (name.into(), 1));
            let amounts: Amounts = rows.collect();
            let found: Vec<&str> = amounts.iter().map(|(name, _)| name.as_str()).collect();
            let mut expected = names[..count].to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_zero_entry_is_not_a_missing_one() {
        let amounts = Amounts::from([("cpu", 0)]);
        assert!(amounts.contains("cpu") && amounts.is_zero());
        assert!(!amounts.contains("memory") && !amounts.is_empty());
    }
}
