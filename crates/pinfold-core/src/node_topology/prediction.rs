//! [`Prediction`]: whether the kubelet would admit a pod, told from its topology object under all four policies.
//!
//! The [`Replica`] is asked as the kubelet would be. Its answer is the kubelet's unless it rests on something that
//! the object does not say; then the verdict is [`Prediction::Uncertain`] and names the gap. Counts leave open:
//!
//! * which CPUs share a core, where `full-pcpus-only` or `align-by-socket` look at that;
//! * which CPUs share a cache, which only `prefer-align-cpus-by-uncorecache` looks at and nobody lists; so listed
//!   CPUs leave the next two points open under that option;
//! * how CPUs or devices that a container gets from several NUMA nodes are divided among these. That matters
//!   only to later containers of the same pod, in the scope `container`;
//! * whether a container uses the CPUs of an earlier init container again or others beside them, which matters
//!   to the same ones;
//! * what the attributes of a foreign reporter leave out: groups of NUMA nodes that share memory, distances.

use std::sync::Arc;

use super::replica::{Gaps, MOST_DEVICES, Replica};
use crate::decision::{Decision, ResourceManager};
use crate::demand;
use crate::device::NoPreference;
use crate::explanation::{Alignment, ResourceFacts};
use crate::ledger::{Ledger, LedgerError};
use crate::name::{ContainerName, ResourceName};
use crate::pod::{Container, Pod};
use crate::policy::TopologyPolicy;
use crate::qos::QosClass;
use crate::quantity::Quantity;
use crate::settings::TopologyScope;

/// What the kubelet would say to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// It would admit it.
    Admitted,
    /// It would reject it, and this is why: every resource with what each NUMA node has of it.
    Rejected(Box<Decision>),
    /// The object does not say enough.
    Uncertain(Gap),
}

/// What would have to be known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gap {
    /// The CPU manager looks at cores or sockets, and the CPUs are not listed.
    #[error(
        "the CPU manager's options look at cores, and the node reports only how many CPUs there are"
    )]
    Cores,
    /// The division of what an earlier container of the pod gets is open, and a later one depends on it.
    #[error(
        "container {container} can get its {resource} in several ways, and later ones depend on which"
    )]
    Division {
        /// The earlier container.
        container: ContainerName,
        /// What it gets.
        resource: ResourceName,
    },
    /// Which NUMA nodes share memory in use.
    #[error("the node does not report which NUMA nodes share the memory in use")]
    MemoryGroups,
    /// How far NUMA nodes are from each other.
    #[error("the kubelet prefers close NUMA nodes, and the node does not report all distances")]
    Distances,
    /// Which devices are near several NUMA nodes.
    #[error("some {0} are near several NUMA nodes")]
    WideDevices(ResourceName),
    /// More devices than are told apart.
    #[error("more than {MOST_DEVICES} {0} are asked for")]
    TooManyDevices(ResourceName),
}

impl Replica {
    /// Whether the kubelet would admit `pod`.
    ///
    /// # Errors
    /// If it is no pod a kubelet would see.
    pub fn predict(&self, pod: &Arc<Pod>) -> Result<Prediction, LedgerError> {
        let mut ledger = self.ledger.clone();
        let decision = ledger.admit(pod, &mut NoPreference)?.decision;
        let gap = self.gaps.behind(&self.ledger, pod, &decision);
        Ok(match (gap, decision.is_admitted()) {
            (Some(gap), _) => Prediction::Uncertain(gap),
            (None, true) => Prediction::Admitted,
            (None, false) => Prediction::Rejected(Box::new(decision)),
        })
    }
}

impl Gaps {
    /// What a decision rests on that was not said, if anything. `ledger` is as it was before the decision.
    #[must_use]
    pub fn behind(&self, ledger: &Ledger, pod: &Pod, decision: &Decision) -> Option<Gap> {
        let question = GapCheck {
            gaps: self,
            ledger,
            pod,
            decision,
        };
        question.gap()
    }
}

