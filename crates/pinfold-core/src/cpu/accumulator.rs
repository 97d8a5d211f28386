//! [`CpuAccumulator`]: collects CPUs, the largest whole groups first. Mirrors `cpuAccumulator`.
//!
//! Groups of one kind are always sorted by the fewest available CPUs, then by the lower ID, so that partly used groups
//! are used up first. Groups are visited in one of two orders:
//!
//! ```text
//! fewer sockets than NUMA nodes:   socket ─► NUMA node ─► core ─► CPU
//! otherwise:                       NUMA node ─► socket ─► core ─► CPU
//! ```
//!
//! The order of a step is fixed when the step begins; the CPUs that the step takes do not change it.

use smallvec::SmallVec;

use super::take::CpuSortingStrategy;
use crate::cpu_set::{CpuId, CpuSet};
use crate::fidelity::Fidelity;
use crate::machine::cpu_levels::{Child, CoreChild};
use crate::machine::cpus::{CpuGroup, CpuTopology};

/// Indexes of groups in the order in which they are visited. A group with two parents is there twice.
pub(super) type Visits = SmallVec<[usize; 16]>;

/// Cores as (available CPUs, index), in the order in which they are visited.
type CoreVisits = SmallVec<[(usize, usize); 64]>;

pub(super) struct CpuAccumulator<'a> {
    pub(super) topology: &'a CpuTopology,
    /// The CPUs that can still be taken.
    pub(super) free: CpuSet,
    pub(super) taken: CpuSet,
    wanted: usize,
    /// The number of CPUs counted as taken. With the kubelet's defects this can be more than were taken.
    counted: usize,
    order: CpuSortingStrategy,
    fidelity: Fidelity,
}

impl<'a> CpuAccumulator<'a> {
    pub(super) fn new(
        topology: &'a CpuTopology,
        available: &CpuSet,
        wanted: usize,
        order: CpuSortingStrategy,
        fidelity: Fidelity,
    ) -> Self {
        Self {
            topology,
            free: available & topology.all(),
            taken: CpuSet::new(),
            wanted,
            counted: 0,
            order,
            fidelity,
        }
    }

    pub(super) fn needed(&self) -> usize {
        self.wanted.saturating_sub(self.counted)
    }

    pub(super) fn surplus(&self) -> usize {
        self.counted.saturating_sub(self.wanted)
    }

    pub(super) fn is_satisfied(&self) -> bool {
        self.counted >= self.wanted
    }

    pub(super) fn is_impossible(&self) -> bool {
        self.needed() > self.free.len()
    }

    pub(super) fn take(&mut self, cpus: &CpuSet) {
        self.taken |= cpus;
        self.free -= cpus;
        self.counted += cpus.len();
    }

    /// Whole groups of the upper kind, then of the lower kind. Mirrors `takeFullFirstLevel` and
    /// `takeFullSecondLevel`.
    pub(super) fn take_whole_sockets_and_nodes(&mut self) {
        match self.sockets_come_first() {
            true => {
                self.take_whole_sockets();
                if !self.is_satisfied() {
                    self.take_whole_nodes();
                }
            }
            false => {
                self.take_whole_nodes();
                if !self.is_satisfied() {
                    self.take_whole_sockets();
                }
            }
        }
    }

    /// Mirrors `takeFullNUMANodes`.
    fn take_whole_nodes(&mut self) {
        let topology = self.topology;
        if self.needed() < topology.levels().smallest_node {
            return;
        }
        let (order, begin) = (self.nodes(), self.free.clone());
        for at in order {
            let group = &topology.nodes()[at];
            self.take_whole(group, begin.common_len(&group.cpus) == group.cpus.len());
        }
    }

    /// Mirrors `takeFullSockets`.
    fn take_whole_sockets(&mut self) {
        let topology = self.topology;
        if self.needed() < topology.levels().smallest_socket {
            return;
        }
        let (order, begin) = (self.sockets(), self.free.clone());
        for at in order {
            let group = &topology.sockets()[at];
            let size = match self.fidelity.takes_unavailable_siblings() {
                true => topology.cpus_per_socket(),
                false => group.cpus.len(),
            };
            self.take_whole(group, begin.common_len(&group.cpus) == size);
        }
    }

    /// Mirrors `takeFullUncore`.
    pub(super) fn take_whole_caches(&mut self) {
        let topology = self.topology;
        let (order, begin) = (self.caches(), self.free.clone());
        for at in order {
            let group = &topology.caches()[at];
            self.take_whole(group, begin.common_len(&group.cpus) == group.cpus.len());
        }
    }

    fn take_whole<Id>(&mut self, group: &CpuGroup<Id>, was_free: bool) {
        let again = !self.fidelity.counts_repeated_groups() && !group.cpus.is_subset(&self.free);
        if was_free && !again && self.needed() >= group.cpus.len() {
            self.take(&group.cpus);
        }
    }

    /// Mirrors `takeFullCores`.
    pub(super) fn take_whole_cores(&mut self) {
        let topology = self.topology;
        if self.needed() < topology.levels().smallest_core {
            return;
        }
        let begin = self.free.clone();
        let mean = self
            .fidelity
            .takes_unavailable_siblings()
            .then(|| topology.cpus_per_core());
        for parent in self.parents_of_cores() {
            let whole = |available: usize, size: usize| available == mean.unwrap_or(size);
            for (_, at) in self.cores(parent, &begin, whole) {
                self.take_whole(&topology.cores()[at], true);
                if self.is_satisfied() {
                    return;
                }
            }
        }
    }

