//! [`Suppression`]: the CPUs that best-effort pods may use while other pods are busy.
//!
//! Mirrors koordlet's `BECPUSuppress` with the policy `cpuset`: best-effort pods may use
//! `CPUs of the node * threshold - CPUs that others use`, at least a core, at most the best-effort pool, which has the CPUs
//! of LSR pods but not those of LSE pods and of pods that the kubelet pinned. Fewer CPUs apply at once, more only after
//! several rounds and step by step, so that a load that comes and goes does not move pods all the time.
//!
//! Which CPUs: whole cores; those that the pods have; shared ones before those lent by LSR pods, which are thus the first to
//! be taken back; and those of the NUMA nodes with the least load.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeId;

use super::amounts::MILLI;
use super::cpu_topology::KoordinatorTopology;

/// Rounds in a row with room for another core before best-effort pods get one.
pub const ROUNDS_BEFORE_GROWTH: u32 = 3;
/// The part of the node's CPUs, in percent, by which best-effort pods grow per round.
const GROWTH_PERCENT: usize = 10;

/// What was measured in one round.
#[derive(Clone, Copy, Debug)]
pub struct SuppressionLoad<'a> {
    /// The best-effort pool.
    pub pool: &'a CpuSet,
    /// The CPUs of the pool that LSR pods hold.
    pub lent: &'a CpuSet,
    /// The CPU time that everything but best-effort pods used, in milli-CPUs.
    pub used_by_others: i64,
    /// The same by NUMA node. One that is missing has no load.
    pub used_by_node: &'a BTreeMap<NodeId, i64>,
}

/// The CPUs of best-effort pods, and what the next round needs of the last ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppression {
    cpus: Option<CpuSet>,
    rounds_with_room: u32,
}

/// A core of the pool.
struct Core {
    cpus: CpuSet,
    is_kept: bool,
    is_lent: bool,
    load: i64,
}

impl Suppression {
    /// The CPUs of the last round; `None` before the first one.
    #[must_use]
    pub fn cpus(&self) -> Option<&CpuSet> {
        self.cpus.as_ref()
    }

    /// The CPUs that best-effort pods may use from now on. `threshold` is a percentage of the node's CPUs.
    pub fn step(
        &mut self,
        topology: &KoordinatorTopology,
        threshold: u32,
        load: &SuppressionLoad<'_>,
    ) -> CpuSet {
        let allowed = allowed(topology, threshold, load.used_by_others);
        let most = (topology.all().len() * GROWTH_PERCENT).div_ceil(100);
        let (count, may_grow) = match &self.cpus {
            None => (allowed, true),
            Some(cpus) => {
                let has = cpus.common_len(load.pool);
                let core = smallest_core(topology, &(load.pool - cpus));
                let has_room = core.is_some_and(|core| allowed >= has + core);
                self.rounds_with_room = match has_room {
                    true => self.rounds_with_room.saturating_add(1),
                    false => 0,
                };
                match has_room && self.rounds_with_room >= ROUNDS_BEFORE_GROWTH {
                    true => (allowed.min(has + most.max(core.unwrap_or(0))), true),
                    false => (allowed.min(has), false),
                }
            }
        };
        let cpus = choose(topology, self.cpus.as_ref(), load, count, may_grow);
        self.cpus = Some(cpus.clone());
        cpus
    }
}

/// The number of CPUs that best-effort pods may use on a node without other load, before the limits of the pool.
#[must_use]
pub fn allowed(topology: &KoordinatorTopology, threshold: u32, used_by_others: i64) -> usize {
    let cpus = i64::try_from(topology.all().len()).unwrap_or(i64::MAX / MILLI);
    let share = cpus.saturating_mul(MILLI).saturating_mul(threshold.into()) / 100;
    let left = share.saturating_sub(used_by_others.max(0)) / MILLI;
    usize::try_from(left).unwrap_or(0)
}

/// The size of the smallest core among these CPUs.
fn smallest_core(topology: &KoordinatorTopology, cpus: &CpuSet) -> Option<usize> {
    let cores = topology.cores.iter();
    let sizes = cores.map(|core| core.cpus.iter().filter(|cpu| cpus.contains(**cpu)).count());
    sizes.filter(|size| *size > 0).min()
}

/// Whole cores of the pool with `count` CPUs at most, but one core at least. Unless it `may_grow`, only cores of the last
/// round, if the pool still has one.
fn choose(
    topology: &KoordinatorTopology,
    last: Option<&CpuSet>,
    load: &SuppressionLoad<'_>,
    count: usize,
    may_grow: bool,
) -> CpuSet {
    let mut cores: Vec<Core> = Vec::new();
    for core in &topology.cores {
        let cpus: CpuSet = core.cpus.iter().copied().collect();
        let cpus = &cpus & load.pool;
        let Some(node) = core.cpus.first().and_then(|cpu| topology.place(*cpu)) else {
            continue;
        };
        let node = topology.nodes.get(usize::from(node.node));
        let node = node.and_then(|node| NodeId::new(node.id).ok());
        if !cpus.is_empty() {
            cores.push(Core {
                is_kept: last.is_some_and(|last| cpus.is_subset(last)),
                is_lent: !cpus.is_disjoint(load.lent),
                load: node.map_or(0, |node| load.used_by_node.get(&node).copied().unwrap_or(0)),
                cpus,
            });
        }
    }
    if !may_grow && cores.iter().any(|core| core.is_kept) {
        cores.retain(|core| core.is_kept);
    }
    // The order of cores decides between equal ones: the sort is stable.
    cores.sort_by_key(|core| (!core.is_kept, core.is_lent, core.load));
    let mut chosen = CpuSet::new();
    for core in cores {
        if chosen.is_empty() || chosen.len() + core.cpus.len() <= count {
            chosen |= &core.cpus;
        }
    }
    chosen
}

#[cfg(test)]
mod tests;