/// A decision whose ground is examined.
struct GapCheck<'a> {
    gaps: &'a Gaps,
    ledger: &'a Ledger,
    pod: &'a Pod,
    decision: &'a Decision,
}

impl GapCheck<'_> {
    fn gap(&self) -> Option<Gap> {
        let gaps = self.gaps;
        let policy = self.ledger.rules().policy();
        if gaps.cores && self.asks_for_cpus() && self.ledger.rules().depends_on_cores() {
            return Some(Gap::Cores);
        }
        if gaps.memory_groups && self.asks_for_memory() {
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

    fn asks_for_cpus(&self) -> bool {
        let rules = self.ledger.rules();
        rules.has_exclusive_cpus() && {
            let mut containers = self.pod.all_containers();
            containers.any(|container| self.cpus_of(container) > 0)
                || demand::pod_cpus(self.pod, rules.pod_level()) > 0
        }
    }

    fn cpus_of(&self, container: &Container) -> usize {
        demand::container_cpus(self.pod, container, self.ledger.rules().pod_level())
    }

    /// Whether the memory manager has a say.
    fn asks_for_memory(&self) -> bool {
        let managed = !self.ledger.state().memory().nodes().is_empty();
        managed && QosClass::of(self.pod) == QosClass::Guaranteed
    }

    fn devices(&self) -> Option<Gap> {
        let gaps = self.gaps;
        let asked = demand::effective_limits(self.pod);
        for (resource, amount) in &asked {
            if !amount.is_positive() {
                continue;
            }
            if gaps.wide.contains(resource) {
                return Some(Gap::WideDevices(resource.clone()));
            }
            let most = i64::try_from(MOST_DEVICES).unwrap_or(i64::MAX);
            if gaps.capped.contains(resource) && self.sum_of(resource) > most {
                return Some(Gap::TooManyDevices(resource.clone()));
            }
        }
        None
    }

    /// What all containers together state of a resource.
    fn sum_of(&self, resource: &ResourceName) -> i64 {
        let limits = self
            .pod
            .all_containers()
            .filter_map(|container| container.limits.get(resource));
        limits.fold(0, |sum: i64, amount| {
            sum.saturating_add(amount.value().max(0))
        })
    }

    /// Containers are aligned one after the other: whether one of them rests on an open division before it.
    fn division(&self) -> Option<Gap> {
        let rules = self.ledger.rules();
        let by_totals = match rules.policy() {
            TopologyPolicy::None => true,
            // Everything is admitted that is there at all, except that memory may not extend.
            TopologyPolicy::BestEffort => !self.asks_for_memory(),
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
                if open && later.iter().any(|later| self.asks_for(later, facts)) {
                    return Some(Gap::Division {
                        container: container.name.clone(),
                        resource: facts.resource.clone(),
                    });
                }
                left_cpus |= facts.manager == ResourceManager::Cpu
                    && self.pod.is_finishing_init(&container.name);
            }
        }
        None
    }

    /// Whether a later container takes of the same resource.
    fn asks_for(&self, container: &Container, facts: &ResourceFacts) -> bool {
        match facts.manager {
            ResourceManager::Cpu => self.cpus_of(container) > 0,
            ResourceManager::Memory | ResourceManager::Device => {
                let amount = container.limits.get(&facts.resource);
                amount.is_some_and(Quantity::is_positive)
            }
        }
    }
}

/// Whether a grant leaves the same counts on every node however it is chosen.
fn is_determined(alignment: &Alignment, facts: &ResourceFacts) -> bool {
    let (near, far) = free(alignment, facts);
    match facts.requested.checked_sub(near.amount) {
        Some(missing) => missing == 0 || far.places <= 1 || missing >= far.amount,
        None => near.places <= 1,
    }
}

/// Whether nothing is left on the nodes a container was aligned to.
fn takes_all(alignment: &Alignment, facts: &ResourceFacts) -> bool {
    free(alignment, facts).0.amount <= facts.requested
}

/// What is free in some places, and how many of these have any.
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

/// What is free on the nodes a container was aligned to, and what is free elsewhere.
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
