//! Pods that still have the CPUs which the kubelet's CPU manager assigned before the agent took the node over.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::PodUid;

use super::ManagedNode;
use pinfold_journal::PodOrigin;

/// CPUs that the kubelet's CPU manager assigned. Its pods keep them until they terminate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletPins {
    /// Exclusive CPUs by pod and container, from `cpu_manager_state`.
    pub pods: pinfold_core::cpu::ContainerCpus,
}

impl ManagedNode {
    /// Number of running pods that the kubelet pinned. 0: the takeover is complete.
    #[must_use]
    pub fn kubelet_pinned(&self) -> usize {
        let records = self.journaled.records().values();
        records
            .filter(|record| record.origin == PodOrigin::Kubelet)
            .count()
    }

    /// The running pods that the kubelet pinned, with their CPUs.
    #[must_use]
    pub fn pinned_by_kubelet(&self) -> BTreeMap<PodUid, CpuSet> {
        let records = self.journaled.records().iter();
        let pinned = records.filter(|(_, record)| record.origin == PodOrigin::Kubelet);
        let ledger = self.journaled.ledger();
        pinned
            .map(|(pod, _)| (pod.clone(), ledger.exclusive_cpus(pod)))
            .collect()
    }
}
