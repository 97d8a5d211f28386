//! [`Gap`]: why a kubelet's decision cannot be predicted from its topology object.
//!
//! The [`Replica`](super::replica::Replica) admits a pod as the kubelet would. Its decision is the kubelet's unless it
//! depends on something that the object does not say. Counts leave open:
//!
//! * which CPUs share a core, which `full-pcpus-only` and `align-by-socket` need;
//! * which CPUs share a cache, which only `prefer-align-cpus-by-uncorecache` needs and no exporter lists; so with that
//!   option the next two points are open even if CPUs are listed;
//! * how CPUs or devices that a container gets from several NUMA nodes are divided among these. That matters only to
//!   later containers of the same pod, in the scope `container`;
//! * whether a container reuses the CPUs of an earlier init container or gets others, which matters to the same
//!   containers;
//! * what the attributes of other exporters leave out: memory groups of NUMA nodes, distances.

use super::replica::{Gaps, MAX_DEVICES};
use pinfold_core::decision::{Decision, ResourceManager};
use pinfold_core::demand::{self, PodDemand};
use pinfold_core::explanation::{Alignment, ResourceFacts};
use pinfold_core::ledger::Ledger;
use pinfold_core::name::{ContainerName, ResourceName};
use pinfold_core::pod::{Container, Pod};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::TopologyScope;

/// Information that the topology object lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Gap {
    /// The options of the CPU manager depend on cores or sockets, and the CPUs are not listed.
    #[error(
        "the CPU manager's options look at cores, and the node reports only how many CPUs there are"
    )]
    Cores,
    /// The resource of an earlier container can be divided among NUMA nodes in several ways, and a later container
    /// depends on which.
    #[error(
        "container {container} can get its {resource} in several ways, and later ones depend on which"
    )]
    Division {
        /// The earlier container.
        container: ContainerName,
        /// The resource.
        resource: ResourceName,
    },
    /// The memory groups of NUMA nodes with memory in use.
    #[error("the node does not report which NUMA nodes share the memory in use")]
    MemoryGroups,
    /// The distances between NUMA nodes.
    #[error("the kubelet prefers close NUMA nodes, and the node does not report all distances")]
    Distances,
    /// The resource has devices near several NUMA nodes, and the object does not say which.
    #[error("some {0} are near several NUMA nodes")]
    WideDevices(ResourceName),
    /// The pod requests more devices than the replica models.
    #[error("more than {MAX_DEVICES} {0} are requested")]
    TooManyDevices(ResourceName),
}

impl Gaps {
    /// The gap that a decision depends on, if any. `ledger` is the state before the decision.
    #[must_use]
    pub fn affecting(&self, ledger: &Ledger, pod: &Pod, decision: &Decision) -> Option<Gap> {
        let check = GapCheck {
            gaps: self,
            ledger,
            pod,
            demand: PodDemand::new(pod, ledger.rules().pod_level()),
            decision,
        };
        check.gap()
    }
}

/// Checks whether a decision depends on a gap.
struct GapCheck<'a> {
    gaps: &'a Gaps,
    ledger: &'a Ledger,
    pod: &'a Pod,
    demand: PodDemand<'a>,
    decision: &'a Decision,
}

