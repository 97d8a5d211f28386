//! Allocating: the NUMA resources and CPUs one pod gets on one node.
//!
//! Mirrors `resourceManager.Allocate`. With a hint, every requested resource is spread over the NUMA nodes of
//! the hint ([`distribute`](self)); then, if the pod binds CPUs, each NUMA node gives as many CPUs as its share. Without
//! a hint the CPUs come from the whole node. A *required* bind policy narrows both to the CPUs that could
//! satisfy it, and is checked again at the end.
//!
//! An [`Allocator`] looks at the node once and can then be asked about many hints ([`Allocator::fits`]),
//! which only counts, before one of them is allocated ([`Allocator::allocate`]).

use std::borrow::Cow;

use smallvec::SmallVec;

use super::amounts::{Amounts, MILLI, NodeAmounts};
use super::cpu_topology::KoordinatorTopology;
use super::held_cpus::HeldCpus;
use super::ledger::{Allocation, KoordinatorLedger};
use super::policy_values::{CpuBinding, ExclusiveLevel, NumaStrategy};
use super::rejection::{KoordinatorReason, KoordinatorRejection};
use super::take::{KoordinatorTakeError, TakeRequest};
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::node_set::{NodeId, NodeSet};

mod distribute;
mod numa_free;

use distribute::ResourceRow;
use numa_free::NumaFree;

/// A node as the allocator sees it.
#[derive(Clone, Copy, Debug)]
pub struct AllocationNode<'a> {
    /// Its CPUs, if it reports any.
    pub topology: Option<&'a KoordinatorTopology>,
    /// CPUs that are never handed out.
    pub reserved: &'a CpuSet,
    /// How many pods may share one CPU.
    pub max_refs: u32,
    /// What each NUMA node offers, amplified, without reserved CPUs. Ascending by id.
    pub zones: &'a [NodeAmounts],
    /// How much CPU is amplified.
    pub cpu_ratio: f64,
    /// Which NUMA node is taken first.
    pub strategy: NumaStrategy,
    /// Who holds what.
    pub ledger: &'a KoordinatorLedger,
}

/// What one pod asks of a node.
#[derive(Clone, Copy, Debug)]
pub struct AllocationRequest<'a> {
    /// How many CPUs it binds.
    pub cpus: usize,
    /// Whether it binds CPUs at all.
    pub bind: bool,
    /// Its requests, amplified where it binds CPUs.
    pub requests: &'a Amounts,
    /// Its requests as they are.
    pub plain_requests: &'a Amounts,
    /// How its CPUs are chosen; nothing for a policy that is not one.
    pub binding: Option<CpuBinding>,
    /// Whether that is a must.
    pub required: bool,
    /// What it would like to keep for itself.
    pub exclusive: ExclusiveLevel,
    /// CPUs it gets back and uses first.
    pub preferred: &'a CpuSet,
    /// CPUs it gets back.
    pub preemptible: &'a CpuSet,
    /// NUMA resources it gets back.
    pub reusable: &'a [NodeAmounts],
    /// The NUMA resources to use instead of what is free. Empty: what is free.
    pub offered: &'a [NodeAmounts],
}

