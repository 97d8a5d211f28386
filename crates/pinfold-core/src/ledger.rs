//! [`Ledger`]: who holds what on one node, and the only place where that changes.
//!
//! ```text
//! admit(pod) ──► hints of the device, CPU and memory manager ──► merge ──► grants ──► Decision + Change
//! start(pod, container), release(pod) ───────────────────────────────────────────► Change
//! apply(change) replays it on a copy, undo(change) takes it back
//! ```
//!
//! The managers never change anything; they answer with edits, and one event's edits are carried out together. A
//! rejected pod leaves no trace. (A faithful copy of the kubelet, [`Fidelity::Exact`], leaves what the kubelet
//! leaves.)
//!
//! [`Fidelity::Exact`]: crate::fidelity::Fidelity::Exact

use std::sync::Arc;

use crate::decision::{Assignment, ContainerAssignment, Decision};
use crate::device::{AdvertisedDevices, PreferredAllocation};
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::pod::Pod;

mod admit;
mod audit;
mod change;
mod facts;
mod grant;
mod occupancy;
mod release;
mod restart;
mod rules;
mod state;
mod transaction;
mod what_if;

use transaction::Transaction;

pub use audit::AuditFinding;
pub use change::{Change, ChangeConflict, Edit, LedgerEvent};
pub use grant::{GrantError, GrantedCpus};
pub use restart::{RestartError, Restarted, SavedState};
pub use rules::{Rules, SettingsError};
pub use state::{AdmittedPod, LedgerState, ReusableCpus};

/// The state of one node under its rules.
#[derive(Clone, Debug)]
pub struct Ledger {
    rules: Arc<Rules>,
    state: LedgerState,
}

/// What came of asking for a pod: the answer, and the change to write down if there was one.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Yes or no, and why.
    pub decision: Decision,
    /// What changed; `None` if nothing did.
    pub change: Option<Change>,
}

/// A request that makes no sense for this ledger. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The pod lives here already.
    #[error("pod {0} is admitted already")]
    AlreadyAdmitted(PodUid),
    /// The pod does not live here.
    #[error("pod {0} is not on this node")]
    NotAdmitted(PodUid),
    /// The pod has no container of that name.
    #[error("pod {pod} has no container {container}")]
    NoSuchContainer {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
    },
    /// A pod without a container to run.
    #[error("pod {0} has no containers")]
    NoContainers(PodUid),
    /// Two containers of one name: what one holds could not be told from what the other holds.
    #[error("pod {pod} has two containers named {container}")]
    DuplicateContainer {
        /// The pod.
        pod: PodUid,
        /// The name.
        container: ContainerName,
    },
}

impl Ledger {
    /// An empty node under these rules.
    #[must_use]
    pub fn new(rules: Arc<Rules>) -> Self {
        let state = LedgerState::empty(&rules);
        Self { rules, state }
    }

    /// The rules of this node.
    #[must_use]
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Everything that is written down.
    #[must_use]
    pub fn state(&self) -> &LedgerState {
        &self.state
    }

    /// How many changes were made since the node was empty.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.state.generation
    }

    /// The pods on this node, in the order they came.
    #[must_use]
    pub fn admitted_pods(&self) -> Vec<&AdmittedPod> {
        let mut admitted_pods: Vec<&AdmittedPod> = self.state.admitted_pods.values().collect();
        admitted_pods.sort_by_key(|admitted| admitted.ordinal);
        admitted_pods
    }

    /// What a pod on this node holds.
    #[must_use]
    pub fn assignment(&self, pod: &PodUid) -> Option<Assignment> {
        let admitted = self.state.admitted_pods.get(pod)?;
        let holding = |name: &ContainerName| ContainerAssignment {
            name: name.clone(),
            affinity: admitted.affinity(name),
            cpus: self.state.cpus.container(pod, name).cloned(),
            memory: self.state.memory.blocks(pod, name).map(<[_]>::to_vec),
            devices: self
                .state
                .devices
                .container(pod, name)
                .cloned()
                .unwrap_or_default(),
        };
        let containers = admitted
            .pod
            .all_containers()
            .map(|container| holding(&container.name));
        Some(Assignment {
            containers: containers.collect(),
        })
    }

    /// Decides whether `pod` may run here and, if so, gives it what it needs. `plugins` answers for device
    /// plugins that have a say in which devices are taken.
    ///
    /// # Errors
    /// If the pod is here already or is no pod the kubelet would see. A rejection is not an error but a decision.
    pub fn admit(
        &mut self,
        pod: &Arc<Pod>,
        plugins: &mut dyn PreferredAllocation,
    ) -> Result<Admission, LedgerError> {
        if self.state.admitted_pods.contains_key(&pod.uid) {
            return Err(LedgerError::AlreadyAdmitted(pod.uid.clone()));
        }
        check_containers(pod)?;
        Ok(self.decide(pod, plugins))
    }

    /// The plugin of `resource` offers these devices now; `None` if it is gone. `None` if that changes nothing.
    pub fn set_devices(
        &mut self,
        resource: ResourceName,
        devices: Option<AdvertisedDevices>,
    ) -> Option<Change> {
        let mut transaction = Transaction::new(&self.rules, &mut self.state);
        transaction.set_devices(resource.clone(), devices);
        transaction.finish(LedgerEvent::DevicesChanged(resource))
    }

    /// Carries out a change that another copy of this ledger made.
    ///
    /// # Errors
    /// If it was made for another state; nothing is changed then.
    pub fn apply(&mut self, change: &Change) -> Result<(), ChangeConflict> {
        self.expect_generation(change.generation)?;
        self.state.apply_all(&change.edits)?;
        self.state.generation += 1;
        Ok(())
    }

    /// Takes the last change back.
    ///
    /// # Errors
    /// If it was not the last change of this ledger; nothing is changed then.
    pub fn undo(&mut self, change: &Change) -> Result<(), ChangeConflict> {
        self.expect_generation(change.generation + 1)?;
        self.state.undo_all(&change.edits)?;
        self.state.generation -= 1;
        Ok(())
    }

    fn expect_generation(&self, expected: u64) -> Result<(), ChangeConflict> {
        let found = self.state.generation;
        match found == expected {
            true => Ok(()),
            false => Err(ChangeConflict::Generation { expected, found }),
        }
    }
}

fn check_containers(pod: &Pod) -> Result<(), LedgerError> {
    if pod.containers.is_empty() {
        return Err(LedgerError::NoContainers(pod.uid.clone()));
    }
    let mut names: Vec<&ContainerName> = pod
        .all_containers()
        .map(|container| &container.name)
        .collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(LedgerError::DuplicateContainer {
            pod: pod.uid.clone(),
            container: pair[0].clone(),
        }),
        None => Ok(()),
    }
}
