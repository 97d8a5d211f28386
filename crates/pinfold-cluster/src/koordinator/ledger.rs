//! [`KoordinatorLedger`]: which pod holds which CPUs and NUMA resources on one node.
//!
//! Mirrors `NodeAllocation`. Exact mode repeats three defects that influence later decisions: a NUMA node that ever had
//! a NUMA allocation keeps its (empty) record, a shared CPU keeps the exclusive level written last, and a CPU that the
//! machine does not have counts for core 0 of NUMA node 0. In sound mode releasing a pod restores the state before it.

use crate::koordinator::KoordinatorDefects;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::amounts::{Amounts, CPU, MILLI, NodeAmounts, ResourceKey};
use super::amplify::amplify;
use super::cpu_topology::KoordinatorTopology;
use super::held_cpus::{HeldCpus, HeldPlace};
use super::policy_values::ExclusiveLevel;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::PodUid;
use pinfold_core::node_set::{NodeId, NodeSet};

/// The CPUs and NUMA resources that one pod holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Its CPUs; empty if it is not bound to CPUs.
    pub cpus: CpuSet,
    /// What it prefers to have exclusively.
    pub exclusive: ExclusiveLevel,
    /// Its NUMA resources, ascending by NUMA node.
    pub numa: Vec<NodeAmounts>,
}

/// The allocations of all pods on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KoordinatorLedger {
    fidelity: Fidelity,
    pods: BTreeMap<PodUid, AllocationEntry>,
    held: HeldCpus,
    records: BTreeMap<NodeId, NumaRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct AllocationEntry {
    allocation: Allocation,
    /// The NUMA nodes of its CPUs.
    nodes: NodeSet,
}

/// The sums of the NUMA allocations on one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NumaRecord {
    amounts: Amounts,
    /// The part of its CPU that belongs to pods with bound CPUs.
    bound_cpu: i64,
}

/// The amounts allocated on one NUMA node, amplified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumaAllocated<'a> {
    /// The amounts of its record.
    record: Option<&'a Amounts>,
    /// The amount of CPU, which replaces the one of the record.
    cpu: Option<i64>,
}

impl NumaAllocated<'_> {
    /// The allocated amount of `resource`, if there is an entry.
    #[must_use]
    #[inline]
    pub fn entry<'k>(&self, resource: impl Into<ResourceKey<'k>>) -> Option<i64> {
        match resource.into() {
            ResourceKey::Cpu => self.cpu,
            other => self.record?.entry(other),
        }
    }

    /// The allocated amount of `resource`; 0 if there is no entry.
    #[must_use]
    pub fn get<'k>(&self, resource: impl Into<ResourceKey<'k>>) -> i64 {
        self.entry(resource).unwrap_or(0)
    }
}

/// Which NUMA nodes have pods with CPUs on one NUMA node only, and which have pods whose CPUs span several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaOccupancy {
    /// NUMA nodes with a pod whose CPUs all lie there.
    pub single: NodeSet,
    /// NUMA nodes with a pod that also has CPUs on other NUMA nodes.
    pub spanning: NodeSet,
}

impl KoordinatorLedger {
    /// A ledger without pods.
    #[must_use]
    pub fn new(fidelity: Fidelity) -> Self {
        Self {
            fidelity,
            ..Self::default()
        }
    }

    /// Whether Koordinator's defects are repeated.
    #[must_use]
    pub fn fidelity(&self) -> Fidelity {
        self.fidelity
    }

    /// The allocation of `pod`.
    #[must_use]
    pub fn allocation(&self, pod: &PodUid) -> Option<&Allocation> {
        self.pods.get(pod).map(|entry| &entry.allocation)
    }

