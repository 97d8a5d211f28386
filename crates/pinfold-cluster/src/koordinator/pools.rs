//! CPU pools: the CPUs that pods without exclusive CPUs share, and the CPUs that a container may use.
//!
//! Mirrors the pools that Koordinator's node agent reports (`cpu-shared-pools`, `be-cpu-shared-pools`) and its hook
//! `getContainerCPUSet`:
//!
//! | CPUs held by | shared pool (LS) | best-effort pool (BE) |
//! |---|---|---|
//! | LSE | no | no |
//! | LSR | no | yes |
//! | pods the kubelet pins | no | no |
//! | the node's reservation, exclusive SYSTEM pods | no | no |
//! | the kubelet's reservation | yes | yes, and preferred there in sound mode |
//! | no pod | yes | yes |

use crate::koordinator::KoordinatorDefects;
use serde::Serialize;

use super::amounts::{CPU, NodeAmounts};
use super::cpu_topology::KoordinatorTopology;
use super::ledger::Allocation;
use super::qos::{KoordinatorQos, KubeletPinning};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::NodeId;
use pinfold_core::qos::QosClass;

/// The CPUs of a node by the class of their holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuHolders {
    /// CPUs of LSE pods.
    pub lse: CpuSet,
    /// CPUs of LSR pods, and of every other pod with bound CPUs.
    pub lsr: CpuSet,
    /// CPUs of pods that the kubelet pins.
    pub kubelet_pinned: CpuSet,
    /// CPUs of the node's reservation.
    pub node_reserved: CpuSet,
    /// CPUs of SYSTEM pods, if they are exclusive.
    pub system_exclusive: CpuSet,
    /// CPUs that the kubelet reserves: part of the pools, but never bound to pods.
    pub kubelet_reserved: CpuSet,
}

impl CpuHolders {
    /// Adds the CPUs of a pod.
    pub fn add(&mut self, qos: Option<KoordinatorQos>, cpus: &CpuSet) {
        match qos {
            Some(KoordinatorQos::Lse) => self.lse |= cpus,
            _ => self.lsr |= cpus,
        }
    }
}

/// The part of a pool on one NUMA node, as it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolPart {
    /// The socket.
    pub socket: i64,
    /// The NUMA node.
    pub node: i64,
    /// The CPUs; never empty.
    pub cpuset: CpuSet,
}

/// The pools of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// The pool of LS pods and pods without a class.
    pub shared: Vec<PoolPart>,
    /// The pool of best-effort pods.
    pub best_effort: Vec<PoolPart>,
    /// The CPUs of the best-effort pool that best-effort pods should use first: the kubelet's reservation.
    pub best_effort_first: CpuSet,
}

impl Pools {
    /// The pools of a node with these holders.
    #[must_use]
    pub fn of(topology: &KoordinatorTopology, holders: &CpuHolders) -> Self {
        let mut unbound = topology.all() - &holders.kubelet_pinned;
        unbound -= &holders.node_reserved;
        unbound -= &holders.system_exclusive;
        unbound -= &holders.lse;
        let shared = &unbound - &holders.lsr;
        Self {
            shared: parts(topology, &shared),
            best_effort_first: &unbound & &holders.kubelet_reserved,
            best_effort: parts(topology, &unbound),
        }
    }
}

/// A pool split by socket and NUMA node, ascending.
fn parts(topology: &KoordinatorTopology, pool: &CpuSet) -> Vec<PoolPart> {
    let mut parts = Vec::new();
    for socket in &topology.sockets {
        let in_socket = pool & &socket.cpus;
        for node in &topology.nodes {
            let cpuset = &in_socket & &node.cpus;
            if !cpuset.is_empty() {
                parts.push(PoolPart {
                    socket: socket.id,
                    node: node.id,
                    cpuset,
                });
            }
        }
    }
    parts
}

