//! [`LedgerState`]: everything that is written down about one node.

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

/// Who holds what on one node. Changed only by the ledger, through edits.
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

/// A pod that lives on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmittedPod {
    /// What it requested for.
    pub pod: Arc<Pod>,
    /// Its place in the order in which pods came.
    pub ordinal: u64,
    /// Where each container was aligned to.
    pub affinities: BTreeMap<ContainerName, Hint>,
}

impl AdmittedPod {
    /// Where a container was aligned to; nowhere in particular if it was not.
    #[must_use]
    pub fn affinity(&self, container: &ContainerName) -> Hint {
        self.affinities
            .get(container)
            .copied()
            .unwrap_or(Hint::NONE)
    }
}

/// CPUs that init containers of one pod held and that its later containers may use again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReusableCpus {
    /// Whose.
    pub pod: PodUid,
    /// Which.
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

    /// CPUs: the shared pool and who holds what.
    #[must_use]
    pub fn cpus(&self) -> &CpuState {
        &self.cpus
    }

    /// Memory: the table and who holds what.
    #[must_use]
    pub fn memory(&self) -> &MemoryState {
        &self.memory
    }

    /// The devices that plugins offer.
    #[must_use]
    pub fn pool(&self) -> &DevicePool {
        &self.pool
    }

    /// Whether containers of `pod` may use CPUs again.
    pub(crate) fn has_reusable_cpus_of(&self, pod: &PodUid) -> bool {
        let reusable = self.reusable_cpus.as_ref();
        reusable.is_some_and(|reusable| reusable.pod == *pod && !reusable.cpus.is_empty())
    }

    /// The CPUs that containers of `pod` may use again.
    pub(crate) fn reusable_cpus_of(&self, pod: &PodUid) -> CpuSet {
        match &self.reusable_cpus {
            Some(reusable) if reusable.pod == *pod => reusable.cpus.clone(),
            _ => CpuSet::new(),
        }
    }

    /// Devices: who holds what.
    #[must_use]
    pub fn devices(&self) -> &DeviceState {
        &self.devices
    }

    /// The pods that live here.
    #[must_use]
    pub fn admitted_pods(&self) -> &BTreeMap<PodUid, AdmittedPod> {
        &self.admitted_pods
    }
}
