//! [`ReportAnnotations`]: Koordinator's annotations on a node's NodeResourceTopology.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::amplify::Ratios;
use pinfold_cluster::koordinator::cpu_topology::ReportedCpu;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::pod::ResourceList;

/// The keys of Koordinator's labels and annotations.
pub mod keys {
    /// The core, socket and NUMA node of each CPU.
    pub const CPU_TOPOLOGY: &str = "node.koordinator.sh/cpu-topology";
    /// The shared pools of LS pods.
    pub const SHARED_POOLS: &str = "node.koordinator.sh/cpu-shared-pools";
    /// The shared pools of best-effort pods.
    pub const BE_SHARED_POOLS: &str = "node.koordinator.sh/be-cpu-shared-pools";
    /// The pods with exclusive CPUs.
    pub const POD_CPU_ALLOCS: &str = "node.koordinator.sh/pod-cpu-allocs";
    /// The policy of the kubelet's CPU manager.
    pub const CPU_MANAGER_POLICY: &str = "kubelet.koordinator.sh/cpu-manager-policy";
    /// The resources reserved on the node. On nodes and on their reports.
    pub const RESERVATION: &str = "node.koordinator.sh/reservation";
    /// The CPUs of SYSTEM pods. On nodes and on their reports.
    pub const SYSTEM_QOS: &str = "node.koordinator.sh/system-qos-resource";
    /// The amplification ratios. On nodes and on their reports.
    pub const RATIOS: &str = "node.koordinator.sh/resource-amplification-ratio";
    /// The allocatable resources before amplification. On nodes.
    pub const RAW_ALLOCATABLE: &str = "node.koordinator.sh/raw-allocatable";
    /// The CPU bind policy. A label of nodes.
    pub const BIND_POLICY: &str = "node.koordinator.sh/cpu-bind-policy";
    /// The NUMA allocation strategy. A label of nodes.
    pub const ALLOCATE_STRATEGY: &str = "node.koordinator.sh/numa-allocate-strategy";
    /// The NUMA topology policy. A label of nodes.
    pub const NUMA_POLICY: &str = "node.koordinator.sh/numa-topology-policy";
    /// A pod's QoS class. A label.
    pub const QOS_CLASS: &str = "koordinator.sh/qosClass";
    /// A pod's priority class. A label.
    pub const PRIORITY_CLASS: &str = "koordinator.sh/priority-class";
    /// A pod's CPU bind policies.
    pub const RESOURCE_SPEC: &str = "scheduling.koordinator.sh/resource-spec";
    /// A pod's NUMA topology policy.
    pub const NUMA_SPEC: &str = "scheduling.koordinator.sh/numa-topology-spec";
    /// The CPUs and NUMA resources allocated to a pod.
    pub const RESOURCE_STATUS: &str = "scheduling.koordinator.sh/resource-status";
}

/// The parsed annotations of a report. A missing annotation is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportAnnotations {
    /// The core, socket and NUMA node of each CPU. Core ids of other writers may repeat per socket.
    pub cpus: Vec<ReportedCpu>,
    /// The shared pools of LS pods and of pods without a QoS class.
    pub shared_pools: Vec<SharedPoolRow>,
    /// The shared pools of best-effort pods.
    pub be_shared_pools: Vec<SharedPoolRow>,
    /// The pods with exclusive CPUs.
    pub pod_cpus: Vec<PodCpuAllocation>,
    /// The kubelet's CPU manager.
    pub cpu_manager: CpuManagerInfo,
    /// The resources reserved on the node.
    pub reservation: NodeReservation,
    /// The CPUs of SYSTEM pods.
    pub system: Option<SystemQosCpus>,
    /// The ratios by which the zones are already amplified.
    pub ratios: Option<Ratios>,
}

/// The parsed annotations of a Node object, which its agent copies to the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAnnotations {
    /// The resources reserved on the node.
    pub reservation: NodeReservation,
    /// The CPUs of SYSTEM pods.
    pub system: Option<SystemQosCpus>,
    /// The allocatable resources before amplification.
    pub raw_allocatable: ResourceList,
}

/// The part of a shared pool on one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedPoolRow {
    /// The socket.
    pub socket: i64,
    /// The NUMA node.
    pub node: i64,
    /// The CPUs.
    pub cpus: CpuSet,
}

/// A pod with exclusive CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCpuAllocation {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Whether the kubelet pinned it.
    pub managed_by_kubelet: bool,
}

/// The kubelet's CPU manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuManagerInfo {
    /// `none` or `static`; empty if unknown.
    pub policy: String,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// The CPUs reserved for the system.
    pub reserved: CpuSet,
}

/// The resources reserved on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReservation {
    /// The amount of each resource.
    pub resources: ResourceList,
    /// The CPUs. They have precedence over the amount of CPU.
    pub cpus: CpuSet,
    /// How it is applied: empty, `Default` or `ReservedCPUsOnly`.
    pub apply_policy: String,
}

/// The CPUs of SYSTEM pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemQosCpus {
    /// The CPUs.
    pub cpus: CpuSet,
    /// Whether they are exclusive to SYSTEM pods.
    pub exclusive: bool,
}