/// One node and one pod, looked at once.
#[derive(Debug)]
pub struct Allocator<'a> {
    view: AllocationNode<'a>,
    ask: AllocationRequest<'a>,
    held: Cow<'a, HeldCpus>,
    /// The CPUs the pod may get.
    usable: CpuSet,
    /// What each NUMA node has left for the pod.
    left: SmallVec<[NumaFree<'a>; 8]>,
    rows: SmallVec<[ResourceRow<'a>; 4]>,
    /// Whether the pod fits wherever there is enough of everything.
    sums_decide: bool,
    fidelity: Fidelity,
}

impl<'a> Allocator<'a> {
    /// Looks at the node with the pod's eyes.
    #[must_use]
    pub fn new(view: AllocationNode<'a>, ask: AllocationRequest<'a>) -> Self {
        let fidelity = view.ledger.fidelity();
        let mut held = Cow::Borrowed(view.ledger.held());
        for returned in [ask.preferred, ask.preemptible] {
            for cpu in returned {
                held.to_mut().give_back(cpu);
            }
        }
        let mut allocator = Self {
            view,
            ask,
            held,
            usable: CpuSet::new(),
            left: SmallVec::new(),
            rows: SmallVec::new(),
            sums_decide: false,
            fidelity,
        };
        if let Some(topology) = view.topology {
            let exhausted = allocator.held.exhausted(view.max_refs);
            let available = &(topology.all() - &exhausted) - view.reserved;
            allocator.usable = allocator.satisfying(topology, &available);
            allocator.find_left(&available);
        } else {
            allocator.find_left(&CpuSet::new());
        }
        allocator.rows = distribute::rows(&allocator);
        allocator.sums_decide = allocator.sums_decide();
        allocator
    }

    /// What each NUMA node of the node offers.
    #[must_use]
    pub fn zones(&self) -> &'a [NodeAmounts] {
        self.view.zones
    }

    /// What each NUMA node has left for the pod.
    #[must_use]
    pub(super) fn left(&self) -> &[NumaFree<'a>] {
        &self.left
    }

    /// What the pod asks for.
    #[must_use]
    pub fn ask(&self) -> &AllocationRequest<'a> {
        &self.ask
    }

    /// Which of two answers this allocator gives.
    #[must_use]
    pub fn fidelity(&self) -> Fidelity {
        self.fidelity
    }

    /// Whether the node lacks the CPU topology that a required policy needs to count CPUs.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.ask.required
            && self
                .view
                .topology
                .is_some_and(|topology| !topology.is_valid())
    }

    /// What is left on each NUMA node, and no more CPU than there are CPUs for it. Mirrors `trimNUMANodeResources`.
    fn find_left(&mut self, available: &CpuSet) {
        let (view, ask) = (self.view, self.ask);
        self.left = match ask.offered.is_empty() {
            true => (view.zones.iter())
                .map(|zone| NumaFree::on(zone, &view, &ask))
                .collect(),
            false => ask.offered.iter().map(NumaFree::offered).collect(),
        };
        let counts_cpus = self.ask.required || self.ask.bind && !self.fidelity.trusts_numa_sums();
        let Some(topology) = self.view.topology.filter(|_| counts_cpus) else {
            return;
        };
        let shrinks = self.ask.bind && !self.fidelity.forgets_amplified_share();
        let mut parts = std::mem::take(&mut self.left);
        for NumaFree { node, cpu, .. } in &mut parts {
            let mut milli = match *cpu {
                None | Some(0) => continue,
                Some(milli) => milli,
            };
            if shrinks {
                milli = shrink(milli, self.view.cpu_ratio);
            }
            let cpus = topology.cpus_of_node(*node).map_or(0, |cpus| {
                // Where cores lie in one NUMA node each, a node's part of what is usable is usable.
                match topology.nests() {
                    true => self.usable.common_len(cpus),
                    false => self.satisfying(topology, &(available & cpus)).len(),
                }
            });
            milli = milli.min(whole(cpus));
            if shrinks {
                milli -= milli % whole(self.cpus_at_once(topology));
            }
            *cpu = Some(milli);
        }
        self.left = parts;
    }

    /// How many CPUs a NUMA node can give at the least: a whole core where that is required.
    fn cpus_at_once(&self, topology: &KoordinatorTopology) -> usize {
        match self.needs_whole_cores() && topology.is_even() {
            true => topology.cpus_per_core().max(1),
            false => 1,
        }
    }

    /// Those of `cpus` that a required bind policy can use. Mirrors `filterCPUsByRequiredCPUBindPolicy`.
    fn satisfying(&self, topology: &KoordinatorTopology, cpus: &CpuSet) -> CpuSet {
        let Some(binding) = self.ask.binding.filter(|_| self.ask.required) else {
            return cpus.clone();
        };
        match binding {
            CpuBinding::FullPcpus => topology.in_whole_cores(cpus, self.fidelity),
            CpuBinding::SpreadByPcpus => topology.one_of_each_core(cpus),
        }
    }

    /// Whether the pod could be placed on exactly these NUMA nodes. Gives the same answer as
    /// [`Allocator::allocate`] and, on all common machines, only counts.
    #[must_use]
    pub fn fits(&self, nodes: NodeSet) -> bool {
        let Some(topology) = self
            .view
            .topology
            .filter(|topology| self.can_count(topology))
        else {
            return self.allocate(Some(nodes)).is_ok();
        };
        if self.view.zones.is_empty() || self.is_blind() {
            return false;
        }
        if self.sums_decide {
            return self.suffice(nodes);
        }
        let mut shares = distribute::NumaShares::new();
        if !self.distribute(nodes, &mut shares) {
            return false;
        }
        if !self.ask.bind {
            return true;
        }
        if shares.is_empty() {
            return self.allocate(Some(nodes)).is_ok();
        }
        let mut cpus = 0;
        for (node, share) in self.cpu_shares(&shares) {
            let usable = topology
                .cpus_of_node(node)
                .map_or(0, |cpus| self.usable.common_len(cpus));
            let count = share.min(usable);
            let per_core = topology.cpus_per_core().max(1);
            if self.needs_whole_cores() && count % per_core != 0 {
                return false;
            }
            cpus += count;
        }
        self.usable.len() >= self.ask.cpus && cpus == self.ask.cpus
    }

    /// Whether taking CPUs on one NUMA node always gives exactly as many as were asked for.
    fn can_count(&self, topology: &KoordinatorTopology) -> bool {
        let same_cores = topology.is_even() || self.fidelity.measures_cores_by_average();
        topology.nests() && (same_cores || !self.needs_whole_cores())
    }

    fn needs_whole_cores(&self) -> bool {
        self.ask.required && self.ask.binding == Some(CpuBinding::FullPcpus)
    }

    /// The CPUs due on each NUMA node that gives anything.
    fn cpu_shares(&self, shares: &distribute::NumaShares) -> SmallVec<[(NodeId, usize); 8]> {
        let mut due: SmallVec<[(NodeId, usize); 8]> = SmallVec::new();
        for share in shares {
            let cpus = match self.rows[share.row].is_cpu() {
                true => usize::try_from(share.amount / MILLI).unwrap_or(0),
                false => 0,
            };
            match due.iter_mut().find(|(node, _)| *node == share.node) {
                Some((_, sum)) => *sum += cpus,
                None => due.push((share.node, cpus)),
            }
        }
        due.sort_unstable();
        due
    }

    /// Places the pod, on these NUMA nodes if there is a hint.
    ///
    /// # Errors
    /// With the reasons why it does not fit.
    pub fn allocate(&self, nodes: Option<NodeSet>) -> Result<Allocation, KoordinatorRejection> {
        let mut shares = distribute::NumaShares::new();
        if let Some(nodes) = nodes {
            self.check_numa()?;
            if !self.distribute(nodes, &mut shares) {
                return Err(self.shortage(nodes));
            }
        }
        let cpus = match self.ask.bind {
            true => self.take_cpus(&shares).map_err(KoordinatorRejection::now)?,
            false => CpuSet::new(),
        };
        Ok(Allocation {
            cpus,
            exclusive: self.ask.exclusive,
            numa: self.amounts_of(&shares),
        })
    }

    fn check_numa(&self) -> Result<(), KoordinatorRejection> {
        if self.view.zones.is_empty() {
            return Err(KoordinatorRejection::here(
                KoordinatorReason::NoNumaResources,
            ));
        }
        match self.is_blind() {
            true => Err(KoordinatorRejection::here(
                KoordinatorReason::InvalidTopology,
            )),
            false => Ok(()),
        }
    }

    /// Chooses the CPUs. Mirrors `allocateCPUSet`.
    fn take_cpus(&self, shares: &distribute::NumaShares) -> Result<CpuSet, KoordinatorReason> {
        let topology = self.view.topology.ok_or(KoordinatorReason::NotEnoughCpus)?;
        if !topology.is_valid() {
            return Err(KoordinatorReason::InvalidTopology);
        }
        if self.usable.len() < self.ask.cpus {
            return Err(KoordinatorReason::NotEnoughCpus);
        }
        let taken = if shares.is_empty() {
            self.take(topology, &self.usable, self.ask.cpus)?
        } else {
            let mut taken = CpuSet::new();
            for (node, share) in self.cpu_shares(shares) {
                let Some(cpus) = topology.cpus_of_node(node) else {
                    continue;
                };
                let usable = &self.usable & cpus;
                taken |= &self.take(topology, &usable, share.min(usable.len()))?;
            }
            if taken.len() != self.ask.cpus {
                return Err(KoordinatorReason::NotEnoughCpus);
            }
            taken
        };
        match self.ask.binding.filter(|_| self.ask.required) {
            Some(binding) if !self.satisfies(topology, binding, &taken) => {
                Err(KoordinatorReason::BindPolicyUnsatisfied(binding))
            }
            _ => Ok(taken),
        }
    }

    fn take(
        &self,
        topology: &KoordinatorTopology,
        available: &CpuSet,
        needed: usize,
    ) -> Result<CpuSet, KoordinatorReason> {
        let take = TakeRequest {
            topology,
            max_refs: self.view.max_refs,
            available,
            preferred: self.ask.preferred,
            held: &self.held,
            needed,
            binding: self.ask.binding.unwrap_or(CpuBinding::SpreadByPcpus),
            exclusive: self.ask.exclusive,
            strategy: self.view.strategy,
            fidelity: self.fidelity,
        };
        take.run().map_err(|error| match error {
            KoordinatorTakeError::NotEnough => KoordinatorReason::NotEnoughCpus,
            KoordinatorTakeError::Failed => KoordinatorReason::TakeFailed,
        })
    }

    /// Whether the CPUs are what a required policy promises. Mirrors `satisfiedRequiredCPUBindPolicy`.
    fn satisfies(
        &self,
        topology: &KoordinatorTopology,
        binding: CpuBinding,
        cpus: &CpuSet,
    ) -> bool {
        let places = cpus.iter().filter_map(|cpu| topology.place(cpu));
        let mut touched: SmallVec<[u16; 64]> = places.map(|place| place.core).collect();
        touched.sort_unstable();
        touched.dedup();
        let sizes = touched
            .iter()
            .filter_map(|&core| topology.cores.get(usize::from(core)))
            .map(|core| core.cpus.len());
        match binding {
            CpuBinding::SpreadByPcpus => touched.len() == cpus.len(),
            CpuBinding::FullPcpus if self.fidelity.measures_cores_by_average() => {
                touched.len() * topology.cpus_per_core() == cpus.len()
            }
            CpuBinding::FullPcpus => sizes.sum::<usize>() == cpus.len(),
        }
    }
}

/// `cpus` whole CPUs in thousandths.
fn whole(cpus: usize) -> i64 {
    i64::try_from(cpus)
        .unwrap_or(i64::MAX / MILLI)
        .saturating_mul(MILLI)
}

/// What `milli` amplified CPU is worth in real CPU.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "ratios are floats; a float converts with saturation"
)]
fn shrink(milli: i64, ratio: f64) -> i64 {
    if ratio > 1.0 {
        (milli as f64 / ratio).floor() as i64
    } else {
        milli
    }
}

#[cfg(test)]
mod tests;