/// The union of the CPUs of some parts.
#[must_use]
pub fn union(parts: &[PoolPart]) -> CpuSet {
    let mut cpus = CpuSet::new();
    for part in parts {
        cpus |= &part.cpuset;
    }
    cpus
}

/// What decides which CPUs a container may use.
#[derive(Clone, Copy, Debug)]
pub struct ContainerTerms<'a> {
    /// The class its pod is labelled with.
    pub qos: Option<KoordinatorQos>,
    /// The Kubernetes QoS class of its pod.
    pub kube_qos: QosClass,
    /// The allocation that the scheduler wrote to its pod.
    pub allocation: Option<&'a Allocation>,
    /// CPUs for SYSTEM pods; empty: no rule for them.
    pub system_cpus: &'a CpuSet,
    /// Whether the kubelet pins CPUs itself.
    pub kubelet: KubeletPinning,
    /// Whether best-effort pods are aligned to NUMA nodes (gate `BECPUManager`).
    pub aligns_best_effort: bool,
}

/// Which CPUs a container may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedCpus {
    /// The pod's exclusive CPUs; its CPU quota is removed.
    Own(CpuSet),
    /// CPUs that it shares with other pods.
    Shared(CpuSet),
    /// The CPUs of the parent cgroup: the cpuset is cleared.
    Inherited,
    /// The cpuset is not changed, because the kubelet sets it.
    Untouched,
}

impl Pools {
    /// Which CPUs a container may use, by the first rule that applies.
    #[must_use]
    pub fn allowed_cpus(&self, terms: &ContainerTerms<'_>, fidelity: Fidelity) -> AllowedCpus {
        if let Some(own) = terms
            .allocation
            .filter(|allocation| !allocation.cpus.is_empty())
        {
            return AllowedCpus::Own(own.cpus.clone());
        }
        let best_effort = terms.qos == Some(KoordinatorQos::Be);
        let numa = terms
            .allocation
            .map_or(&[][..], |allocation| &allocation.numa);
        let aligned = numa.iter().any(gives_cpu);
        let mentioned = |parts: &[PoolPart]| {
            let named = |part: &&PoolPart| {
                numa.iter()
                    .any(|given| i64::from(NodeId::get(given.node)) == part.node)
            };
            let some: Vec<PoolPart> = parts.iter().filter(named).cloned().collect();
            union(&some)
        };
        match (best_effort, aligned) {
            (true, true) if terms.aligns_best_effort => {
                return AllowedCpus::Shared(mentioned(&self.best_effort));
            }
            (false, true) => return AllowedCpus::Shared(mentioned(&self.shared)),
            _ => {}
        }
        if terms.qos == Some(KoordinatorQos::System) && !terms.system_cpus.is_empty() {
            return AllowedCpus::Shared(terms.system_cpus.clone());
        }
        if terms.qos == Some(KoordinatorQos::Ls) {
            return AllowedCpus::Shared(union(&self.shared));
        }
        if terms.kube_qos == QosClass::BestEffort || best_effort {
            return match fidelity.leaves_best_effort_to_suppression() {
                true if terms.kube_qos == QosClass::BestEffort => AllowedCpus::Inherited,
                true => self.without_rule(terms.kubelet),
                false => AllowedCpus::Shared(union(&self.best_effort)),
            };
        }
        self.without_rule(terms.kubelet)
    }

    fn without_rule(&self, kubelet: KubeletPinning) -> AllowedCpus {
        match kubelet {
            KubeletPinning::Static => AllowedCpus::Untouched,
            KubeletPinning::None => AllowedCpus::Shared(union(&self.shared)),
        }
    }
}

/// Whether the allocation has CPU on the NUMA node, ordinary or best-effort.
fn gives_cpu(part: &NodeAmounts) -> bool {
    part.amounts.get(CPU) != 0 || part.amounts.get("kubernetes.io/batch-cpu") > 0
}

#[cfg(test)]
mod tests;
