//! Consistency checks of a ledger: every CPU, byte and device is held at most once, none is lost, and every holder is
//! an admitted pod.

use std::collections::{BTreeMap, BTreeSet};

use super::Ledger;
use crate::cpu_set::CpuSet;
use crate::name::{DeviceId, PodUid, ResourceName};
use crate::node_set::NodeSet;

/// An inconsistency in a ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditFinding {
    /// A pod that is not admitted holds resources.
    #[error("pod {0} holds resources but is not admitted")]
    NotAdmitted(PodUid),
    /// Two pods hold the same CPUs.
    #[error("CPUs {cpus} are held by both {one} and {other}")]
    CpusTwice {
        /// The CPUs.
        cpus: CpuSet,
        /// One holder.
        one: PodUid,
        /// The other holder.
        other: PodUid,
    },
    /// CPUs are held exclusively and are in the shared pool as well.
    #[error("CPUs {cpus} of {pod} are in the shared pool as well")]
    CpusShared {
        /// The CPUs.
        cpus: CpuSet,
        /// The holder.
        pod: PodUid,
    },
    /// CPUs that are neither held exclusively nor in the shared pool.
    #[error("CPUs {0} are neither assigned nor in the shared pool")]
    CpusLost(CpuSet),
    /// CPUs that the machine does not have.
    #[error("CPUs {0} are not CPUs of this machine")]
    CpusUnknown(CpuSet),
    /// A pod holds CPUs that are reserved for the system.
    #[error("CPUs {cpus} of {pod} are reserved")]
    CpusReserved {
        /// The CPUs.
        cpus: CpuSet,
        /// The holder.
        pod: PodUid,
    },
    /// On some NUMA nodes free and allocated memory do not add up to the allocatable memory.
    #[error(
        "{resource} of NUMA nodes {nodes}: {free} free and {reserved} allocated do not add up to {allocatable} allocatable"
    )]
    MemoryTotals {
        /// `memory` or `hugepages-<size>`.
        resource: ResourceName,
        /// The NUMA nodes.
        nodes: NodeSet,
        /// Free bytes in the memory table.
        free: u64,
        /// Allocated bytes in the memory table.
        reserved: u64,
        /// Allocatable bytes in the memory table.
        allocatable: u64,
    },
    /// The memory blocks of all pods do not add up to the allocated memory in the table.
    #[error("{resource}: pods hold {held}, but the table says {reserved}")]
    MemoryBlocks {
        /// `memory` or `hugepages-<size>`.
        resource: ResourceName,
        /// The sum of the pods' blocks in bytes.
        held: u64,
        /// The allocated bytes of all NUMA nodes in the memory table.
        reserved: u64,
    },
    /// Two pods hold the same device.
    #[error("device {device} of {resource} is held by both {one} and {other}")]
    DeviceTwice {
        /// The resource of the device.
        resource: ResourceName,
        /// The device.
        device: DeviceId,
        /// One holder.
        one: PodUid,
        /// The other holder.
        other: PodUid,
    },
}

impl Ledger {
    /// All inconsistencies. Empty unless the ledger repeats the kubelet's defects ([`Fidelity::Exact`]) and the kubelet
    /// would be inconsistent too.
    ///
    /// [`Fidelity::Exact`]: crate::fidelity::Fidelity::Exact
    #[must_use]
    pub fn audit(&self) -> Vec<AuditFinding> {
        let mut findings = Vec::new();
        self.audit_cpus(&mut findings);
        self.audit_memory(&mut findings);
        self.audit_devices(&mut findings);
        findings
    }