    /// All pods with their allocations.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Allocation)> {
        self.pods
            .iter()
            .map(|(pod, entry)| (pod, &entry.allocation))
    }

    /// The CPUs that pods hold.
    #[must_use]
    pub fn held(&self) -> &HeldCpus {
        &self.held
    }

    /// The number of bound CPUs of the node, in milli-CPUs.
    #[must_use]
    pub(crate) fn bound_milli(&self) -> i64 {
        i64::try_from(self.held.cpus().len()).unwrap_or(0) * MILLI
    }

    /// Records the allocation of `pod` in place of its previous one.
    pub fn update(&mut self, pod: PodUid, allocation: Allocation, topology: &KoordinatorTopology) {
        self.release(&pod);
        let mut nodes = NodeSet::EMPTY;
        for cpu in &allocation.cpus {
            let before = self.held.get(cpu).copied();
            // A CPU that another pod holds keeps its recorded core and NUMA node.
            let place = match before {
                Some(held) => held.place,
                None => self.place(cpu, topology),
            };
            let exclusive = match before {
                Some(held) if !self.fidelity.keeps_records_of_released_pods() => {
                    held.exclusive.max(allocation.exclusive)
                }
                _ => allocation.exclusive,
            };
            self.held.acquire(cpu, place, exclusive);
            if let Some(node) = place.and_then(|place| NodeId::new(place.node).ok()) {
                nodes.insert(node);
            }
        }
        for part in &allocation.numa {
            self.records
                .entry(part.node)
                .or_default()
                .add(part, &allocation);
        }
        self.pods.insert(pod, AllocationEntry { allocation, nodes });
    }

    /// Removes the allocation of `pod` and returns it.
    pub fn release(&mut self, pod: &PodUid) -> Option<Allocation> {
        let AllocationEntry { allocation, .. } = self.pods.remove(pod)?;
        for cpu in &allocation.cpus {
            self.held.release(cpu);
        }
        if self.fidelity.keeps_records_of_released_pods() {
            for part in &allocation.numa {
                if let Some(record) = self.records.get_mut(&part.node) {
                    record.amounts = record.amounts.minus(&part.amounts);
                }
            }
        } else {
            self.restore(&allocation);
        }
        Some(allocation)
    }

    /// Recomputes the records and CPUs of a removed allocation from the remaining pods.
    fn restore(&mut self, removed: &Allocation) {
        for part in &removed.numa {
            self.records.remove(&part.node);
        }
        for AllocationEntry { allocation, .. } in self.pods.values() {
            for part in &allocation.numa {
                if removed.numa.iter().any(|other| other.node == part.node) {
                    self.records
                        .entry(part.node)
                        .or_default()
                        .add(part, allocation);
                }
            }
        }
        let shared = &removed.cpus & self.held.cpus();
        for cpu in &shared {
            // A shared CPU has the strictest exclusive level of the pods that hold it.
            let holders = self
                .pods
                .values()
                .filter(|entry| entry.allocation.cpus.contains(cpu));
            let exclusive = holders.map(|entry| entry.allocation.exclusive).max();
            self.held.set_exclusive(cpu, exclusive.unwrap_or_default());
        }
    }

    fn place(&self, cpu: CpuId, topology: &KoordinatorTopology) -> Option<HeldPlace> {
        match topology.ids(cpu) {
            Some((core, node)) => Some(HeldPlace { core, node }),
            None if self.fidelity.puts_unknown_cpus_on_node_0() => {
                Some(HeldPlace { core: 0, node: 0 })
            }
            None => None,
        }
    }

    /// Which NUMA nodes have pods on one NUMA node and which have pods that span several. Pods without bound CPUs do
    /// not count.
    #[must_use]
    pub fn occupancy(&self) -> NumaOccupancy {
        let mut occupancy = NumaOccupancy::default();
        for AllocationEntry { nodes, .. } in self.pods.values() {
            match nodes.len() {
                0 => {}
                1 => occupancy.single = occupancy.single | *nodes,
                _ => occupancy.spanning = occupancy.spanning | *nodes,
            }
        }
        occupancy
    }

    /// The amounts allocated on one NUMA node, amplified; `None` if the NUMA node has no record.
    #[must_use]
    pub fn allocated(&self, node: NodeId, cpu_ratio: f64) -> Option<NumaAllocated<'_>> {
        let record = self.records.get(&node);
        let recorded = record.and_then(|record| record.amounts.entry(CPU));
        let bound = self.bound_milli_on(node);
        let amplified = amplify(bound, cpu_ratio);
        let cpu = if self.fidelity.keeps_records_of_released_pods() {
            record?;
            match cpu_ratio > 1.0 {
                true => {
                    let more = amplified.saturating_sub(bound);
                    Some(recorded.unwrap_or(0).saturating_add(more))
                }
                false => recorded,
            }
        } else {
            if record.is_none() && amplified == 0 {
                return None;
            }
            let bound_record = record.map_or(0, |record| record.bound_cpu);
            let unbound = recorded.unwrap_or(0).saturating_sub(bound_record);
            (recorded.is_some() || amplified > 0).then(|| unbound.saturating_add(amplified))
        };
        Some(NumaAllocated {
            record: record.map(|record| &record.amounts),
            cpu,
        })
    }

    fn bound_milli_on(&self, node: NodeId) -> i64 {
        i64::try_from(self.held.on_node(node)).unwrap_or(0) * MILLI
    }
}

impl NumaRecord {
    fn add(&mut self, part: &NodeAmounts, allocation: &Allocation) {
        self.amounts.add(&part.amounts);
        if !allocation.cpus.is_empty() {
            self.bound_cpu = self.bound_cpu.saturating_add(part.amounts.get(CPU));
        }
    }
}

#[cfg(test)]
mod tests;
