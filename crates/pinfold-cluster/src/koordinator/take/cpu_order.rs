//! The order in which free CPUs are taken, and the CPUs that exclusive pods make unavailable.

use crate::koordinator::KoordinatorDefects;
use std::cmp::Reverse;

use smallvec::SmallVec;

use super::accumulator::KoordinatorAccumulator;
use crate::koordinator::cpu_topology::{CpuPosition, WholeCore};
use crate::koordinator::policy_values::{ExclusiveLevel, NumaStrategy};
use pinfold_core::cpu_set::{CpuId, CpuSet};

/// CPUs in the order in which they are taken.
pub(super) type CpuSequence = SmallVec<[CpuId; 64]>;

impl KoordinatorAccumulator<'_> {
    /// The CPUs of whole free cores of the NUMA node that the strategy uses first among those with enough, as many as
    /// needed.
    pub(super) fn cores_of_one_node(&self, pool: &CpuSet) -> Option<CpuSequence> {
        let cores = self.whole_cores(pool);
        let sockets = self.count_sockets(pool);
        let mut in_node: SmallVec<[usize; 8]> = SmallVec::from_elem(0, self.topology.nodes.len());
        // A NUMA node belongs to the socket of its first core.
        let mut socket_of = in_node.clone();
        for WholeCore { place, cpus } in &cores {
            let count = &mut in_node[usize::from(place.node)];
            if *count == 0 {
                socket_of[usize::from(place.node)] = usize::from(place.socket);
            }
            *count += usize::from(*cpus);
        }
        let sign = self.sign();
        let node = (0..in_node.len())
            .filter(|&node| in_node[node] >= self.needed)
            .min_by_key(|&node| {
                (
                    sign * signed(in_node[node]),
                    sign * signed(sockets[socket_of[node]]),
                    node,
                )
            })?;
        let order = self.order_of_cores(pool, &cores, |place| usize::from(place.node) == node);
        Some(order.take(self.needed).collect())
    }

    /// The CPUs of the whole free cores of every socket that has some.
    pub(super) fn whole_cores_by_socket(&self) -> Vec<(usize, CpuSequence)> {
        let cores = self.whole_cores(&self.allocatable);
        (0..self.topology.sockets.len())
            .map(|socket| {
                let inside = move |place: CpuPosition| usize::from(place.socket) == socket;
                let order = self.order_of_cores(&self.allocatable, &cores, inside);
                (socket, order.collect())
            })
            .filter(|(_, order): &(usize, CpuSequence)| !order.is_empty())
            .collect()
    }

    /// All free CPUs, core after core: near the taken CPUs first, then by the strategy, then partly used cores first.
    pub(super) fn order_anywhere(&self, level: ExclusiveLevel) -> CpuSequence {
        let pool = &self.allocatable - &self.avoided(level);
        let cores = self.topology.count_cores(&pool);
        let sockets = self.count_sockets(&pool);
        let nodes: SmallVec<[usize; 8]> = self
            .topology
            .nodes
            .iter()
            .map(|node| pool.common_len(&node.cpus))
            .collect();
        let taken: SmallVec<[usize; 8]> = self
            .topology
            .sockets
            .iter()
            .map(|socket| self.taken.common_len(&socket.cpus))
            .collect();
        let sign = self.sign();
        let mut sorted: SmallVec<[_; 64]> = SmallVec::new();
        for (core, count) in cores.iter().enumerate() {
            let place = count.first.and_then(|cpu| self.topology.place(cpu));
            if let Some(place) = place {
                let (node, socket) = (usize::from(place.node), usize::from(place.socket));
                sorted.push((
                    Reverse(taken[socket]),
                    sign * signed(sockets[socket]),
                    sign * signed(nodes[node]),
                    count.free,
                    socket,
                    self.refs_of_core(core),
                    core,
                ));
            }
        }
        sorted.sort_unstable();
        let mut order = CpuSequence::new();
        for (.., core) in sorted {
            let start = order.len();
            order.extend(self.cpus_of_core(core, &pool));
            self.sort_by_refs(&mut order[start..]);
        }
        order
    }

    /// The CPUs of whole free cores inside a group, in the order in which they are taken.
    fn order_of_cores<'s>(
        &'s self,
        pool: &'s CpuSet,
        cores: &'s [WholeCore],
        inside: impl Fn(CpuPosition) -> bool + 's,
    ) -> impl Iterator<Item = CpuId> + 's {
        let cores = cores.iter().filter(move |core| inside(core.place));
        cores.flat_map(|core| self.cpus_of_core(usize::from(core.place.core), pool))
    }

    /// The cores of `pool` that count as whole and free, in the order in which they are taken.
    fn whole_cores(&self, pool: &CpuSet) -> SmallVec<[WholeCore; 64]> {
        let mut cores = self.topology.whole_cores(pool, self.take.fidelity);
        if self.take.max_refs > 1 || !self.topology.is_even() {
            cores.sort_by_key(|core| {
                let refs = self.refs_of_core(usize::from(core.place.core));
                (Reverse(core.cpus), refs, core.place.core)
            });
        }
        cores
    }

    fn cpus_of_core<'s>(
        &'s self,
        core: usize,
        pool: &'s CpuSet,
    ) -> impl Iterator<Item = CpuId> + 's {
        let cpus = self.topology.cores[core].cpus.iter().copied();
        cpus.filter(|&cpu| pool.contains(cpu))
    }

    /// The CPUs of `pool`, ascending by number of holders, then by id.
    pub(super) fn order_of(&self, pool: &CpuSet, one_per_core: bool) -> CpuSequence {
        let mut order: CpuSequence = pool.iter().collect();
        self.sort_by_refs(&mut order);
        if one_per_core {
            self.keep_one_per_core(&mut order);
        }
        order
    }

    pub(super) fn keep_one_per_core(&self, order: &mut CpuSequence) {
        let mut seen = vec![false; self.topology.cores.len()];
        order.retain(|cpu| !std::mem::replace(&mut seen[self.core_of(*cpu)], true));
    }

    /// Reorders CPUs: first one of each core, then a second of each, and so on.
    pub(super) fn spread(&self, order: CpuSequence) -> CpuSequence {
        if order.len() <= self.topology.cpus_per_core()
            && self.take.fidelity.packs_siblings_when_spreading()
        {
            return order;
        }
        let mut seen = vec![0_u16; self.topology.cores.len()];
        let mut rounds: SmallVec<[(u16, CpuId); 64]> = SmallVec::with_capacity(order.len());
        for cpu in order {
            let round = &mut seen[self.core_of(cpu)];
            rounds.push((*round, cpu));
            *round += 1;
        }
        rounds.sort_by_key(|(round, _)| *round);
        rounds.into_iter().map(|(_, cpu)| cpu).collect()
    }

    /// The CPUs to avoid: those that share a core or NUMA node with CPUs of an exclusive pod, or with the CPUs just
    /// taken.
    pub(super) fn avoided(&self, level: ExclusiveLevel) -> CpuSet {
        let mut avoided = CpuSet::new();
        if level == ExclusiveLevel::Nothing {
            return avoided;
        }
        let topology = self.topology;
        let mut avoid = |core: Option<usize>, node: Option<usize>| match (level, core, node) {
            (ExclusiveLevel::Core, Some(core), _) => {
                avoided.extend(topology.cores[core].cpus.iter().copied());
            }
            (ExclusiveLevel::NumaNode, _, Some(node)) => avoided |= &topology.nodes[node].cpus,
            _ => {}
        };
        for (_, held) in self.take.held.iter() {
            // A pod that falls back from exclusive NUMA nodes to exclusive cores also avoids the cores of pods like it.
            let counts = held.exclusive == level || held.exclusive == self.take.exclusive;
            if let Some(place) = held
                .place
                .filter(|_| counts && held.exclusive != ExclusiveLevel::Nothing)
            {
                avoid(topology.core_at(place.core), topology.node_at(place.node));
            }
        }
        if level == self.take.exclusive {
            for place in self.taken.iter().filter_map(|cpu| topology.place(cpu)) {
                avoid(Some(usize::from(place.core)), Some(usize::from(place.node)));
            }
        }
        avoided
    }

    pub(super) fn count_sockets(&self, pool: &CpuSet) -> SmallVec<[usize; 8]> {
        let sockets = self.topology.sockets.iter();
        sockets
            .map(|socket| pool.common_len(&socket.cpus))
            .collect()
    }

    pub(super) fn core_of(&self, cpu: CpuId) -> usize {
        self.topology
            .place(cpu)
            .map_or(0, |place| usize::from(place.core))
    }

    /// The number of holders of the free CPUs of a core; 0 if CPUs are never shared.
    fn refs_of_core(&self, core: usize) -> u64 {
        if self.take.max_refs <= 1 {
            return 0;
        }
        let cpus = self.cpus_of_core(core, &self.allocatable);
        cpus.map(|cpu| u64::from(self.refs(cpu))).sum()
    }

    fn refs(&self, cpu: CpuId) -> u32 {
        self.take.held.get(cpu).map_or(0, |held| held.refs)
    }

    fn sort_by_refs(&self, order: &mut [CpuId]) {
        if self.take.max_refs > 1 {
            order.sort_by_key(|&cpu| (self.refs(cpu), cpu));
        }
    }

    /// The sign of free counts in sort keys: -1 if the strategy uses the emptiest first.
    pub(super) fn sign(&self) -> i64 {
        match self.take.strategy {
            NumaStrategy::MostAllocated => 1,
            NumaStrategy::LeastAllocated | NumaStrategy::DistributeEvenly => -1,
        }
    }
}

/// A count that can be multiplied by [`KoordinatorAccumulator::sign`].
pub(super) fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
