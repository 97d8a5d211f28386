//! [`KoordinatorAccumulator`]: the steps that take CPUs, with the CPUs still free and the CPUs taken.

use crate::koordinator::KoordinatorDefects;
use std::cmp::Reverse;

use super::cpu_order::{CpuSequence, signed};
use super::{KoordinatorTakeError, TakeRequest};
use crate::koordinator::cpu_topology::KoordinatorTopology;
use crate::koordinator::policy_values::{CpuBinding, ExclusiveLevel};
use pinfold_core::cpu_set::{CpuId, CpuSet};

/// The state while CPUs are taken.
pub(super) struct KoordinatorAccumulator<'a> {
    pub(super) take: &'a TakeRequest<'a>,
    pub(super) topology: &'a KoordinatorTopology,
    /// The CPUs that are still free.
    pub(super) allocatable: CpuSet,
    /// The number of CPUs still missing.
    pub(super) needed: usize,
    pub(super) taken: CpuSet,
}

impl<'a> KoordinatorAccumulator<'a> {
    pub(super) fn new(take: &'a TakeRequest<'a>, allocatable: CpuSet, needed: usize) -> Self {
        Self {
            take,
            topology: take.topology,
            allocatable,
            needed,
            taken: CpuSet::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<CpuSet, KoordinatorTakeError> {
        let packs = self.take.binding == CpuBinding::FullPcpus;
        let done = (packs || self.topology.cpus_per_core() == 1) && self.take_whole_cores()
            || !packs && self.take_from_one_group()
            || self.take_one_by_one();
        match done {
            true => Ok(self.taken),
            false => Err(KoordinatorTakeError::Failed),
        }
    }

    /// Step 1: takes whole free cores.
    fn take_whole_cores(&mut self) -> bool {
        if self.needed <= self.topology.cpus_per_node() {
            // A core in use is not whole, so Koordinator avoids exclusive NUMA nodes only.
            let avoids_cores = !self.take.fidelity.drops_numa_exclusivity();
            for level in self.take.exclusive_levels() {
                if level == ExclusiveLevel::Core && !avoids_cores {
                    continue;
                }
                let pool = &self.allocatable - &self.avoided(level);
                if let Some(order) = self.cores_of_one_node(&pool) {
                    return self.take_first(&order);
                }
                if level == ExclusiveLevel::Nothing {
                    break;
                }
            }
        }
        let by_socket = self.whole_cores_by_socket();
        if self.needed <= self.topology.cpus_per_socket() {
            let sign = self.sign();
            let fits = by_socket
                .iter()
                .filter(|(_, order)| order.len() >= self.needed);
            let chosen = fits.min_by_key(|(socket, order)| (sign * signed(order.len()), *socket));
            if let Some((_, order)) = chosen {
                return self.take_first(order);
            }
        }
        self.take_sockets(by_socket)
    }

    /// Takes whole sockets from the emptiest on, then core by core from the fullest of the rest.
    fn take_sockets(&mut self, mut by_socket: Vec<(usize, CpuSequence)>) -> bool {
        by_socket.sort_by_key(|(socket, order)| (Reverse(order.len()), *socket));
        let mut too_large = Vec::new();
        for (_, order) in by_socket {
            if self.needed < order.len() {
                too_large.push(order);
                continue;
            }
            self.take_all(&order);
            if self.needed == 0 {
                return true;
            }
        }
        if self.take.fidelity.overshoots_by_a_core() {
            self.take_core_by_core(too_large)
        } else {
            self.take_fitting_cores(too_large)
        }
    }

    fn take_core_by_core(&mut self, mut orders: Vec<CpuSequence>) -> bool {
        let size = self.topology.cpus_per_core();
        if size == 0 || self.needed < size {
            return false;
        }
        orders.sort_by_key(CpuSequence::len);
        for order in orders {
            for core in order.chunks(size) {
                self.take_all(core);
                if self.needed == 0 {
                    return true;
                }
                if self.needed < size {
                    break;
                }
            }
        }
        false
    }

    /// The same, but never more than needed: a core that is too large is skipped.
    fn take_fitting_cores(&mut self, mut orders: Vec<CpuSequence>) -> bool {
        orders.sort_by_key(CpuSequence::len);
        for order in orders {
            let mut rest = order.as_slice();
            while let Some(&first) = rest.first() {
                let core = self.core_of(first);
                let size = rest
                    .iter()
                    .take_while(|&&cpu| self.core_of(cpu) == core)
                    .count();
                let (cpus, later) = rest.split_at(size);
                if size <= self.needed {
                    self.take_all(cpus);
                }
                if self.needed == 0 {
                    return true;
                }
                rest = later;
            }
        }
        false
    }

    /// Step 2: takes CPUs of one NUMA node, else of one socket.
    fn take_from_one_group(&mut self) -> bool {
        let levels = self.take.exclusive_levels();
        if !self.take.fidelity.packs_siblings_when_spreading() {
            return levels.into_iter().any(|level| {
                self.take_from_node(level, true)
                    || self.take_from_socket(level, true)
                    || self.take_one_of_each_core(level)
            });
        }
        // Koordinator takes one CPU per core only while it also respects exclusivity.
        let last = levels.len() - 1;
        let tries = || {
            levels
                .iter()
                .enumerate()
                .map(|(at, level)| (*level, at < last))
        };
        tries().any(|(level, one_per_core)| self.take_from_node(level, one_per_core))
            || tries().any(|(level, one_per_core)| self.take_from_socket(level, one_per_core))
    }

    fn take_from_node(&mut self, level: ExclusiveLevel, one_per_core: bool) -> bool {
        if self.needed > self.topology.cpus_per_node() {
            return false;
        }
        let pool = &self.allocatable - &self.avoided(level);
        let sockets = self.count_sockets(&pool);
        let sign = self.sign();
        let mut best = None;
        for (node, group) in self.topology.nodes.iter().enumerate() {
            let free = pool.common_len(&group.cpus);
            if free < self.needed {
                continue;
            }
            let order = self.order_of(&(&pool & &group.cpus), one_per_core);
            let first = order.first().and_then(|&cpu| self.topology.place(cpu));
            let Some(first) = first.filter(|_| order.len() >= self.needed) else {
                continue;
            };
            let in_socket = sockets[usize::from(first.socket)];
            let key = (sign * signed(free), sign * signed(in_socket), node);
            if best.as_ref().is_none_or(|(other, _)| key < *other) {
                best = Some((key, order));
            }
        }
        best.is_some_and(|(_, order)| self.take_spread(order))
    }

    fn take_from_socket(&mut self, level: ExclusiveLevel, one_per_core: bool) -> bool {
        if self.needed > self.topology.cpus_per_socket() {
            return false;
        }
        // Koordinator does not avoid exclusive NUMA nodes here.
        let avoids_nodes = !self.take.fidelity.drops_numa_exclusivity();
        let pool = match level {
            ExclusiveLevel::NumaNode if !avoids_nodes => self.allocatable.clone(),
            _ => &self.allocatable - &self.avoided(level),
        };
        let sign = self.sign();
        let mut best = None;
        for (socket, group) in self.topology.sockets.iter().enumerate() {
            if pool.common_len(&group.cpus) < self.needed {
                continue;
            }
            let order = self.order_of(&(&pool & &group.cpus), one_per_core);
            let key = (sign * signed(order.len()), socket);
            if order.len() >= self.needed && best.as_ref().is_none_or(|(other, _)| key < *other) {
                best = Some((key, order));
            }
        }
        best.is_some_and(|(_, order)| self.take_spread(order))
    }

    /// Takes one CPU of each core, anywhere, if there are enough cores.
    fn take_one_of_each_core(&mut self, level: ExclusiveLevel) -> bool {
        let mut order = self.order_anywhere(level);
        self.keep_one_per_core(&mut order);
        order.len() >= self.needed && self.take_first(&order)
    }

    /// Step 3: takes the missing CPUs anywhere.
    fn take_one_by_one(&mut self) -> bool {
        for level in self.take.exclusive_levels() {
            let order = self.order_anywhere(level);
            let order = self.spread(order);
            let some = order.len().min(self.needed);
            self.take_all(&order[..some]);
            if self.needed == 0 {
                return true;
            }
        }
        false
    }

    fn take_spread(&mut self, order: CpuSequence) -> bool {
        let order = self.spread(order);
        self.take_first(&order)
    }

    fn take_first(&mut self, order: &[CpuId]) -> bool {
        let some = order.len().min(self.needed);
        self.take_all(&order[..some]);
        self.needed == 0
    }

    fn take_all(&mut self, cpus: &[CpuId]) {
        for &cpu in cpus {
            self.allocatable.remove(cpu);
            self.taken.insert(cpu);
        }
        self.needed = self.needed.saturating_sub(cpus.len());
    }
}
