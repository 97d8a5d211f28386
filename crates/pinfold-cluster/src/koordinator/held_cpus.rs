//! [`HeldCpus`]: the CPUs that pods hold, with the number of holders and the exclusive level of each.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::policy_values::ExclusiveLevel;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::node_set::NodeId;

/// A CPU that at least one pod holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldCpu {
    /// The core and NUMA node it counts for; `None` if the machine does not have the CPU.
    pub place: Option<HeldPlace>,
    /// How many pods hold it.
    pub refs: u32,
    /// The exclusive level of the pod that acquired it last.
    pub exclusive: ExclusiveLevel,
}

/// The core and NUMA node of a held CPU, by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPlace {
    /// Its core.
    pub core: i64,
    /// Its NUMA node.
    pub node: i64,
}

/// All held CPUs of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldCpus {
    rows: BTreeMap<CpuId, HeldCpu>,
    cpus: CpuSet,
    /// The number of held CPUs of each NUMA node, by id; the last entry is never 0.
    per_node: SmallVec<[u32; 8]>,
}

impl HeldCpus {
    /// No held CPUs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The held CPUs.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// The record of one CPU, if it is held.
    #[must_use]
    pub fn get(&self, cpu: CpuId) -> Option<&HeldCpu> {
        self.rows.get(&cpu)
    }

    /// Every held CPU, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (CpuId, &HeldCpu)> {
        self.rows.iter().map(|(cpu, held)| (*cpu, held))
    }

    /// How many held CPUs count for one NUMA node.
    #[must_use]
    pub fn on_node(&self, node: NodeId) -> usize {
        let count = self.per_node.get(node.index());
        count.map_or(0, |&count| count as usize)
    }

    /// Sets the record of one CPU.
    pub fn insert(&mut self, cpu: CpuId, held: HeldCpu) {
        self.remove(cpu);
        if let Some(place) = held.place {
            self.count_on(place.node, |count| count.saturating_add(1));
        }
        self.rows.insert(cpu, held);
        self.cpus.insert(cpu);
    }

    /// Adds a holder of a CPU and sets the exclusive level to that of the new holder.
    pub(super) fn acquire(
        &mut self,
        cpu: CpuId,
        place: Option<HeldPlace>,
        exclusive: ExclusiveLevel,
    ) {
        match self.rows.get_mut(&cpu) {
            Some(held) => {
                held.refs = held.refs.saturating_add(1);
                held.exclusive = exclusive;
            }
            None => self.insert(
                cpu,
                HeldCpu {
                    place,
                    refs: 1,
                    exclusive,
                },
            ),
        }
    }

    /// Removes one holder of a CPU.
    pub(super) fn release(&mut self, cpu: CpuId) {
        let Some(held) = self.rows.get_mut(&cpu) else {
            return;
        };
        held.refs = held.refs.saturating_sub(1);
        if held.refs == 0 {
            self.remove(cpu);
        }
    }

    pub(super) fn set_exclusive(&mut self, cpu: CpuId, exclusive: ExclusiveLevel) {
        if let Some(held) = self.rows.get_mut(&cpu) {
            held.exclusive = exclusive;
        }
    }

    fn remove(&mut self, cpu: CpuId) {
        self.cpus.remove(cpu);
        let place = self.rows.remove(&cpu).and_then(|held| held.place);
        if let Some(place) = place {
            self.count_on(place.node, |count| count.saturating_sub(1));
        }
    }

    /// Changes the count of a NUMA node. Ids that do not fit into a [`NodeId`] are not counted.
    fn count_on(&mut self, node: i64, count: impl Fn(u32) -> u32) {
        let Ok(node) = NodeId::new(node) else {
            return;
        };
        let at = node.index();
        if at >= self.per_node.len() {
            self.per_node.resize(at + 1, 0);
        }
        self.per_node[at] = count(self.per_node[at]);
        while self.per_node.last() == Some(&0) {
            self.per_node.pop();
        }
    }

    /// The CPUs that `max_refs` pods hold, so that no further pod may acquire them.
    #[must_use]
    pub fn exhausted(&self, max_refs: u32) -> CpuSet {
        if max_refs <= 1 {
            return self.cpus.clone();
        }
        let full = self.rows.iter().filter(|(_, held)| held.refs >= max_refs);
        full.map(|(cpu, _)| *cpu).collect()
    }
}
