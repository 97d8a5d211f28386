//! [`StaticCpus`]: exclusive CPUs for Guaranteed containers that request whole CPUs, a shared pool for all others.
//!
//! ```text
//! all CPUs ─┬─ shared pool ─┬─ reserved: never assigned exclusively
//!           │               └─ available
//!           └─ exclusive: assigned to one container
//! ```
//!
//! Every method reads a [`CpuState`] and returns edits; nothing is changed here. Mirrors `staticPolicy`.

use std::sync::Arc;

use super::distributed::{DistributionOptions, take_distributed};
use super::error::{CpuError, CpuPolicyError};
use super::options::CpuOptions;
use super::packed::{PackingOptions, take_packed};
use super::state::{CpuEdits, CpuState};
use super::take::{CpuSortingStrategy, TakeError};
use crate::cpu_set::{CpuList, CpuSet, CpuSetTextError};
use crate::demand::{PodDemand, PodLevel};
use crate::fidelity::Fidelity;
use crate::machine::cpus::CpuTopology;
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::node_set::NodeSet;
use crate::pod::Container;
use crate::policy::TopologyPolicy;

/// CPUs reserved for the system and the kubelet: never assigned exclusively.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuReservation {
    /// How many.
    pub count: usize,
    /// Which ones; if empty the policy chooses.
    pub cpus: CpuList,
}

/// The settings of a static policy.
#[derive(Clone, Debug)]
pub struct StaticSettings {
    /// Its options.
    pub options: CpuOptions,
    /// The reserved CPUs.
    pub reservation: CpuReservation,
    /// The topology manager's policy: some options contradict some policies.
    pub topology_policy: TopologyPolicy,
    /// Whether pods with pod-level resources are managed.
    pub pod_level: PodLevel,
    /// Whether the kubelet's defects are repeated.
    pub fidelity: Fidelity,
}

/// The static policy on one machine.
#[derive(Clone, Debug)]
pub struct StaticCpus {
    pub(super) topology: Arc<CpuTopology>,
    pub(super) options: CpuOptions,
    pub(super) reserved: CpuSet,
    reserved_physical: CpuSet,
    pub(super) pod_level: PodLevel,
    pub(super) fidelity: Fidelity,
    /// `cpu`, kept here so that hints need no new string.
    pub(super) resource: ResourceName,
    /// For each socket the NUMA nodes of its CPUs.
    pub(super) nodes_of_socket: Vec<NodeSet>,
}

/// The CPUs assigned by one decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuGrant {
    /// The edits that assign them.
    pub edits: CpuEdits,
    /// The exclusive CPUs of the container or pod; `None` for the shared pool.
    pub cpus: Option<CpuSet>,
    /// The CPUs that later containers of the pod may reuse, if that has changed.
    pub reusable: Option<CpuSet>,
}

/// What the earlier containers of a pod have while its next one is decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCpus {
    /// The CPUs of finished init containers that the next container may reuse ([`CpuGrant::reusable`]).
    pub reusable: CpuSet,
    /// The exclusive CPUs of all containers of the pod.
    pub held: CpuSet,
}

impl PodCpus {
    /// What `pod` has in `state` if it may reuse the CPUs `reusable`.
    #[must_use]
    pub fn new(state: &CpuState, pod: &PodUid, reusable: CpuSet) -> Self {
        Self {
            reusable,
            held: state.containers_of(pod),
        }
    }

    /// Records the CPUs of the next container.
    pub(crate) fn record(&mut self, grant: &CpuGrant) {
        if let Some(cpus) = &grant.cpus {
            self.held |= cpus;
        }
        if let Some(reusable) = &grant.reusable {
            self.reusable.clone_from(reusable);
        }
    }

    /// The CPUs that later containers may reuse after `container` was assigned `cpus`: an init container that finishes
    /// releases them, any other container keeps them. Mirrors `updateCPUsToReuse`.
    fn reusable_after(
        &self,
        cpus: &CpuSet,
        demand: &PodDemand<'_>,
        container: &ContainerName,
    ) -> CpuSet {
        match demand.is_finishing_init(container) {
            true => &self.reusable | cpus,
            false => &self.reusable - cpus,
        }
    }
}

/// The CPUs that a request may be satisfied from.
pub(super) struct Supply {
    /// CPUs that no container holds.
    pub(super) free: CpuSet,
    /// CPUs of init containers of the same pod.
    pub(super) reuse: CpuSet,
}