    fn audit_cpus(&self, findings: &mut Vec<AuditFinding>) {
        let Some(policy) = self.rules.cpus.as_static() else {
            return;
        };
        let cpus = &self.state.cpus;
        let shared = cpus.shared();
        let mut held: BTreeMap<&PodUid, CpuSet> = BTreeMap::new();
        for pod in cpus.containers().keys().chain(cpus.pods().keys()) {
            let mut own = cpus.containers_of(pod);
            if let Some(whole) = cpus.pod(pod) {
                own |= whole;
            }
            held.insert(pod, own);
        }
        let mut seen = shared.clone();
        for (&pod, own) in &held {
            if !self.state.admitted_pods.contains_key(pod) {
                findings.push(AuditFinding::NotAdmitted(pod.clone()));
            }
            let common = own & shared;
            if !common.is_empty() {
                findings.push(AuditFinding::CpusShared {
                    cpus: common,
                    pod: pod.clone(),
                });
            }
            let reserved = own & policy.reserved();
            if !reserved.is_empty() {
                findings.push(AuditFinding::CpusReserved {
                    cpus: reserved,
                    pod: pod.clone(),
                });
            }
            for (&other, theirs) in held
                .range::<PodUid, _>((std::ops::Bound::Excluded(pod), std::ops::Bound::Unbounded))
            {
                let common = own & theirs;
                if !common.is_empty() {
                    findings.push(AuditFinding::CpusTwice {
                        cpus: common,
                        one: pod.clone(),
                        other: other.clone(),
                    });
                }
            }
            seen |= own;
        }
        if policy.options().strict_reservation {
            seen |= policy.reserved();
        }
        let lost = self.rules.topology.all() - &seen;
        if !lost.is_empty() {
            findings.push(AuditFinding::CpusLost(lost));
        }
        let unknown = &seen - self.rules.topology.all();
        if !unknown.is_empty() {
            findings.push(AuditFinding::CpusUnknown(unknown));
        }
    }

    fn audit_memory(&self, findings: &mut Vec<AuditFinding>) {
        let memory = &self.state.memory;
        let mut allocated: BTreeMap<ResourceName, u64> = BTreeMap::new();
        for (&node, row) in memory.nodes() {
            for (resource, amounts) in &row.memory {
                let allocated = allocated.entry(resource.clone()).or_default();
                *allocated = allocated.saturating_add(amounts.reserved);
                if amounts.free.saturating_add(amounts.reserved) != amounts.allocatable {
                    findings.push(AuditFinding::MemoryTotals {
                        resource: resource.clone(),
                        nodes: NodeSet::single(node),
                        free: amounts.free,
                        reserved: amounts.reserved,
                        allocatable: amounts.allocatable,
                    });
                }
            }
        }
        let mut held: BTreeMap<ResourceName, u64> = BTreeMap::new();
        let pods: BTreeSet<&PodUid> = memory
            .assignments()
            .keys()
            .chain(memory.pod_assignments().keys())
            .collect();
        for pod in pods {
            if !self.state.admitted_pods.contains_key(pod) {
                findings.push(AuditFinding::NotAdmitted(pod.clone()));
            }
            for block in memory.blocks_charged_to(pod) {
                let held = held.entry(block.resource.clone()).or_default();
                *held = held.saturating_add(block.size);
            }
        }
        for (resource, reserved) in allocated {
            let held = held.get(&resource).copied().unwrap_or(0);
            if held != reserved {
                findings.push(AuditFinding::MemoryBlocks {
                    resource,
                    held,
                    reserved,
                });
            }
        }
    }

    fn audit_devices(&self, findings: &mut Vec<AuditFinding>) {
        let mut holder: BTreeMap<(ResourceName, DeviceId), PodUid> = BTreeMap::new();
        for (pod, containers) in self.state.devices.pods() {
            if !self.state.admitted_pods.contains_key(pod) {
                findings.push(AuditFinding::NotAdmitted(pod.clone()));
            }
            for (resource, device) in
                containers
                    .values()
                    .flatten()
                    .flat_map(|(resource, devices)| {
                        devices.iter().map(move |device| (resource, device))
                    })
            {
                let key = (resource.clone(), device.clone());
                match holder.get(&key) {
                    Some(one) if one != pod => findings.push(AuditFinding::DeviceTwice {
                        resource: key.0,
                        device: key.1,
                        one: one.clone(),
                        other: pod.clone(),
                    }),
                    _ => drop(holder.insert(key, pod.clone())),
                }
            }
        }
    }
}
