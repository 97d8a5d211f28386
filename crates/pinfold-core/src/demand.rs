//! Demand: the CPUs and memory that a pod and its containers request, after the rules about init containers, sidecars
//! and QoS.
//!
//! Init containers run one after the other, then the app containers together; a sidecar (a restartable init container)
//! starts in its turn and keeps running. So a pod's peak is the larger of two amounts: the sum of the app containers
//! and all sidecars, and the largest init container with the sidecars started before it.

use std::collections::BTreeMap;

use serde::Serialize;
use smallvec::SmallVec;

use crate::name::{ContainerName, ResourceName};
use crate::pod::{Container, Pod, ResourceList};
use crate::qos::{QosClass, is_guaranteed_alone};
use crate::quantity::Quantity;

/// Whether the CPU and memory manager support pod-level resources (the kubelet's feature gate
/// `PodLevelResourceManagers`, off by default).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodLevel {
    /// The kubelet does not know pod-level resources: containers alone count.
    Unknown,
    /// Pods with pod-level resources are neither aligned nor assigned exclusive CPUs.
    #[default]
    Ignored,
    /// Pod-level resources are managed as a whole.
    Managed,
}

/// Requested memory and hugepages, in bytes by resource name.
pub type MemoryDemand = BTreeMap<ResourceName, u64>;

/// A memory quantity that is not a whole number of bytes. The message is the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("[memorymanager] failed to represent quantity as int64")]
pub struct NotWholeBytes;

/// Whether the pod has pod-level resources that Kubernetes supports. Mirrors `IsPodLevelResourcesSet`.
fn has_pod_level_resources(pod: &Pod) -> bool {
    let lists = [&pod.pod_requests, &pod.pod_limits];
    let mut names = lists.into_iter().flatten().flat_map(BTreeMap::keys);
    names.any(is_pod_level)
}

/// Whether Kubernetes supports a resource at pod level.
fn is_pod_level(name: &ResourceName) -> bool {
    name.as_str() == "cpu" || is_memory(name)
}

/// Whether the memory manager manages a resource: memory, and hugepages of any size.
pub(crate) fn is_memory(name: &ResourceName) -> bool {
    name.as_str() == "memory" || name.as_str().starts_with("hugepages-")
}

/// A pod with everything about its requests that depends on all its containers, computed once: an admission asks for
/// it once per container and manager.
#[derive(Clone, Debug)]
pub struct PodDemand<'p> {
    pod: &'p Pod,
    pod_level: PodLevel,
    qos: QosClass,
    has_pod_level: bool,
    /// The names of the init containers that finish, ascending.
    finishing: SmallVec<[&'p ContainerName; 4]>,
}

impl<'p> PodDemand<'p> {
    /// The demand of `pod`.
    #[must_use]
    pub fn new(pod: &'p Pod, pod_level: PodLevel) -> Self {
        let inits = pod.init_containers.iter();
        let mut finishing: SmallVec<[_; 4]> = inits
            .filter(|init| !init.restartable)
            .map(|init| &init.name)
            .collect();
        finishing.sort_unstable();
        Self {
            pod,
            pod_level,
            qos: match pod_level {
                PodLevel::Unknown => QosClass::of_containers(pod),
                PodLevel::Ignored | PodLevel::Managed => QosClass::of(pod),
            },
            has_pod_level: pod_level != PodLevel::Unknown && has_pod_level_resources(pod),
            finishing,
        }
    }

