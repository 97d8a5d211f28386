//! Restart: a ledger is rebuilt from saved state, and every pod passes admission again.
//!
//! The kubelet keeps state files for CPUs, memory and devices. It checks them against the machine, forgets the rest,
//! and admits its pods again in their old order, with hints made from what they hold; a pod whose placement would not
//! be chosen now is rejected. Under [`Fidelity::Sound`] running pods are never rejected: every pod keeps what it holds.
//!
//! [`Fidelity::Sound`]: crate::fidelity::Fidelity::Sound

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::LedgerEvent;
use super::rules::Rules;
use super::state::{AdmittedPod, LedgerState};
use super::transaction::LedgerTransaction;
use super::{AuditFinding, LastPods, Ledger, LedgerError, check_containers};
use crate::cpu::{CpuState, CpuStateError};
use crate::decision::{AdmissionResult, Decision};
use crate::device::{DevicePool, DeviceState, PreferredAllocation};
use crate::explanation::Explanation;
use crate::memory::{MemoryStartError, MemoryState};
use crate::name::PodUid;
use crate::pod::Pod;

/// The content of the kubelet's three state files.
#[derive(Clone, Debug, Default)]
pub struct SavedState {
    /// `cpu_manager_state`.
    pub cpus: CpuState,
    /// `memory_manager_state`.
    pub memory: MemoryState,
    /// `kubelet_internal_checkpoint`.
    pub devices: DeviceState,
}

impl SavedState {
    /// The state of a ledger without pods, for a node with these devices.
    fn with_devices(self, pool: DevicePool) -> LedgerState {
        LedgerState {
            cpus: self.cpus,
            memory: self.memory,
            devices: self.devices,
            pool,
            ..LedgerState::default()
        }
    }
}

/// The result of a restart.
#[derive(Clone, Debug)]
pub struct Restarted {
    /// One decision per pod, in the order of their admission.
    pub decisions: Vec<Decision>,
}

/// Why a ledger cannot be rebuilt from saved state. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestartError {
    /// The CPU assignments contradict each other or the machine. The message is the kubelet's.
    #[error(transparent)]
    Cpus(#[from] CpuStateError),
    /// The memory assignments contradict each other or the machine. The message is the kubelet's.
    #[error(transparent)]
    Memory(#[from] MemoryStartError),
    /// The saved state is inconsistent.
    #[error("the saved state is inconsistent: {0}")]
    Unsound(AuditFinding),
    /// One of the pods is invalid.
    #[error(transparent)]
    Pod(#[from] LedgerError),
}

impl Ledger {
    /// Restarts the node in place, as if the kubelet had been restarted.
    ///
    /// # Errors
    /// If the kubelet would not start with this state. Happens only under exact fidelity.
    pub fn restart(
        &mut self,
        plugins: &mut dyn PreferredAllocation,
    ) -> Result<Restarted, RestartError> {
        if !self.rules.fidelity().restarts_like_the_kubelet() {
            let decisions = self
                .admitted_pods()
                .into_iter()
                .map(|admitted| self.kept_decision(&admitted.pod));
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
        let gone = |last: &PodUid| !self.state.admitted_pods.contains_key(last);
        let last = std::mem::take(&mut self.last);
        let last = last.into_iter().flatten().filter(gone).collect();
        let (mut ledger, restarted) =
            Ledger::restart_after(last, self.rules.clone(), saved, pool, &pods, plugins)?;
        ledger.state.generation = ledger.state.generation.max(self.state.generation);
        *self = ledger;
        Ok(restarted)
    }

    /// Rebuilds a ledger from saved state. `pods` are in the order of their admission; `pool` holds the devices that
    /// are advertised now.
    ///
    /// # Errors
    /// If the saved state contradicts itself, the machine or the settings.
    pub fn restart_from(
        rules: Arc<Rules>,
        saved: SavedState,
        pool: DevicePool,
        pods: &[Arc<Pod>],
        plugins: &mut dyn PreferredAllocation,
    ) -> Result<(Self, Restarted), RestartError> {
        Self::restart_after(BTreeSet::new(), rules, saved, pool, pods, plugins)
    }

    /// As [`Ledger::restart_from`]. The pods `last` are gone and still in the state; they are released once the managers
    /// have started.
    fn restart_after(
        last: BTreeSet<PodUid>,
        rules: Arc<Rules>,
        saved: SavedState,
        pool: DevicePool,
        pods: &[Arc<Pod>],
        plugins: &mut dyn PreferredAllocation,
    ) -> Result<(Self, Restarted), RestartError> {
        for pod in pods {
            check_containers(pod)?;
        }
        let mut state = saved.with_devices(pool);
        if rules.fidelity().restarts_like_the_kubelet() {
            state.start(&rules)?;
            let mut ledger = Self {
                rules,
                state,
                last: LastPods::default(),
            };
            for last in last {
                let mut transaction = LedgerTransaction::new(&ledger.rules, &mut ledger.state);
                transaction.release_all(&last);
                transaction.finish(LedgerEvent::Released(last));
            }
            let decisions = pods.iter().map(|pod| ledger.decide(pod, plugins).decision);
            let decisions = decisions.collect();
            return Ok((ledger, Restarted { decisions }));
        }
        if state.cpus == CpuState::default() && state.memory == MemoryState::default() {
            let LedgerState { cpus, memory, .. } = LedgerState::empty(&rules);
            (state.cpus, state.memory) = (cpus, memory);
        }
        state.add_pods(pods);
        let ledger = Self {
            rules,
            state,
            last: LastPods::default(),
        };
        if let Some(finding) = ledger.audit().into_iter().next() {
            return Err(RestartError::Unsound(finding));
        }
        let decisions = pods.iter().map(|pod| ledger.kept_decision(pod)).collect();
        Ok((ledger, Restarted { decisions }))
    }

    /// Builds a ledger from the state of a running kubelet: nothing is decided again and nothing is repaired.
    /// [`Ledger::audit`] checks whether it is consistent. Without `pods` it is a ledger of which only the totals of held
    /// resources are known, as a NodeResourceTopology object reports them.
    #[must_use]
    pub fn from_kubelet_state(
        rules: Arc<Rules>,
        saved: SavedState,
        pool: DevicePool,
        pods: &[Arc<Pod>],
    ) -> Self {
        let mut state = saved.with_devices(pool);
        state.add_pods(pods);
        Self {
            rules,
            state,
            last: LastPods::default(),
        }
    }

    /// Continues with the state that was journaled under the same rules.
    ///
    /// # Errors
    /// With the first finding if the state is inconsistent.
    pub fn from_journal(rules: Arc<Rules>, state: LedgerState) -> Result<Self, AuditFinding> {
        let ledger = Self {
            rules,
            state,
            last: LastPods::default(),
        };
        match ledger.audit().into_iter().next() {
            Some(finding) => Err(finding),
            None => Ok(ledger),
        }
    }

    /// The decision for a pod that keeps what it holds.
    fn kept_decision(&self, pod: &Pod) -> Decision {
        Decision {
            pod: pod.uid.clone(),
            result: AdmissionResult::Admitted(self.assignment(&pod.uid).unwrap_or_default()),
            explanation: Explanation {
                policy: self.rules.policy(),
                scope: self.rules.scope(),
                ..Explanation::default()
            },
        }
    }
}

impl LedgerState {
    /// Checks the state as the kubelet's managers do when they start, and fills in the initial values of an empty node.
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

    /// Adds `pods` as admitted, in this order, with what the state says they hold.
    fn add_pods(&mut self, pods: &[Arc<Pod>]) {
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
