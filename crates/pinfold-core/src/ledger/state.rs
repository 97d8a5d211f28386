//! [`LedgerState`]: the complete allocation state of one node, as it is serialized to the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::rules::Rules;
use crate::cpu::CpuState;
use crate::cpu_set::CpuSet;
use crate::device::{DevicePool, DeviceState};
use crate::hint::Hint;
use crate::memory::MemoryState;
use crate::name::{ContainerName, PodUid};
use crate::pod::Pod;

/// What every pod of one node holds. Changed only by the ledger, through edits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerState {
    pub(super) generation: u64,
    pub(super) cpus: CpuState,
    pub(super) memory: MemoryState,
    pub(super) pool: DevicePool,
    pub(super) devices: DeviceState,
    pub(super) admitted_pods: BTreeMap<PodUid, AdmittedPod>,
    #[serde(default)]
    pub(super) reusable_cpus: Option<ReusableCpus>,
}

/// An admitted pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmittedPod {
    /// The pod's spec.
    pub pod: Arc<Pod>,
    /// The generation at its admission; orders pods by admission.
    pub ordinal: u64,
    /// The merged hint of each container.
    pub affinities: BTreeMap<ContainerName, Hint>,
}

impl AdmittedPod {
    /// The merged hint of a container; [`Hint::NONE`] if it was not aligned.
    #[must_use]
    pub fn affinity(&self, container: &ContainerName) -> Hint {
        self.affinities
            .get(container)
            .copied()
            .unwrap_or(Hint::NONE)
    }
}

/// CPUs of init containers that later containers of the same pod may reuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReusableCpus {
    /// The pod.
    pub pod: PodUid,
    /// The CPUs.
    pub cpus: CpuSet,
}

impl LedgerState {
    /// The state of a node without pods.
    pub(super) fn empty(rules: &Rules) -> Self {
        let mut state = Self {
            memory: rules.memory.initial_state(),
            pool: DevicePool::new(rules.machine.node_ids()),
            ..Self::default()
        };
        let edits = rules
            .cpus
            .start(&state.cpus)
            .expect("a state without pods fits every machine");
        for edit in &edits {
            state
                .cpus
                .apply(edit)
                .expect("the edit was made for this state");
        }
        state
    }

    /// The shared pool and all exclusive CPUs.
    #[must_use]
    pub fn cpus(&self) -> &CpuState {
        &self.cpus
    }

    /// The memory table and all memory blocks.
    #[must_use]
    pub fn memory(&self) -> &MemoryState {
        &self.memory
    }

    /// The devices that plugins advertise.
    #[must_use]
    pub fn pool(&self) -> &DevicePool {
        &self.pool
    }

    /// Whether containers of `pod` may reuse CPUs of its init containers.
    pub fn has_reusable_cpus_of(&self, pod: &PodUid) -> bool {
        let reusable = self.reusable_cpus.as_ref();
        reusable.is_some_and(|reusable| reusable.pod == *pod && !reusable.cpus.is_empty())
    }

    /// The CPUs of init containers that later containers of `pod` may reuse.
    pub(crate) fn reusable_cpus_of(&self, pod: &PodUid) -> CpuSet {
        match &self.reusable_cpus {
            Some(reusable) if reusable.pod == *pod => reusable.cpus.clone(),
            _ => CpuSet::new(),
        }
    }

    /// The devices that each container holds.
    #[must_use]
    pub fn devices(&self) -> &DeviceState {
        &self.devices
    }

    /// Whether a pod that neither node holds is decided about the same way on both, under equal rules: the shared pools,
    /// the memory tables, and the devices offered and in use are equal. Which pods hold the rest does not matter.
    #[must_use]
    pub fn has_same_free_resources(&self, other: &Self) -> bool {
        self.cpus.shared() == other.cpus.shared()
            && self.memory.nodes() == other.memory.nodes()
            && self.pool == other.pool
            && self.devices.has_same_use(&other.devices)
    }

    /// The admitted pods by UID.
    #[must_use]
    pub fn admitted_pods(&self) -> &BTreeMap<PodUid, AdmittedPod> {
        &self.admitted_pods
    }
}
