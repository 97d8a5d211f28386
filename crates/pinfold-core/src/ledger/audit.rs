//! The audit: does the ledger add up? Everything is held once, nothing is lost, and nobody holds without living here.

use std::collections::{BTreeMap, BTreeSet};

use super::Ledger;
use crate::cpu_set::CpuSet;
use crate::name::{DeviceId, PodUid, ResourceName};
use crate::node_set::NodeSet;

/// Something that does not add up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditFinding {
    /// A pod that is not here holds something.
    #[error("pod {0} holds something but is not on this node")]
    Ghost(PodUid),
    /// Two pods hold the same CPUs.
    #[error("CPUs {cpus} are held by both {one} and {other}")]
    CpusTwice {
        /// Which.
        cpus: CpuSet,
        /// By whom.
        one: PodUid,
        /// And by whom.
        other: PodUid,
    },
    /// CPUs that are held are in the shared pool too.
    #[error("CPUs {cpus} of {pod} are in the shared pool as well")]
    CpusShared {
        /// Which.
        cpus: CpuSet,
        /// Whose.
        pod: PodUid,
    },
    /// CPUs that nobody has.
    #[error("CPUs {0} belong to nobody")]
    CpusLost(CpuSet),
    /// CPUs that the machine does not have.
    #[error("CPUs {0} are not CPUs of this machine")]
    CpusUnknown(CpuSet),
    /// A pod holds CPUs that are kept for the system.
    #[error("CPUs {cpus} of {pod} are reserved")]
    CpusReserved {
        /// Which.
        cpus: CpuSet,
        /// Whose.
        pod: PodUid,
    },
    /// Free and booked memory do not make what there is.
    #[error(
        "{resource} of NUMA nodes {nodes}: {free} free and {reserved} booked do not make {allocatable}"
    )]
    MemoryUneven {
        /// Which kind.
        resource: ResourceName,
        /// Where.
        nodes: NodeSet,
        /// What is free.
        free: u64,
        /// What is booked.
        reserved: u64,
        /// What there is.
        allocatable: u64,
    },
    /// The blocks of the pods are not what is booked.
    #[error("{resource}: pods hold {held}, but {reserved} is booked")]
    MemoryUnbooked {
        /// Which kind.
        resource: ResourceName,
        /// What the pods' blocks add up to.
        held: u64,
        /// What is booked on all nodes.
        reserved: u64,
    },
    /// Two pods hold the same device.
    #[error("device {device} of {resource} is held by both {one} and {other}")]
    DeviceTwice {
        /// Of which resource.
        resource: ResourceName,
        /// Which.
        device: DeviceId,
        /// By whom.
        one: PodUid,
        /// And by whom.
        other: PodUid,
    },
}

impl Ledger {
    /// Everything that does not add up; nothing, unless the ledger is a faithful copy of a kubelet that lost count.
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
                findings.push(AuditFinding::Ghost(pod.clone()));
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
        let mut booked: BTreeMap<ResourceName, u64> = BTreeMap::new();
        for (&node, row) in memory.nodes() {
            for (resource, amounts) in &row.memory {
                let booked = booked.entry(resource.clone()).or_default();
                *booked = booked.saturating_add(amounts.reserved);
                if amounts.free.saturating_add(amounts.reserved) != amounts.allocatable {
                    findings.push(AuditFinding::MemoryUneven {
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
                findings.push(AuditFinding::Ghost(pod.clone()));
            }
            for block in memory.blocks_charged_to(pod) {
                let held = held.entry(block.resource.clone()).or_default();
                *held = held.saturating_add(block.size);
            }
        }
        for (resource, reserved) in booked {
            let held = held.get(&resource).copied().unwrap_or(0);
            if held != reserved {
                findings.push(AuditFinding::MemoryUnbooked {
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
                findings.push(AuditFinding::Ghost(pod.clone()));
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
