//! Demand: the CPUs and memory that a pod and its containers request, after the rules about init containers, sidecars
//! and QoS.
//!
//! Init containers run one after the other, then the app containers together; a sidecar (a restartable init container)
//! starts in its turn and keeps running. So a pod's peak is the larger of two amounts: the sum of the app containers
//! and all sidecars, and the largest init container with the sidecars started before it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::name::ResourceName;
use crate::pod::{Container, Pod, ResourceList};
use crate::qos::{QosClass, is_guaranteed_alone};
use crate::quantity::Quantity;

/// Whether the CPU and memory manager support pod-level resources (the kubelet's feature gate
/// `PodLevelResourceManagers`, off by default).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodLevel {
    /// Pods with pod-level resources are neither aligned nor assigned exclusive CPUs.
    #[default]
    Ignored,
    /// Pod-level resources are managed as a whole.
    Managed,
}

impl PodLevel {
    /// Whether this pod has pod-level resources that are managed as a whole.
    #[must_use]
    pub fn manages(self, pod: &Pod) -> bool {
        self == PodLevel::Managed && has_pod_level_resources(pod)
    }
}

/// Requested memory and hugepages, in bytes by resource name.
pub type MemoryDemand = BTreeMap<ResourceName, u64>;

/// A memory quantity that is not a whole number of bytes. The message is the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("[memorymanager] failed to represent quantity as int64")]
pub struct NotWholeBytes;

/// Whether the pod has pod-level resources that Kubernetes supports. Mirrors `IsPodLevelResourcesSet`.
#[must_use]
pub fn has_pod_level_resources(pod: &Pod) -> bool {
    let lists = [&pod.pod_requests, &pod.pod_limits];
    let mut names = lists.into_iter().flatten().flat_map(BTreeMap::keys);
    names.any(is_pod_level)
}

/// Whether Kubernetes supports a resource at pod level.
fn is_pod_level(name: &ResourceName) -> bool {
    name.as_str() == "cpu" || is_memory(name)
}

/// Whether the memory manager manages a resource: memory, and hugepages of any size.
#[must_use]
pub fn is_memory(name: &ResourceName) -> bool {
    name.as_str() == "memory" || name.as_str().starts_with("hugepages-")
}

/// The number of exclusive CPUs of a container; 0 means the shared pool. Mirrors the static policy's `guaranteedCPUs`.
#[must_use]
pub fn container_cpus(pod: &Pod, container: &Container, pod_level: PodLevel) -> usize {
    let eligible = QosClass::of(pod) == QosClass::Guaranteed
        && (!pod_level.manages(pod) || is_guaranteed_alone(container));
    match container.requests.get("cpu") {
        Some(request) if eligible => whole_cpus(*request),
        _ => 0,
    }
}

/// The number of exclusive CPUs that the pod needs at its peak. Mirrors `podGuaranteedCPUs`.
#[must_use]
pub fn pod_cpus(pod: &Pod, pod_level: PodLevel) -> usize {
    if !pod_level.manages(pod) {
        return peak(pod, |container| container_cpus(pod, container, pod_level));
    }
    let request = pod.pod_requests.as_ref().and_then(|list| list.get("cpu"));
    match request {
        Some(request) if QosClass::of(pod) == QosClass::Guaranteed => whole_cpus(*request),
        _ => 0,
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

/// The memory that one container requests, by type. Mirrors `getContainerRequestedResources`.
///
/// # Errors
/// If an amount is not a whole number of bytes.
pub fn container_memory(
    pod: &Pod,
    container: &Container,
    pod_level: PodLevel,
) -> Result<MemoryDemand, NotWholeBytes> {
    if pod_level.manages(pod) && !is_guaranteed_alone(container) {
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
pub fn pod_memory(pod: &Pod, pod_level: PodLevel) -> Result<MemoryDemand, NotWholeBytes> {
    if pod_level.manages(pod) {
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
    let demand = |container| container_memory(pod, container, pod_level);
    let mut sidecars = MemoryDemand::new();
    let mut init = MemoryDemand::new();
    for container in &pod.init_containers {
        for (name, bytes) in demand(container)? {
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
        for (name, bytes) in demand(container)? {
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
        add(&mut running, list(container));
    }
    let mut sidecars = ResourceList::new();
    let mut init = ResourceList::new();
    for container in &pod.init_containers {
        let mut together = sidecars.clone();
        add(&mut together, list(container));
        if container.restartable {
            add(&mut running, list(container));
            sidecars.clone_from(&together);
        }
        raise(&mut init, &together);
    }
    raise(&mut running, &init);
    for (name, amount) in pod_level.iter().flatten() {
        if is_pod_level(name) {
            running.insert(name.clone(), *amount);
        }
    }
    running
}

fn add(sum: &mut ResourceList, list: &ResourceList) {
    for (name, amount) in list {
        *sum.entry(name.clone()).or_default() += *amount;
    }
}

/// Raises every amount to at least that of `list`.
fn raise(most: &mut ResourceList, list: &ResourceList) {
    for (name, amount) in list {
        let own = most.entry(name.clone()).or_insert(*amount);
        *own = (*amount).max(*own);
    }
}

#[cfg(test)]
mod tests;
