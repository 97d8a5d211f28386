//! [`Allocator`]: allocates NUMA resources and CPUs for one pod on one node.
//!
//! Mirrors `resourceManager.Allocate`. With a hint, every requested resource is spread over the NUMA nodes of the hint
//! ([`distribute`](self)); then, if the pod binds CPUs, as many CPUs as its share are taken from each NUMA node.
//! Without a hint the CPUs come from the whole node. A *required* bind policy restricts both to the CPUs that could
//! satisfy it, and is checked again at the end.
//!
//! An [`Allocator`] reads the node once. [`Allocator::fits`] then checks many hints by counting, before
//! [`Allocator::allocate`] allocates one of them.

use crate::koordinator::KoordinatorDefects;
use std::borrow::Cow;

use smallvec::SmallVec;

use super::amounts::{Amounts, ByNode, MILLI, NodeAmounts};
use super::cpu_topology::KoordinatorTopology;
use super::held_cpus::HeldCpus;
use super::ledger::{Allocation, KoordinatorLedger};
use super::policy_values::{CpuBinding, ExclusiveLevel, NumaStrategy};
use super::rejection::{KoordinatorReason, KoordinatorRejection};
use super::take::{KoordinatorTakeError, TakeRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::{NodeId, NodeSet};

mod distribute;
mod numa_free;

use distribute::ResourceRow;
use numa_free::NumaFree;

/// The node that the allocator allocates on.
#[derive(Clone, Copy, Debug)]
pub struct AllocationNode<'a> {
    /// Its CPUs, if it reports any.
    pub topology: Option<&'a KoordinatorTopology>,
    /// CPUs that are never assigned to pods.
    pub reserved: &'a CpuSet,
    /// How many pods may share one CPU.
    pub max_refs: u32,
    /// The allocatable amounts of each NUMA node, amplified, without reserved CPUs. Ascending by id.
    pub zones: &'a [NodeAmounts],
    /// The amplification ratio of CPU.
    pub cpu_ratio: f64,
    /// Which NUMA node is used first.
    pub strategy: NumaStrategy,
    /// The allocations of the pods on the node.
    pub ledger: &'a KoordinatorLedger,
}

/// The request of one pod to the allocator.
#[derive(Clone, Copy, Debug)]
pub struct AllocationRequest<'a> {
    /// The number of CPUs that it binds.
    pub cpus: usize,
    /// Whether it binds CPUs at all.
    pub bind: bool,
    /// Its requests, amplified where it binds CPUs.
    pub requests: &'a Amounts,
    /// Its requests, not amplified.
    pub plain_requests: &'a Amounts,
    /// How its CPUs are chosen; `None` if its policy does not bind CPUs.
    pub binding: Option<CpuBinding>,
    /// Whether `binding` is required rather than preferred.
    pub required: bool,
    /// What it prefers to have exclusively.
    pub exclusive: ExclusiveLevel,
    /// CPUs of a reservation, which count as free and are used first.
    pub preferred: &'a CpuSet,
    /// CPUs of pods to be preempted, which count as free.
    pub preemptible: &'a CpuSet,
    /// NUMA resources that count as free although they are allocated.
    pub reusable: &'a [NodeAmounts],
    /// The NUMA resources to allocate from instead of the free ones. Empty: the free ones.
    pub offered: &'a [NodeAmounts],
}

