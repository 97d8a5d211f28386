//! Restart: a node comes back with what was written down, and every pod passes admission again.
//!
//! A kubelet keeps three files: CPUs, memory and devices. It checks them against the machine, forgets the rest, and
//! admits its pods once more in the order they came; hints are made from what they hold, and a pod that would not be
//! placed so today is rejected. A ledger of our own ([`Fidelity::Sound`]) does not reject what is running: every
//! pod keeps what it has.
//!
//! [`Fidelity::Sound`]: crate::fidelity::Fidelity::Sound

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rules::Rules;
use super::state::{AdmittedPod, LedgerState};
use super::{AuditFinding, Ledger, LedgerError, check_containers};
use crate::cpu::{CpuState, CpuStateError};
use crate::decision::{AdmissionResult, Decision};
use crate::device::{DevicePool, DeviceState, PreferredAllocation};
use crate::explanation::Explanation;
use crate::memory::{MemoryStartError, MemoryState};
use crate::pod::Pod;

/// What survives a restart: the content of the kubelet's three state files.
#[derive(Clone, Debug, Default)]
pub struct SavedState {
    /// `cpu_manager_state`.
    pub cpus: CpuState,
    /// `memory_manager_state`.
    pub memory: MemoryState,
    /// `kubelet_internal_checkpoint`.
    pub devices: DeviceState,
}

/// What came of a restart.
#[derive(Clone, Debug)]
pub struct Restarted {
    /// One decision per pod, in the order they came.
    pub decisions: Vec<Decision>,
}

/// Why a node cannot come back with what was written down. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestartError {
    /// The CPUs contradict each other or the machine. The message is the kubelet's.
    #[error(transparent)]
    Cpus(#[from] CpuStateError),
    /// The memory contradicts itself or the machine. The message is the kubelet's.
    #[error(transparent)]
    Memory(#[from] MemoryStartError),
    /// What was written down does not add up, and there is nothing sound to make of it.
    #[error("the saved state does not add up: {0}")]
    Unsound(AuditFinding),
    /// A pod that is no pod.
    #[error(transparent)]
    Pod(#[from] LedgerError),
}

impl Ledger {
    /// Restarts the node in place.
    ///
    /// # Errors
    /// If it would not start: only a faithful copy of the kubelet can get into such a state by itself.
    pub fn restart(
        &mut self,
        plugins: &mut dyn PreferredAllocation,
    ) -> Result<Restarted, RestartError> {
        if !self.rules.fidelity().restarts_like_the_kubelet() {
            let decisions = self
                .admitted_pods()
                .into_iter()
                .map(|admitted| self.kept(&admitted.pod));
            return Ok(Restarted {
                decisions: decisions.collect(),
            });
        }
        let saved = SavedState {
            cpus: self.state.cpus.clone(),
            memory: self.state.memory.clone(),
            devices: self.state.devices.clone(),
        };
        let pods: Vec<Arc<Pod>> = self
            .admitted_pods()
            .into_iter()
            .map(|admitted| admitted.pod.clone())
            .collect();
        let pool = self.state.pool.clone();
        let (mut ledger, restarted) =
            Ledger::restart_from(self.rules.clone(), saved, pool, &pods, plugins)?;
        ledger.state.generation = ledger.state.generation.max(self.state.generation);
        *self = ledger;
        Ok(restarted)
    }

    /// A node with what another one wrote down: `pods` in the order they came, `pool` as the plugins offer it now.
    ///
    /// # Errors
    /// If what was written down contradicts itself, the machine or the settings.
    pub fn restart_from(
        rules: Arc<Rules>,
        saved: SavedState,
        pool: DevicePool,
        pods: &[Arc<Pod>],
        plugins: &mut dyn PreferredAllocation,
    ) -> Result<(Self, Restarted), RestartError> {
        for pod in pods {
            check_containers(pod)?;
        }
        let mut state = LedgerState {
            cpus: saved.cpus,
            memory: saved.memory,
            devices: saved.devices,
            pool,
            ..LedgerState::default()
        };
        if rules.fidelity().restarts_like_the_kubelet() {
            state.start(&rules)?;
            let mut ledger = Self { rules, state };
            let decisions = pods.iter().map(|pod| ledger.decide(pod, plugins).decision);
            let decisions = decisions.collect();
            return Ok((ledger, Restarted { decisions }));
        }
        if state.cpus == CpuState::default() && state.memory == MemoryState::default() {
            let LedgerState { cpus, memory, .. } = LedgerState::empty(&rules);
            (state.cpus, state.memory) = (cpus, memory);
        }
        state.adopt(pods);
        let ledger = Self { rules, state };
        if let Some(finding) = ledger.audit().into_iter().next() {
            return Err(RestartError::Unsound(finding));
        }
        let decisions = pods.iter().map(|pod| ledger.kept(pod)).collect();
        Ok((ledger, Restarted { decisions }))
    }

    /// A node as the books of another program have it: nothing is decided again and nothing is put right. Whether it
    /// adds up is for [`Ledger::audit`] to say.
    #[must_use]
    pub fn from_kubelet_state(
        rules: Arc<Rules>,
        saved: SavedState,
        pool: DevicePool,
        pods: &[Arc<Pod>],
    ) -> Self {
        let mut state = LedgerState {
            cpus: saved.cpus,
            memory: saved.memory,
            devices: saved.devices,
            pool,
            ..LedgerState::default()
        };
        state.adopt(pods);
        Self { rules, state }
    }

    /// A node that goes on with everything that was written down of it, under the rules it was written under.
    ///
    /// # Errors
    /// If it does not add up: with the first finding.
    pub fn from_journal(rules: Arc<Rules>, state: LedgerState) -> Result<Self, AuditFinding> {
        let ledger = Self { rules, state };
        match ledger.audit().into_iter().next() {
            Some(finding) => Err(finding),
            None => Ok(ledger),
        }
    }

    /// The decision for a pod that keeps what it has.
    fn kept(&self, pod: &Pod) -> Decision {
        Decision {
            pod: pod.uid.clone(),
            result: AdmissionResult::Admitted(self.assignment(&pod.uid).unwrap_or_default()),
            explanation: Explanation {
                policy: self.rules.policy,
                scope: self.rules.scope,
                ..Explanation::default()
            },
        }
    }
}

impl LedgerState {
    /// Checks what was written down as the kubelet's managers do when they start, and fills in what an empty node has.
    fn start(&mut self, rules: &Rules) -> Result<(), RestartError> {
        for edit in &rules.cpus.start(&self.cpus)? {
            self.cpus
                .apply(edit)
                .expect("the edit was made for this state");
        }
        let edits = rules.memory.start(&self.memory)?;
        self.memory
            .apply(&edits)
            .expect("the edits were made for this state");
        Ok(())
    }

    /// Makes `pods` admitted_pods, in this order, with what they hold already.
    fn adopt(&mut self, pods: &[Arc<Pod>]) {
        for pod in pods {
            let ordinal = self.generation;
            let admitted = AdmittedPod {
                pod: pod.clone(),
                ordinal,
                affinities: BTreeMap::new(),
            };
            self.admitted_pods.insert(pod.uid.clone(), admitted);
            self.generation += 1;
        }
    }
}