impl GapCheck<'_> {
    fn gap(&self) -> Option<Gap> {
        let gaps = self.gaps;
        let policy = self.ledger.rules().policy();
        let options = self.ledger.rules().cpu_options();
        // The hints depend on which CPUs share a core or a socket.
        let by_cores =
            options.is_some_and(|options| options.full_pcpus_only || options.align_by_socket);
        if gaps.cores && by_cores && self.requests_cpus() {
            return Some(Gap::Cores);
        }
        if gaps.memory_groups && self.requests_memory() {
            return Some(Gap::MemoryGroups);
        }
        self.devices().or_else(|| {
            let aligned = policy != TopologyPolicy::None;
            match gaps.distances && aligned {
                true => Some(Gap::Distances),
                false => self.division(),
            }
        })
    }

    fn requests_cpus(&self) -> bool {
        let rules = self.ledger.rules();
        rules.has_exclusive_cpus() && {
            let mut containers = self.pod.all_containers();
            containers.any(|container| self.demand.container_cpus(container) > 0)
                || self.demand.pod_cpus() > 0
        }
    }

    /// Whether the memory manager takes part in the decision.
    fn requests_memory(&self) -> bool {
        let managed = !self.ledger.state().memory().nodes().is_empty();
        managed && self.demand.is_guaranteed()
    }

    fn devices(&self) -> Option<Gap> {
        let gaps = self.gaps;
        let requested = demand::effective_limits(self.pod);
        for (resource, amount) in &requested {
            if !amount.is_positive() {
                continue;
            }
            if gaps.wide.contains(resource) {
                return Some(Gap::WideDevices(resource.clone()));
            }
            let most = i64::try_from(MAX_DEVICES).unwrap_or(i64::MAX);
            if gaps.capped.contains(resource) && self.sum_of(resource) > most {
                return Some(Gap::TooManyDevices(resource.clone()));
            }
        }
        None
    }

    /// The sum of the limits of all containers.
    fn sum_of(&self, resource: &ResourceName) -> i64 {
        let limits = self
            .pod
            .all_containers()
            .filter_map(|container| container.limits.get(resource));
        limits.fold(0, |sum: i64, amount| {
            sum.saturating_add(amount.value().max(0))
        })
    }

    /// The gap if a container depends on how the resources of an earlier container are divided. Containers are aligned
    /// one after the other.
    fn division(&self) -> Option<Gap> {
        let rules = self.ledger.rules();
        let by_totals = match rules.policy() {
            TopologyPolicy::None => true,
            // Every pod whose totals suffice is admitted, except that memory cannot always be extended.
            TopologyPolicy::BestEffort => !self.requests_memory(),
            TopologyPolicy::Restricted | TopologyPolicy::SingleNumaNode => false,
        };
        if by_totals || rules.scope() == TopologyScope::Pod {
            return None;
        }
        let containers: Vec<&Container> = self.pod.all_containers().collect();
        let alignments = &self.decision.explanation.alignments;
        let mut left_cpus = false;
        for (at, (&container, alignment)) in containers.iter().zip(alignments).enumerate() {
            let later = containers.get(at + 1..alignments.len()).unwrap_or_default();
            for facts in &alignment.resources {
                let open = match facts.manager {
                    ResourceManager::Memory => false,
                    ResourceManager::Device => !is_determined(alignment, facts),
                    ResourceManager::Cpu if !self.gaps.order => false,
                    ResourceManager::Cpu => {
                        !is_determined(alignment, facts)
                            || left_cpus && !takes_all(alignment, facts)
                    }
                };
                if open && later.iter().any(|later| self.requests(later, facts)) {
                    return Some(Gap::Division {
                        container: container.name.clone(),
                        resource: facts.resource.clone(),
                    });
                }
                left_cpus |= facts.manager == ResourceManager::Cpu
                    && self.demand.is_finishing_init(&container.name);
            }
        }
        None
    }

    /// Whether a later container requests the same resource.
    fn requests(&self, container: &Container, facts: &ResourceFacts) -> bool {
        match facts.manager {
            ResourceManager::Cpu => self.demand.container_cpus(container) > 0,
            ResourceManager::Memory | ResourceManager::Device => {
                let amount = container.limits.get(&facts.resource);
                amount.is_some_and(Quantity::is_positive)
            }
        }
    }
}

/// Whether the free counts of every NUMA node afterwards do not depend on how the resource is divided.
fn is_determined(alignment: &Alignment, facts: &ResourceFacts) -> bool {
    let (near, far) = free(alignment, facts);
    match facts.requested.checked_sub(near.amount) {
        Some(missing) => missing == 0 || far.places <= 1 || missing >= far.amount,
        None => near.places <= 1,
    }
}

/// Whether nothing is free afterwards on the NUMA nodes of the alignment.
fn takes_all(alignment: &Alignment, facts: &ResourceFacts) -> bool {
    free(alignment, facts).0.amount <= facts.requested
}

/// The free amount of some NUMA nodes, and the number of NUMA nodes with a free amount.
#[derive(Default)]
struct FreeCount {
    amount: u64,
    places: usize,
}

impl FreeCount {
    fn add(&mut self, amount: u64) {
        self.amount = self.amount.saturating_add(amount);
        self.places += usize::from(amount > 0);
    }
}

/// The free amount on the NUMA nodes of the alignment, and elsewhere.
fn free(alignment: &Alignment, facts: &ResourceFacts) -> (FreeCount, FreeCount) {
    let (mut near, mut far) = (FreeCount::default(), FreeCount::default());
    let mask = alignment.hint.mask;
    for node in &facts.nodes {
        match mask.is_none_or(|mask| mask.contains(node.node)) {
            true => near.add(node.free),
            false => far.add(node.free),
        }
    }
    match mask {
        None => near.add(facts.without_topology.free),
        Some(_) => far.add(facts.without_topology.free),
    }
    (near, far)
}

#[cfg(test)]
mod tests;