    /// The pod.
    #[must_use]
    pub fn pod(&self) -> &'p Pod {
        self.pod
    }

    /// Whether the pod is of the QoS class Guaranteed.
    #[must_use]
    pub fn is_guaranteed(&self) -> bool {
        self.qos == QosClass::Guaranteed
    }

    /// Whether the pod has pod-level resources that are managed as a whole.
    pub(crate) fn is_managed_as_whole(&self) -> bool {
        self.has_pod_level && self.pod_level == PodLevel::Managed
    }

    /// Whether the pod has pod-level resources and the CPU and memory manager ignore such pods.
    pub(crate) fn is_ignored(&self) -> bool {
        self.has_pod_level && self.pod_level == PodLevel::Ignored
    }

    /// [`Pod::is_finishing_init`] without a search through all init containers.
    #[must_use]
    pub fn is_finishing_init(&self, name: &ContainerName) -> bool {
        self.finishing.binary_search(&name).is_ok()
    }

    /// The number of exclusive CPUs of a container; 0 means the shared pool. Mirrors the static policy's
    /// `guaranteedCPUs`.
    #[must_use]
    pub fn container_cpus(&self, container: &Container) -> usize {
        let eligible =
            self.is_guaranteed() && (!self.is_managed_as_whole() || is_guaranteed_alone(container));
        match container.requests.get("cpu") {
            Some(request) if eligible => whole_cpus(*request),
            _ => 0,
        }
    }

    /// The number of exclusive CPUs that the pod needs at its peak. Mirrors `podGuaranteedCPUs`.
    #[must_use]
    pub fn pod_cpus(&self) -> usize {
        let pod = self.pod;
        if !self.is_managed_as_whole() {
            return peak(pod, |container| self.container_cpus(container));
        }
        let request = pod.pod_requests.as_ref().and_then(|list| list.get("cpu"));
        match request {
            Some(request) if self.is_guaranteed() => whole_cpus(*request),
            _ => 0,
        }
    }

    /// The memory that one container requests, by type. Mirrors `getContainerRequestedResources`.
    ///
    /// # Errors
    /// If an amount is not a whole number of bytes.
    pub fn container_memory(&self, container: &Container) -> Result<MemoryDemand, NotWholeBytes> {
        if self.is_managed_as_whole() && !is_guaranteed_alone(container) {
            return Ok(MemoryDemand::new());
        }
        let types = container
            .requests
            .iter()
            .filter(|(name, _)| is_memory(name));
        types
            .map(|(name, amount)| Ok((name.clone(), whole_bytes(*amount)?)))
            .collect()
    }

    /// The memory that the pod needs at its peak, by type. Mirrors `getPodRequestedResources`: a type that only init
    /// containers request does not count.
    ///
    /// # Errors
    /// If an amount is not a whole number of bytes.
    pub fn pod_memory(&self) -> Result<MemoryDemand, NotWholeBytes> {
        let pod = self.pod;
        if self.is_managed_as_whole() {
            let requests = pod.pod_requests.iter().flatten();
            let mut demand = MemoryDemand::new();
            for (name, amount) in requests.filter(|(name, _)| is_memory(name)) {
                let bytes = whole_bytes(*amount)?;
                if amount.is_positive() {
                    demand.insert(name.clone(), bytes);
                }
            }
            return Ok(demand);
        }
        let mut sidecars = MemoryDemand::new();
        let mut init = MemoryDemand::new();
        for container in &pod.init_containers {
            for (name, bytes) in self.container_memory(container)? {
                let beside = sidecars.entry(name.clone()).or_default();
                let together = beside.saturating_add(bytes);
                if container.restartable {
                    *beside = together;
                } else {
                    let most = init.entry(name).or_default();
                    *most = together.max(*most);
                }
            }
        }
        let mut running = MemoryDemand::new();
        for container in &pod.containers {
            for (name, bytes) in self.container_memory(container)? {
                let sum = running.entry(name).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
        for (name, bytes) in &mut running {
            let amount = |list: &MemoryDemand| list.get(name).copied().unwrap_or(0);
            *bytes = bytes.saturating_add(amount(&sidecars)).max(amount(&init));
        }
        Ok(running)
    }
}

/// The amount if it is a whole number of CPUs, else 0. Mirrors `isIntegralCPUAmount`.
fn whole_cpus(request: Quantity) -> usize {
    let cpus = request.value();
    match cpus.wrapping_mul(1000) == request.milli_value() {
        true => usize::try_from(cpus).unwrap_or(0),
        false => 0,
    }
}

/// The largest sum of `of` over containers that run at the same time.
fn peak(pod: &Pod, of: impl Fn(&Container) -> usize) -> usize {
    let mut sidecars = 0_usize;
    let mut init = 0_usize;
    for container in &pod.init_containers {
        let own = of(container);
        if container.restartable {
            sidecars = sidecars.saturating_add(own);
        } else {
            init = init.max(sidecars.saturating_add(own));
        }
    }
    let running = pod.containers.iter().map(of);
    init.max(running.fold(sidecars, usize::saturating_add))
}

/// A negative amount, which the API server rejects, becomes more than any machine has, as in the kubelet.
fn whole_bytes(amount: Quantity) -> Result<u64, NotWholeBytes> {
    amount.as_i64().map(i64::cast_unsigned).ok_or(NotWholeBytes)
}

/// The pod's requests at its peak, by resource; pod-level requests take precedence. Mirrors `PodRequests`.
#[must_use]
pub fn effective_requests(pod: &Pod) -> ResourceList {
    effective(pod, |container| &container.requests, &pod.pod_requests)
}

/// The pod's limits at its peak, by resource; pod-level limits take precedence. Mirrors `PodLimits`.
#[must_use]
pub fn effective_limits(pod: &Pod) -> ResourceList {
    effective(pod, |container| &container.limits, &pod.pod_limits)
}

fn effective(
    pod: &Pod,
    list: impl Fn(&Container) -> &ResourceList,
    pod_level: &Option<ResourceList>,
) -> ResourceList {
    let mut running = ResourceList::new();
    for container in &pod.containers {
        add_amounts(&mut running, list(container));
    }
    let mut sidecars = ResourceList::new();
    let mut init = ResourceList::new();
    for container in &pod.init_containers {
        if container.restartable {
            add_amounts(&mut running, list(container));
        }
        // Resources that this container does not have are at their peak already.
        for (name, amount) in list(container) {
            let together = sidecars.get(name).copied().unwrap_or_default() + *amount;
            if container.restartable {
                sidecars.insert(name.clone(), together);
            }
            raise_amount(&mut init, name, together);
        }
    }
    for (name, amount) in init {
        raise_amount(&mut running, &name, amount);
    }
    for (name, amount) in pod_level.iter().flatten() {
        if is_pod_level(name) {
            running.insert(name.clone(), *amount);
        }
    }
    running
}

/// Adds amounts.
pub fn add_amounts(sum: &mut ResourceList, list: &ResourceList) {
    for (name, amount) in list {
        *sum.entry(name.clone()).or_default() += *amount;
    }
}

/// Raises one amount to at least `amount`.
pub fn raise_amount(most: &mut ResourceList, name: &ResourceName, amount: Quantity) {
    let own = most.entry(name.clone()).or_insert(amount);
    *own = amount.max(*own);
}

#[cfg(test)]
mod tests;