/// Allocates CPUs and NUMA resources of one node for one pod.
#[derive(Debug)]
pub struct Allocator<'a> {
    node: AllocationNode<'a>,
    request: AllocationRequest<'a>,
    held: Cow<'a, HeldCpus>,
    /// The CPUs that may be assigned to the pod.
    usable: CpuSet,
    /// The free amounts of each NUMA node.
    free: SmallVec<[NumaFree<'a>; 8]>,
    rows: SmallVec<[ResourceRow<'a>; 4]>,
    /// Whether the pod fits every set of NUMA nodes with large enough totals.
    totals_decide: bool,
    /// The shared pool of each NUMA node, and the CPU that those of the pod's NUMA nodes must have together, in milli-CPUs.
    pools: Option<(ByNode, i64)>,
    fidelity: Fidelity,
}

impl<'a> Allocator<'a> {
    /// Computes the usable CPUs and free amounts of the node for the pod.
    #[must_use]
    pub fn new(node: AllocationNode<'a>, request: AllocationRequest<'a>) -> Self {
        let fidelity = node.ledger.fidelity();
        let mut held = Cow::Borrowed(node.ledger.held());
        for returned in [request.preferred, request.preemptible] {
            for cpu in returned {
                held.to_mut().release(cpu);
            }
        }
        let mut allocator = Self {
            node,
            request,
            held,
            usable: CpuSet::new(),
            free: SmallVec::new(),
            rows: SmallVec::new(),
            totals_decide: false,
            pools: None,
            fidelity,
        };
        if let Some(topology) = node.topology {
            let exhausted = allocator.held.exhausted(node.max_refs);
            let available = &(topology.all() - &exhausted) - node.reserved;
            allocator.usable = allocator.satisfying(topology, &available);
            allocator.find_free(&available);
        } else {
            allocator.find_free(&CpuSet::new());
        }
        allocator.rows = distribute::rows(&allocator);
        allocator.totals_decide = allocator.totals_decide();
        allocator
    }

    /// The same for a pod that only fits NUMA nodes whose shared pools have this much CPU together, in milli-CPUs.
    #[must_use]
    pub(super) fn needing_pools(mut self, sizes: ByNode, milli: i64) -> Self {
        self.pools = Some((sizes, milli));
        self
    }

    fn pools_suffice(&self, nodes: NodeSet) -> bool {
        let pools = self.pools.as_ref();
        pools.is_none_or(|(sizes, milli)| sizes.sum(nodes) >= *milli)
    }

    /// The allocatable amounts of each NUMA node.
    #[must_use]
    pub fn zones(&self) -> &'a [NodeAmounts] {
        self.node.zones
    }

    /// The free amounts of each NUMA node.
    #[must_use]
    pub(super) fn free(&self) -> &[NumaFree<'a>] {
        &self.free
    }

    /// The request of the pod.
    #[must_use]
    pub fn request(&self) -> &AllocationRequest<'a> {
        &self.request
    }

    /// Whether Koordinator's defects are repeated.
    #[must_use]
    pub fn fidelity(&self) -> Fidelity {
        self.fidelity
    }

    /// Whether the pod has a required bind policy and the node reports no valid CPU topology.
    #[must_use]
    pub fn lacks_topology(&self) -> bool {
        self.request.required
            && self
                .node
                .topology
                .is_some_and(|topology| !topology.is_valid())
    }

    /// Sets the free amounts of each NUMA node, with no more CPU than the pod can use CPUs there. Mirrors
    /// `trimNUMANodeResources`.
    fn find_free(&mut self, available: &CpuSet) {
        let (node, request) = (self.node, self.request);
        self.free = match request.offered.is_empty() {
            true => (node.zones.iter())
                .map(|zone| NumaFree::on(zone, &node, &request))
                .collect(),
            false => request.offered.iter().map(NumaFree::offered).collect(),
        };
        let counts_cpus =
            self.request.required || self.request.bind && !self.fidelity.trusts_numa_totals();
        let Some(topology) = self.node.topology.filter(|_| counts_cpus) else {
            return;
        };
        let deamplifies = self.request.bind && !self.fidelity.ignores_amplified_share();
        let mut parts = std::mem::take(&mut self.free);
        for NumaFree { node, cpu, .. } in &mut parts {
            let mut milli = match *cpu {
                None | Some(0) => continue,
                Some(milli) => milli,
            };
            if deamplifies {
                milli = deamplify(milli, self.node.cpu_ratio);
            }
            let cpus = topology.cpus_of_node(*node).map_or(0, |cpus| {
                // If no core spans NUMA nodes, the usable CPUs of the NUMA node are the usable CPUs on it.
                match topology.is_nested() {
                    true => self.usable.common_len(cpus),
                    false => self.satisfying(topology, &(available & cpus)).len(),
                }
            });
            milli = milli.min(to_milli(cpus));
            if deamplifies {
                milli -= milli % to_milli(self.cpu_unit(topology));
            }
            *cpu = Some(milli);
        }
        self.free = parts;
    }

    /// The unit in which a NUMA node assigns CPUs: a whole core if that is required.
    fn cpu_unit(&self, topology: &KoordinatorTopology) -> usize {
        match self.needs_whole_cores() && topology.is_even() {
            true => topology.cpus_per_core().max(1),
            false => 1,
        }
    }

    /// The CPUs out of `cpus` that a required bind policy can use. Mirrors `filterCPUsByRequiredCPUBindPolicy`.
    fn satisfying(&self, topology: &KoordinatorTopology, cpus: &CpuSet) -> CpuSet {
        let Some(binding) = self.request.binding.filter(|_| self.request.required) else {
            return cpus.clone();
        };
        match binding {
            CpuBinding::FullPcpus => topology.in_whole_cores(cpus, self.fidelity),
            CpuBinding::SpreadByPcpus => topology.one_of_each_core(cpus),
        }
    }

    /// Whether the pod can be allocated on exactly these NUMA nodes. Returns the same as [`Allocator::allocate`] and,
    /// on all common machines, only counts.
    #[must_use]
    pub fn fits(&self, nodes: NodeSet) -> bool {
        let Some(topology) = self
            .node
            .topology
            .filter(|topology| self.can_count(topology))
        else {
            return self.allocate(Some(nodes)).is_ok();
        };
        if self.node.zones.is_empty() || self.lacks_topology() || !self.pools_suffice(nodes) {
            return false;
        }
        if self.totals_decide {
            return self.suffice(nodes);
        }
        let mut shares = distribute::NumaShares::new();
        if !self.distribute(nodes, &mut shares) {
            return false;
        }
        if !self.request.bind {
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
        self.usable.len() >= self.request.cpus && cpus == self.request.cpus
    }

    /// Whether taking CPUs of one NUMA node always returns exactly the requested number.
    fn can_count(&self, topology: &KoordinatorTopology) -> bool {
        let same_cores = topology.is_even() || self.fidelity.measures_cores_by_average();
        topology.is_nested() && (same_cores || !self.needs_whole_cores())
    }

    fn needs_whole_cores(&self) -> bool {
        self.request.required && self.request.binding == Some(CpuBinding::FullPcpus)
    }

    /// The number of CPUs to take from each NUMA node that has a share.
    fn cpu_shares(&self, shares: &distribute::NumaShares) -> SmallVec<[(NodeId, usize); 8]> {
        let mut counts: SmallVec<[(NodeId, usize); 8]> = SmallVec::new();
        for share in shares {
            let cpus = match self.rows[share.row].is_cpu() {
                true => usize::try_from(share.amount / MILLI).unwrap_or(0),
                false => 0,
            };
            match counts.iter_mut().find(|(node, _)| *node == share.node) {
                Some((_, sum)) => *sum += cpus,
                None => counts.push((share.node, cpus)),
            }
        }
        counts.sort_unstable();
        counts
    }

    /// Allocates CPUs and NUMA resources, on these NUMA nodes if there is a hint.
    ///
    /// # Errors
    /// With the reasons why the pod does not fit.
    pub fn allocate(&self, nodes: Option<NodeSet>) -> Result<Allocation, KoordinatorRejection> {
        let mut shares = distribute::NumaShares::new();
        if let Some(nodes) = nodes {
            self.check_numa()?;
            if let Some((sizes, milli)) = self.pools.as_ref().filter(|_| !self.pools_suffice(nodes))
            {
                let (milli, largest) = (*milli, sizes.sum(nodes));
                let reason = KoordinatorReason::PoolTooSmall { milli, largest };
                return Err(KoordinatorRejection::unschedulable(reason));
            }
            if !self.distribute(nodes, &mut shares) {
                return Err(self.shortage(nodes));
            }
        }
        let cpus = match self.request.bind {
            true => self
                .take_cpus(&shares)
                .map_err(KoordinatorRejection::unschedulable)?,
            false => CpuSet::new(),
        };
        Ok(Allocation {
            cpus,
            exclusive: self.request.exclusive,
            numa: self.amounts_of(&shares),
        })
    }

    fn check_numa(&self) -> Result<(), KoordinatorRejection> {
        if self.node.zones.is_empty() {
            return Err(KoordinatorRejection::unresolvable(
                KoordinatorReason::NoNumaResources,
            ));
        }
        match self.lacks_topology() {
            true => Err(KoordinatorRejection::unresolvable(
                KoordinatorReason::InvalidTopology,
            )),
            false => Ok(()),
        }
    }

    /// Chooses the CPUs. Mirrors `allocateCPUSet`.
    fn take_cpus(&self, shares: &distribute::NumaShares) -> Result<CpuSet, KoordinatorReason> {
        let topology = self.node.topology.ok_or(KoordinatorReason::NotEnoughCpus)?;
        if !topology.is_valid() {
            return Err(KoordinatorReason::InvalidTopology);
        }
        if self.usable.len() < self.request.cpus {
            return Err(KoordinatorReason::NotEnoughCpus);
        }
        let taken = if shares.is_empty() {
            self.take(topology, &self.usable, self.request.cpus)?
        } else {
            let mut taken = CpuSet::new();
            for (node, share) in self.cpu_shares(shares) {
                let Some(cpus) = topology.cpus_of_node(node) else {
                    continue;
                };
                let usable = &self.usable & cpus;
                taken |= &self.take(topology, &usable, share.min(usable.len()))?;
            }
            if taken.len() != self.request.cpus {
                return Err(KoordinatorReason::NotEnoughCpus);
            }
            taken
        };
        match self.request.binding.filter(|_| self.request.required) {
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
            max_refs: self.node.max_refs,
            available,
            preferred: self.request.preferred,
            held: &self.held,
            needed,
            binding: self.request.binding.unwrap_or(CpuBinding::SpreadByPcpus),
            exclusive: self.request.exclusive,
            strategy: self.node.strategy,
            fidelity: self.fidelity,
        };
        take.run().map_err(|error| match error {
            KoordinatorTakeError::NotEnough => KoordinatorReason::NotEnoughCpus,
            KoordinatorTakeError::Failed => KoordinatorReason::TakeFailed,
        })
    }

    /// Whether the CPUs satisfy a required bind policy. Mirrors `satisfiedRequiredCPUBindPolicy`.
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

/// `cpus` whole CPUs in milli-CPUs.
fn to_milli(cpus: usize) -> i64 {
    i64::try_from(cpus)
        .unwrap_or(i64::MAX / MILLI)
        .saturating_mul(MILLI)
}

/// The real milli-CPUs of `milli` amplified ones.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "ratios are floats; a float converts with saturation"
)]
fn deamplify(milli: i64, ratio: f64) -> i64 {
    if ratio > 1.0 {
        (milli as f64 / ratio).floor() as i64
    } else {
        milli
    }
}

#[cfg(test)]
mod tests;
