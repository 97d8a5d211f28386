//! One run of taking CPUs: what is still free, what is taken, and the steps in their order.

use std::cmp::Reverse;

use super::cpu_order::{CpuOrder, signed};
use super::{KoordinatorTakeError, TakeRequest};
use crate::cpu_set::{CpuId, CpuSet};
use crate::koordinator::cpu_topology::KoordinatorTopology;
use crate::koordinator::policy_values::{CpuBinding, ExclusiveLevel};

pub(super) struct KoordinatorAccumulator<'a> {
    pub(super) take: &'a TakeRequest<'a>,
    pub(super) topology: &'a KoordinatorTopology,
    /// What is still free.
    pub(super) allocatable: CpuSet,
    /// How many are still missing.
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

    /// Step 1: whole free cores.
    fn take_whole_cores(&mut self) -> bool {
        if self.needed <= self.topology.cpus_per_node() {
            // A core in use is not whole, so the original minds exclusive NUMA nodes only.
            let minds_cores = !self.take.fidelity.drops_numa_exclusivity();
            for attempt in self.take.attempts() {
                if attempt == ExclusiveLevel::Core && !minds_cores {
                    continue;
                }
                let pool = &self.allocatable - &self.avoided(attempt);
                if let Some(line) = self.cores_of_one_node(&pool) {
                    return self.take_first(&line);
                }
                if attempt == ExclusiveLevel::Nothing {
                    break;
                }
            }
        }
        let by_socket = self.whole_cores_by_socket();
        if self.needed <= self.topology.cpus_per_socket() {
            let sign = self.sign();
            let fits = by_socket
                .iter()
                .filter(|(_, line)| line.len() >= self.needed);
            let chosen = fits.min_by_key(|(socket, line)| (sign * signed(line.len()), *socket));
            if let Some((_, line)) = chosen {
                return self.take_first(line);
            }
        }
        self.take_sockets(by_socket)
    }

    /// Whole sockets from the emptiest on, then core by core from the fullest of the rest.
    fn take_sockets(&mut self, mut by_socket: Vec<(usize, CpuOrder)>) -> bool {
        by_socket.sort_by_key(|(socket, line)| (Reverse(line.len()), *socket));
        let mut too_large = Vec::new();
        for (_, line) in by_socket {
            if self.needed < line.len() {
                too_large.push(line);
                continue;
            }
            self.take_all(&line);
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

    fn take_core_by_core(&mut self, mut lines: Vec<CpuOrder>) -> bool {
        let size = self.topology.cpus_per_core();
        if size == 0 || self.needed < size {
            return false;
        }
        lines.sort_by_key(CpuOrder::len);
        for line in lines {
            for core in line.chunks(size) {
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

    /// The same, but never more than needed: a core that is too large stays whole.
    fn take_fitting_cores(&mut self, mut lines: Vec<CpuOrder>) -> bool {
        lines.sort_by_key(CpuOrder::len);
        for line in lines {
            let mut rest = line.as_slice();
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

    /// Step 2: CPUs of one NUMA node, else of one socket.
    fn take_from_one_group(&mut self) -> bool {
        let attempts = self.take.attempts();
        if !self.take.fidelity.packs_siblings_when_spreading() {
            return attempts.into_iter().any(|attempt| {
                self.take_from_node(attempt, true)
                    || self.take_from_socket(attempt, true)
                    || self.take_one_of_each_core(attempt)
            });
        }
        // The original keeps to one CPU per core only while it also respects exclusivity.
        let last = attempts.len() - 1;
        let tries = || {
            attempts
                .iter()
                .enumerate()
                .map(|(at, attempt)| (*attempt, at < last))
        };
        tries().any(|(attempt, one_per_core)| self.take_from_node(attempt, one_per_core))
            || tries().any(|(attempt, one_per_core)| self.take_from_socket(attempt, one_per_core))
    }

    fn take_from_node(&mut self, attempt: ExclusiveLevel, one_per_core: bool) -> bool {
        if self.needed > self.topology.cpus_per_node() {
            return false;
        }
        let pool = &self.allocatable - &self.avoided(attempt);
        let sockets = self.count_sockets(&pool);
        let sign = self.sign();
        let mut best = None;
        for (node, group) in self.topology.nodes.iter().enumerate() {
            let free = pool.common_len(&group.cpus);
            if free < self.needed {
                continue;
            }
            let line = self.line_of(&(&pool & &group.cpus), one_per_core);
            let first = line.first().and_then(|&cpu| self.topology.place(cpu));
            let Some(first) = first.filter(|_| line.len() >= self.needed) else {
                continue;
            };
            let in_socket = sockets[usize::from(first.socket)];
            let key = (sign * signed(free), sign * signed(in_socket), node);
            if best.as_ref().is_none_or(|(other, _)| key < *other) {
                best = Some((key, line));
            }
        }
        best.is_some_and(|(_, line)| self.take_spread(line))
    }

    fn take_from_socket(&mut self, attempt: ExclusiveLevel, one_per_core: bool) -> bool {
        if self.needed > self.topology.cpus_per_socket() {
            return false;
        }
        // The original does not mind exclusive NUMA nodes here.
        let minds_nodes = !self.take.fidelity.drops_numa_exclusivity();
        let pool = match attempt {
            ExclusiveLevel::NumaNode if !minds_nodes => self.allocatable.clone(),
            _ => &self.allocatable - &self.avoided(attempt),
        };
        let sign = self.sign();
        let mut best = None;
        for (socket, group) in self.topology.sockets.iter().enumerate() {
            if pool.common_len(&group.cpus) < self.needed {
                continue;
            }
            let line = self.line_of(&(&pool & &group.cpus), one_per_core);
            let key = (sign * signed(line.len()), socket);
            if line.len() >= self.needed && best.as_ref().is_none_or(|(other, _)| key < *other) {
                best = Some((key, line));
            }
        }
        best.is_some_and(|(_, line)| self.take_spread(line))
    }

    /// One CPU of each core anywhere, if there are cores enough.
    fn take_one_of_each_core(&mut self, attempt: ExclusiveLevel) -> bool {
        let mut line = self.line_anywhere(attempt);
        self.keep_one_per_core(&mut line);
        line.len() >= self.needed && self.take_first(&line)
    }

    /// Step 3: what is still missing, wherever it is.
    fn take_one_by_one(&mut self) -> bool {
        for attempt in self.take.attempts() {
            let line = self.line_anywhere(attempt);
            let line = self.spread(line);
            let some = line.len().min(self.needed);
            self.take_all(&line[..some]);
            if self.needed == 0 {
                return true;
            }
        }
        false
    }

    fn take_spread(&mut self, line: CpuOrder) -> bool {
        let line = self.spread(line);
        self.take_first(&line)
    }

    fn take_first(&mut self, line: &[CpuId]) -> bool {
        let some = line.len().min(self.needed);
        self.take_all(&line[..some]);
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