impl StaticCpus {
    /// Validates the settings and chooses the reserved CPUs. Mirrors `NewStaticPolicy`.
    ///
    /// # Errors
    /// If options or reservation contradict the machine.
    pub fn new(
        topology: Arc<CpuTopology>,
        settings: StaticSettings,
    ) -> Result<Self, CpuPolicyError> {
        let StaticSettings {
            options,
            reservation,
            topology_policy,
            pod_level,
            fidelity,
        } = settings;
        options.validate(&topology, topology_policy)?;
        let mut policy = Self {
            options,
            reserved: CpuSet::new(),
            reserved_physical: CpuSet::new(),
            pod_level,
            fidelity,
            resource: ResourceName::from("cpu"),
            nodes_of_socket: nodes_of_sockets(&topology),
            topology,
        };
        policy.reserved = policy.choose_reserved(&reservation)?;
        policy.reserved_physical = policy.with_siblings(&policy.reserved)?;
        Ok(policy)
    }

    fn choose_reserved(&self, reservation: &CpuReservation) -> Result<CpuSet, CpuPolicyError> {
        let count = reservation.count;
        let wrong_size = |reserved| CpuPolicyError::ReservedSize { reserved, count };
        if !reservation.cpus.is_empty() {
            if reservation.cpus.len() != count as u64 {
                return Err(wrong_size(reservation.cpus.clone()));
            }
            return reservation.cpus.to_set().map_err(|error| match error {
                CpuSetTextError::NoSuchCpu(id) => CpuPolicyError::UnknownReserved(id),
                _ => wrong_size(reservation.cpus.clone()),
            });
        }
        let chosen = match self.take(self.topology.all(), count) {
            Ok(chosen) => chosen,
            Err(
                error @ (TakeError::NeverReturns
                | TakeError::Crashes
                | TakeError::TooManyCombinations { .. }),
            ) => return Err(CpuPolicyError::Reserving(error)),
            Err(_) => CpuSet::new(),
        };
        match chosen.len() == count {
            true => Ok(chosen),
            false => Err(wrong_size(CpuList::from(&chosen))),
        }
    }

    /// The CPUs and their siblings on the same physical cores.
    fn with_siblings(&self, cpus: &CpuSet) -> Result<CpuSet, CpuPolicyError> {
        let mut all = CpuSet::new();
        for cpu in cpus {
            let unknown = CpuPolicyError::UnknownReserved(i64::from(cpu.get()));
            let place = self.topology.cpu_info(cpu).ok_or(unknown)?;
            all |= &self.topology.cpus_of_core(place.core);
        }
        Ok(all)
    }

