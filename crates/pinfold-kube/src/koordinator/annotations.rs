//! [`ReportAnnotations`]: what the annotations of a node's report say.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::koordinator::amplify::Ratios;
use pinfold_core::koordinator::cpu_topology::ReportedCpu;
use pinfold_core::pod::ResourceList;

/// The keys of the annotations.
pub mod keys {
    /// Where each CPU sits.
    pub const CPU_TOPOLOGY: &str = "node.koordinator.sh/cpu-topology";
    /// What LS pods share.
    pub const SHARED_POOLS: &str = "node.koordinator.sh/cpu-shared-pools";
    /// What best-effort pods share.
    pub const BE_SHARED_POOLS: &str = "node.koordinator.sh/be-cpu-shared-pools";
    /// Pods with CPUs of their own.
    pub const POD_CPU_ALLOCS: &str = "node.koordinator.sh/pod-cpu-allocs";
    /// The kubelet's CPU manager.
    pub const CPU_MANAGER_POLICY: &str = "kubelet.koordinator.sh/cpu-manager-policy";
    /// What the node keeps from pods. On nodes and on their reports.
    pub const RESERVATION: &str = "node.koordinator.sh/reservation";
    /// CPUs of SYSTEM pods. On nodes and on their reports.
    pub const SYSTEM_QOS: &str = "node.koordinator.sh/system-qos-resource";
    /// How much more the node promises than it has. On nodes and on their reports.
    pub const RATIOS: &str = "node.koordinator.sh/resource-amplification-ratio";
    /// What the node offers before amplification. On nodes.
    pub const RAW_ALLOCATABLE: &str = "node.koordinator.sh/raw-allocatable";
    /// How CPUs are bound. A label of nodes.
    pub const BIND_POLICY: &str = "node.koordinator.sh/cpu-bind-policy";
    /// Which NUMA node is taken first. A label of nodes.
    pub const ALLOCATE_STRATEGY: &str = "node.koordinator.sh/numa-allocate-strategy";
    /// How pods are aligned. A label of nodes.
    pub const NUMA_POLICY: &str = "node.koordinator.sh/numa-topology-policy";
    /// A pod's class. A label.
    pub const QOS_CLASS: &str = "koordinator.sh/qosClass";
    /// A pod's priority class. A label.
    pub const PRIORITY_CLASS: &str = "koordinator.sh/priority-class";
    /// What a pod asks of its CPUs.
    pub const RESOURCE_SPEC: &str = "scheduling.koordinator.sh/resource-spec";
    /// How a pod is to be aligned.
    pub const NUMA_SPEC: &str = "scheduling.koordinator.sh/numa-topology-spec";
    /// What a pod got.
    pub const RESOURCE_STATUS: &str = "scheduling.koordinator.sh/resource-status";
}

/// What the annotations of one report say. What is not there is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportAnnotations {
    /// Where each CPU sits. Core ids are the kernel's: unique only inside a socket.
    pub cpus: Vec<ReportedCpu>,
    /// What LS and ordinary pods share.
    pub shared_pools: Vec<SharedPoolRow>,
    /// What best-effort pods share.
    pub be_shared_pools: Vec<SharedPoolRow>,
    /// Pods with CPUs of their own.
    pub pod_cpus: Vec<PodCpuAllocation>,
    /// The kubelet's CPU manager.
    pub cpu_manager: CpuManagerInfo,
    /// What the node keeps from pods.
    pub reservation: NodeReservation,
    /// CPUs of SYSTEM pods.
    pub system: Option<SystemQosCpus>,
    /// The ratios that the zones are amplified with already.
    pub ratios: Option<Ratios>,
}

/// What the annotations of a node itself ask its agent to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAnnotations {
    /// What the node keeps from pods.
    pub reservation: NodeReservation,
    /// CPUs of SYSTEM pods.
    pub system: Option<SystemQosCpus>,
    /// What the node offers before amplification.
    pub raw_allocatable: ResourceList,
}

/// The part of a pool on one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedPoolRow {
    /// The socket.
    pub socket: i64,
    /// The NUMA node.
    pub node: i64,
    /// The CPUs.
    pub cpus: CpuSet,
}

/// A pod with CPUs of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCpuAllocation {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its id.
    pub uid: String,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Whether the kubelet pinned it.
    pub managed_by_kubelet: bool,
}

/// The kubelet's CPU manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuManagerInfo {
    /// `none` or `static`; empty if nobody looked.
    pub policy: String,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// CPUs it keeps for the system.
    pub reserved: CpuSet,
}

/// What a node keeps from pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReservation {
    /// How much of each resource.
    pub resources: ResourceList,
    /// Which CPUs. They win over the amount of CPU.
    pub cpus: CpuSet,
    /// What to do with it: empty, `Default` or `ReservedCPUsOnly`.
    pub apply_policy: String,
}

/// The CPUs of SYSTEM pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemQosCpus {
    /// Which.
    pub cpus: CpuSet,
    /// Whether nobody else may use them.
    pub exclusive: bool,
}
