//! Taking a node over from a kubelet that pinned CPUs: who still has CPUs from it, and where two of us pin.

use std::collections::BTreeMap;
use std::fmt;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::PodUid;
use pinfold_kube::state::CpuManagerState;

use super::Node;
use crate::keeper::Origin;

/// What the kubelet has pinned itself and keeps until it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletPins {
    /// The CPUs in its state file.
    pub pods: pinfold_core::cpu::ContainerCpus,
}

/// CPUs that the kubelet gave to one pod and this node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Which.
    pub cpus: CpuSet,
    /// The pod that the kubelet gave them to.
    pub pinned: PodUid,
    /// Who holds them here.
    pub holder: PodUid,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpus,
            pinned,
            holder,
        } = self;
        write!(
            f,
            "CPUs {cpus} are pinned for pod {pinned} by the kubelet and held by pod {holder}: set the kubelet's \
             cpuManagerPolicy to none, or leave new pods to it"
        )
    }
}

impl Node {
    /// How many pods the kubelet pinned before and still run. None: everything here is ours.
    #[must_use]
    pub fn kubelet_pinned(&self) -> usize {
        let notes = self.keeper.notes().values();
        notes.filter(|note| note.origin == Origin::Kubelet).count()
    }

    /// The pods that the kubelet pinned before and that still run, with their CPUs.
    #[must_use]
    pub fn pinned_by_kubelet(&self) -> BTreeMap<PodUid, CpuSet> {
        let notes = self.keeper.notes().iter();
        let pinned = notes.filter(|(_, note)| note.origin == Origin::Kubelet);
        let ledger = self.keeper.ledger();
        pinned
            .map(|(pod, _)| (pod.clone(), ledger.exclusive_cpus(pod)))
            .collect()
    }

    /// The CPUs that the kubelet has given to a container and that another pod holds here. Who pins is not clear then.
    #[must_use]
    pub fn overlap(&self, kubelet: &CpuManagerState) -> Vec<Overlap> {
        let ledger = self.keeper.ledger();
        let mut found = Vec::new();
        for (pinned, containers) in &kubelet.containers {
            let mut given = CpuSet::new();
            containers.values().for_each(|cpus| given |= cpus);
            for holder in ledger.state().residents().keys() {
                // A container that was decided about alone is part of its pod.
                let pod = holder.as_str().split('/').next().unwrap_or_default();
                let cpus = &given & &ledger.exclusive_cpus(holder);
                if pod != pinned.as_str() && !cpus.is_empty() {
                    found.push(Overlap {
                        cpus,
                        pinned: pinned.clone(),
                        holder: holder.clone(),
                    });
                }
            }
        }
        found
    }
}
