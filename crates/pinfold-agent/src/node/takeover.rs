//! Taking a node over from a kubelet that pinned CPUs: who still has CPUs from it.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::PodUid;

use super::Node;
use pinfold_journal::PodOrigin;

/// What the kubelet has pinned itself and keeps until it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletPins {
    /// The CPUs in its state file.
    pub pods: pinfold_core::cpu::ContainerCpus,
}

impl Node {
    /// How many pods the kubelet pinned before and still run. None: everything here is ours.
    #[must_use]
    pub fn kubelet_pinned(&self) -> usize {
        let notes = self.journaled.records().values();
        notes
            .filter(|note| note.origin == PodOrigin::Kubelet)
            .count()
    }

    /// The pods that the kubelet pinned before and that still run, with their CPUs.
    #[must_use]
    pub fn pinned_by_kubelet(&self) -> BTreeMap<PodUid, CpuSet> {
        let notes = self.journaled.records().iter();
        let pinned = notes.filter(|(_, note)| note.origin == PodOrigin::Kubelet);
        let ledger = self.journaled.ledger();
        pinned
            .map(|(pod, _)| (pod.clone(), ledger.exclusive_cpus(pod)))
            .collect()
    }
}
