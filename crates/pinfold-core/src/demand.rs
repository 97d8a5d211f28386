//! Demand: what a pod and its containers ask for, after the rules about init containers, sidecars and QoS.

use std::collections::BTreeMap;

use crate::name::ResourceName;
use crate::pod::{Container, Pod};

/// Whether pod-level resources take part in CPU and memory management (the kubelet's feature gate
/// `PodLevelResourceManagers`, off by default).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodLevel {
    /// Pods with pod-level resources are neither aligned nor given exclusive CPUs.
    #[default]
    Ignored,
    /// Pod-level resources are managed as a whole.
    Managed,
}

/// Memory and hugepages asked for, in bytes by resource name.
pub type MemoryDemand = BTreeMap<ResourceName, u64>;

/// A memory quantity that is not a whole number of bytes. The message is the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[memorymanager] failed to represent quantity as int64")]
pub struct NotWholeBytes;

/// How many exclusive CPUs the container gets; 0 means the shared pool. Mirrors the static policy's
/// `guaranteedCPUs`.
#[must_use]
pub fn container_cpus(pod: &Pod, container: &Container, pod_level: PodLevel) -> usize {
    let _ = (pod, container, pod_level);
    0
}

/// How many exclusive CPUs the pod needs at its peak. Mirrors `podGuaranteedCPUs`.
#[must_use]
pub fn pod_cpus(pod: &Pod, pod_level: PodLevel) -> usize {
    let _ = (pod, pod_level);
    0
}

/// The memory types one container asks for. Mirrors `getContainerRequestedResources`.
///
/// # Errors
/// If an amount is not a whole number of bytes.
pub fn container_memory(container: &Container) -> Result<MemoryDemand, NotWholeBytes> {
    let _ = container;
    Ok(MemoryDemand::new())
}

/// The memory types the pod needs at its peak. Mirrors `getPodRequestedResources`.
///
/// # Errors
/// If an amount is not a whole number of bytes.
pub fn pod_memory(pod: &Pod) -> Result<MemoryDemand, NotWholeBytes> {
    let _ = pod;
    Ok(MemoryDemand::new())
}