    /// The CPUs of the machine.
    #[must_use]
    pub fn topology(&self) -> &Arc<CpuTopology> {
        &self.topology
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> CpuOptions {
        self.options
    }

    /// The name of the resource: `cpu`.
    pub(crate) fn resource(&self) -> &ResourceName {
        &self.resource
    }

    /// CPUs that are never assigned exclusively.
    #[must_use]
    pub fn reserved(&self) -> &CpuSet {
        &self.reserved
    }

    /// The reserved CPUs and their siblings on the same physical cores.
    #[must_use]
    pub fn reserved_physical(&self) -> &CpuSet {
        &self.reserved_physical
    }

    /// CPUs that can be assigned on an empty machine. Mirrors `GetAllocatableCPUs`.
    #[must_use]
    pub fn allocatable(&self) -> CpuSet {
        self.topology.all() - &self.reserved
    }

    /// Their number.
    pub(crate) fn num_allocatable(&self) -> usize {
        let all = self.topology.all();
        all.len() - all.common_len(&self.reserved)
    }

    /// CPUs that no container holds and that can be assigned. Mirrors `GetAvailableCPUs`.
    #[must_use]
    pub fn available(&self, state: &CpuState) -> CpuSet {
        state.shared() - &self.reserved
    }

    /// CPUs that the next container of a pod could be assigned: free ones, and reusable ones of its own pod; with
    /// `full-pcpus-only` without the threads of partly used cores.
    #[must_use]
    pub(crate) fn usable(&self, state: &CpuState, own: &PodCpus) -> CpuSet {
        let supply = self.supply(state, own);
        &supply.free | &supply.reuse
    }

    /// Assigns a container its CPUs, on `affinity` first. `own` is what the earlier containers of its pod have.
    /// Mirrors `Allocate`.
    ///
    /// # Errors
    /// If too few CPUs are free.
    pub fn allocate(
        &self,
        state: &CpuState,
        own: &PodCpus,
        affinity: Option<NodeSet>,
        demand: &PodDemand<'_>,
        container: &Container,
    ) -> Result<CpuGrant, CpuError> {
        let count = demand.container_cpus(container);
        if count == 0 || demand.is_ignored() {
            return Ok(CpuGrant::default());
        }
        let pod = &demand.pod().uid;
        let held = state.container(pod, &container.name);
        let supply = self.supply(state, own);
        let reusable_after = |cpus| own.reusable_after(cpus, demand, &container.name);
        if held.is_none() || self.fidelity.checks_cores_before_own_cpus() {
            self.check_whole_cores(state, &supply, count)?;
        }
        if let Some(held) = held {
            return Ok(CpuGrant {
                reusable: Some(reusable_after(held)),
                cpus: Some(held.clone()),
                edits: CpuEdits::new(),
            });
        }
        let cpus = self.choose(&supply, count, affinity)?;
        let shared = state.set_shared(state.shared() - &cpus);
        let entry = state.set_container(pod, &container.name, Some(cpus.clone()));
        Ok(CpuGrant {
            edits: shared.into_iter().chain(entry).collect(),
            reusable: Some(reusable_after(&cpus)),
            cpus: Some(cpus),
        })
    }

    /// Releases a container's CPUs, except those that another container of its pod holds too. Mirrors
    /// `RemoveContainer`.
    #[must_use]
    pub fn remove_container(
        &self,
        state: &CpuState,
        pod: &PodUid,
        container: &ContainerName,
    ) -> CpuEdits {
        let mut edits = CpuEdits::new();
        let Some(held) = state.container(pod, container) else {
            return edits;
        };
        edits.extend(state.set_container(pod, container, None));
        let siblings = state.containers().get(pod).into_iter().flatten();
        let mut siblings = siblings.filter(|(name, _)| *name != container);
        if self.pod_level == PodLevel::Managed
            && let Some(whole) = state.pod(pod)
        {
            // The pod's set is released as a whole, with its last container.
            if siblings.next().is_none() {
                edits.extend(state.set_shared(state.shared() | whole));
                edits.extend(state.set_pod(pod, None));
            }
            return edits;
        }
        let mut released = held.clone();
        for (_, cpus) in siblings {
            released -= cpus;
        }
        edits.extend(state.set_shared(state.shared() | &released));
        edits
    }

    /// Releases the CPUs of all containers of a pod at once: the same state as after [`Self::remove_container`] for
    /// each of them.
    #[must_use]
    pub(crate) fn remove_pod(&self, state: &CpuState, pod: &PodUid) -> CpuEdits {
        let Some(containers) = state.containers().get(pod) else {
            return CpuEdits::new();
        };
        let whole = match self.pod_level {
            PodLevel::Managed => state.pod(pod),
            PodLevel::Unknown | PodLevel::Ignored => None,
        };
        let released = whole.cloned();
        let released = released.unwrap_or_else(|| state.containers_of(pod));
        let removed = containers.keys();
        let mut edits: CpuEdits = removed
            .filter_map(|container| state.set_container(pod, container, None))
            .collect();
        edits.extend(state.set_shared(state.shared() | &released));
        if whole.is_some() {
            edits.extend(state.set_pod(pod, None));
        }
        edits
    }

    /// The CPUs that a request of the next container of a pod may be satisfied from.
    pub(super) fn supply(&self, state: &CpuState, own: &PodCpus) -> Supply {
        let free = self.available(state);
        let mut reuse = own.reusable.clone();
        if self.fidelity.trusts_reusable_cpus() {
            return Supply { free, reuse };
        }
        if !reuse.is_empty() {
            reuse &= &(&own.held | &free);
        }
        let mut free = &free & self.topology.all();
        free -= &reuse;
        if self.options.full_pcpus_only {
            let whole = self.whole_cores(&(&free | &reuse));
            free &= &whole;
            reuse &= &whole;
        }
        Supply { free, reuse }
    }

    /// The CPUs of those cores that are entirely in `cpus`.
    fn whole_cores(&self, cpus: &CpuSet) -> CpuSet {
        let mut whole = CpuSet::new();
        for threads in &self.topology.levels().threads_of_core {
            if threads.iter().all(|&cpu| cpus.contains(cpu)) {
                whole.extend(threads.iter().copied());
            }
        }
        whole
    }

    /// With `full-pcpus-only`: checks that the request fills whole cores, and that enough of them are free. Mirrors
    /// `enforceSMTAlignment`.
    pub(super) fn check_whole_cores(
        &self,
        state: &CpuState,
        supply: &Supply,
        requested: usize,
    ) -> Result<(), CpuError> {
        if !self.options.full_pcpus_only {
            return Ok(());
        }
        let per_core = self.group_size()?;
        if !requested.is_multiple_of(per_core) {
            return Err(CpuError::NotWholeCores {
                requested,
                per_core,
            });
        }
        let available = match self.fidelity.assigns_split_cores() {
            true => (state.shared() - &self.reserved_physical).len(),
            false => (&supply.free | &supply.reuse).len(),
        };
        match requested > available {
            true if available == 0 && !self.fidelity.names_missing_cores() => {
                Err(CpuError::NotWholeCores {
                    requested,
                    per_core,
                })
            }
            true => Err(CpuError::TooFewWholeCores {
                requested,
                per_core,
                available,
            }),
            false => Ok(()),
        }
    }

    fn group_size(&self) -> Result<usize, TakeError> {
        match self.topology.cpus_per_core() {
            0 if self.fidelity.crashes_like_the_kubelet() => Err(TakeError::Crashes),
            some => Ok(some.max(1)),
        }
    }

    /// Chooses CPUs on the affinity's nodes first, then on any. Mirrors `allocateCPUs`.
    pub(super) fn choose(
        &self,
        supply: &Supply,
        count: usize,
        affinity: Option<NodeSet>,
    ) -> Result<CpuSet, CpuError> {
        let mut rest = &supply.free | &supply.reuse;
        let mut chosen = CpuSet::new();
        if let Some(affinity) = affinity {
            let aligned = self.aligned(affinity, &rest);
            chosen = self.take(&aligned, count.min(aligned.len()))?;
            rest -= &chosen;
        }
        chosen |= &self.take(&rest, count.saturating_sub(chosen.len()))?;
        if self.options.full_pcpus_only && !self.fidelity.assigns_split_cores() {
            // Cores have different sizes: the number was right, but a core had to be split.
            let whole = self.whole_cores(&chosen);
            if whole != chosen {
                return Err(CpuError::TooFewWholeCores {
                    requested: count,
                    per_core: self.group_size()?,
                    available: whole.len(),
                });
            }
        }
        Ok(chosen)
    }

    /// The CPUs of `cpus` on the affinity's nodes, or on the sockets these nodes touch. Mirrors
    /// `getAlignedCPUs`.
    fn aligned(&self, affinity: NodeSet, cpus: &CpuSet) -> CpuSet {
        let mut aligned = CpuSet::new();
        if self.options.align_by_socket {
            let sockets = self.topology.sockets().iter().zip(&self.nodes_of_socket);
            for (socket, _) in sockets.filter(|(_, nodes)| nodes.intersects(affinity)) {
                aligned |= &socket.cpus;
            }
        } else {
            let nodes = self.topology.nodes().iter();
            for node in nodes.filter(|node| affinity.contains(node.id)) {
                aligned |= &node.cpus;
            }
        }
        aligned &= cpus;
        aligned
    }

    /// Mirrors `takeByTopology`.
    pub(super) fn take(&self, available: &CpuSet, count: usize) -> Result<CpuSet, TakeError> {
        let order = match self.options.distribute_across_cores {
            true => CpuSortingStrategy::Spread,
            false => CpuSortingStrategy::Packed,
        };
        let topology = &self.topology;
        if self.options.distribute_across_numa {
            let group = match self.options.full_pcpus_only {
                true => topology.cpus_per_core(),
                false => 1,
            };
            let grouping = DistributionOptions {
                group,
                order,
                within_sockets: self.options.align_by_socket
                    && self.fidelity.distributes_within_sockets(),
            };
            return take_distributed(topology, available, count, grouping, self.fidelity);
        }
        let packing = PackingOptions {
            order,
            align_by_cache: self.options.prefer_align_by_cache,
        };
        take_packed(topology, available, count, packing, self.fidelity)
    }
}

fn nodes_of_sockets(topology: &CpuTopology) -> Vec<NodeSet> {
    let children = topology.levels().nodes_in_socket.iter();
    let nodes = topology.nodes();
    children
        .map(|children| children.iter().map(|child| nodes[child.at].id).collect())
        .collect()
}