    /// Mirrors `takeRemainingCPUs`.
    pub(super) fn take_single_cpus(&mut self) {
        let topology = self.topology;
        let begin = self.free.clone();
        match self.order {
            CpuSortingStrategy::Packed => {
                for parent in self.parents_of_cores() {
                    for (_, at) in self.cores(parent, &begin, |_, _| true) {
                        let threads = &topology.levels().threads_of_core[at];
                        for &cpu in threads.iter().filter(|&&cpu| begin.contains(cpu)) {
                            self.take_single(cpu);
                            if self.is_satisfied() {
                                return;
                            }
                        }
                    }
                }
            }
            CpuSortingStrategy::Spread => {
                for at in self.sockets() {
                    for cpu in &(&topology.sockets()[at].cpus & &begin) {
                        self.take_single(cpu);
                        if self.is_satisfied() {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn take_single(&mut self, cpu: CpuId) {
        if self.free.remove(cpu) || self.fidelity.counts_repeated_groups() {
            self.taken.insert(cpu);
            self.counted += 1;
        }
    }

    /// Mirrors the choice between `numaFirst` and `socketsFirst`.
    fn sockets_come_first(&self) -> bool {
        self.topology.num_sockets() < self.topology.num_nodes()
    }

    /// Sockets with an available CPU. Mirrors `sortAvailableSockets`.
    fn sockets(&self) -> Visits {
        let (sockets, levels) = (self.topology.sockets(), self.topology.levels());
        if self.sockets_come_first() {
            return self.fewest_available_first(sockets, 0..sockets.len());
        }
        let inside = |node: usize| self.inside(sockets, &levels.sockets_in_node[node]);
        self.nodes().into_iter().flat_map(inside).collect()
    }

    /// NUMA nodes with an available CPU. Mirrors `sortAvailableNUMANodes`.
    pub(super) fn nodes(&self) -> Visits {
        let (nodes, levels) = (self.topology.nodes(), self.topology.levels());
        if !self.sockets_come_first() {
            return self.fewest_available_first(nodes, 0..nodes.len());
        }
        let inside = |socket: usize| self.inside(nodes, &levels.nodes_in_socket[socket]);
        self.sockets().into_iter().flat_map(inside).collect()
    }

    /// Caches with an available CPU, NUMA node by NUMA node. Mirrors `sortAvailableUncoreCaches`.
    pub(super) fn caches(&self) -> Visits {
        let (caches, levels) = (self.topology.caches(), self.topology.levels());
        let inside = |node: usize| self.inside(caches, &levels.caches_in_node[node]);
        self.nodes().into_iter().flat_map(inside).collect()
    }

    /// The groups of one parent that have an available CPU in it.
    fn inside<Id>(&self, groups: &[CpuGroup<Id>], children: &[Child]) -> Visits {
        let open = children
            .iter()
            .filter(|child| !child.shared.is_disjoint(&self.free));
        self.fewest_available_first(groups, open.map(|child| child.at))
    }

    /// Groups with an available CPU, by the number of available CPUs, then by ID. Mirrors `cpuAccumulator.sort`.
    fn fewest_available_first<Id>(
        &self,
        groups: &[CpuGroup<Id>],
        positions: impl Iterator<Item = usize>,
    ) -> Visits {
        let counted = positions.map(|at| (self.free.common_len(&groups[at].cpus), at));
        let mut rows: SmallVec<[(usize, usize); 16]> =
            counted.filter(|&(available, _)| available > 0).collect();
        rows.sort_unstable();
        rows.into_iter().map(|(_, at)| at).collect()
    }

    /// The cores of each group one level above them: NUMA nodes or sockets, whichever is lower.
    fn parents_of_cores(&self) -> SmallVec<[&'a [CoreChild]; 16]> {
        let levels = self.topology.levels();
        match self.sockets_come_first() {
            true => {
                let cores = |node: usize| levels.cores_in_node[node].as_slice();
                self.nodes().into_iter().map(cores).collect()
            }
            false => {
                let cores = |socket: usize| levels.cores_in_socket[socket].as_slice();
                self.sockets().into_iter().map(cores).collect()
            }
        }
    }

    /// The cores of one parent with available CPUs, sorted by the number of available CPUs and the total number if
    /// `wanted`. One parent's part of `sortAvailableCores`.
    fn cores(
        &self,
        children: &[CoreChild],
        free: &CpuSet,
        wanted: impl Fn(usize, usize) -> bool,
    ) -> CoreVisits {
        let threads_of_core = &self.topology.levels().threads_of_core;
        let mut rows = CoreVisits::new();
        for child in children {
            let threads = &threads_of_core[child.at];
            let available = free.count_of(threads);
            if available == 0 || !wanted(available, threads.len()) {
                continue;
            }
            let is_here = child.threads.len() == threads.len() || free.count_of(&child.threads) > 0;
            if is_here {
                rows.push((available, child.at));
            }
        }
        rows.sort_unstable();
        rows
    }
}
