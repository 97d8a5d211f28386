//! [`Ledger`]: the CPUs, memory and devices that each admitted pod of one node holds. All changes go through it.
//!
//! ```text
//! admit(pod) ──► hints of the device, CPU and memory manager ──► merge ──► grants ──► Decision + Change
//! start(pod, container), release(pod) ───────────────────────────────────────────► Change
//! apply(change) replays a change on a copy, undo(change) reverts it
//! ```
//!
//! The resource managers do not change the state; they return edits, and the edits of one event are applied together. A
//! rejected pod leaves nothing behind, except under [`Fidelity::Exact`], where it keeps what it keeps in the kubelet.
//!
//! [`Fidelity::Exact`]: crate::fidelity::Fidelity::Exact

use std::sync::Arc;

use crate::decision::{Assignment, ContainerAssignment, Decision};
use crate::device::{AdvertisedDevices, PreferredAllocation};
use crate::edit::Direction;
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::pod::Pod;

mod admit;
mod audit;
mod change;
mod grant;
#[cfg(test)]
mod growth;
mod keep;
mod occupancy;
mod providers;
mod release;
mod restart;
mod rules;
mod state;
mod transaction;
mod what_if;

use transaction::LedgerTransaction;

pub use audit::AuditFinding;
pub use change::{Change, ChangeConflict, Edit, LedgerEvent};
pub use grant::{GrantError, GrantedCpus};
pub use restart::{RestartError, Restarted, SavedState};
pub use rules::{Rules, SettingsError};
pub use state::{AdmittedPod, LedgerState, ReusableCpus};

/// The allocation state of one node, and the rules that decide about it.
#[derive(Clone, Debug)]
pub struct Ledger {
    rules: Arc<Rules>,
    state: LedgerState,
    /// Before version 1.32: the pod about which each provider was asked last, which counts there as active until the
    /// next one.
    last: LastPods,
}

/// A pod for each of the kubelet's providers, in their order.
type LastPods = [Option<PodUid>; 3];

/// The result of an admission request.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Whether the pod was admitted, and why.
    pub decision: Decision,
    /// The change to journal; `None` if the state did not change.
    pub change: Option<Change>,
}

/// A request that this ledger cannot process. The state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// A pod with this UID is admitted already.
    #[error("pod {0} is admitted already")]
    AlreadyAdmitted(PodUid),
    /// No pod with this UID is admitted.
    #[error("pod {0} is not on this node")]
    NotAdmitted(PodUid),
    /// The pod has no container with this name.
    #[error("pod {pod} has no container {container}")]
    NoSuchContainer {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
    },
    /// The pod has no app containers.
    #[error("pod {0} has no containers")]
    NoContainers(PodUid),
    /// Two containers have the same name, so their assignments could not be distinguished.
    #[error("pod {pod} has two containers named {container}")]
    DuplicateContainer {
        /// The pod.
        pod: PodUid,
        /// The name.
        container: ContainerName,
    },
}

impl Ledger {
    /// A ledger without pods.
    #[must_use]
    pub fn new(rules: Arc<Rules>) -> Self {
        let state = LedgerState::empty(&rules);
        Self {
            rules,
            state,
            last: LastPods::default(),
        }
    }

    /// The machine and settings that decide on this node.
    #[must_use]
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// The complete allocation state, as it is serialized to the journal.
    #[must_use]
    pub fn state(&self) -> &LedgerState {
        &self.state
    }

    /// The number of changes made since the ledger was created.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.state.generation
    }

    /// The admitted pods, in the order of their admission.
    #[must_use]
    pub fn admitted_pods(&self) -> Vec<&AdmittedPod> {
        let mut admitted_pods: Vec<&AdmittedPod> = self.state.admitted_pods.values().collect();
        admitted_pods.sort_by_key(|admitted| admitted.ordinal);
        admitted_pods
    }

    /// The assignment of an admitted pod.
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

    /// Decides whether `pod` is admitted and, if so, assigns its CPUs, memory and devices. `plugins` answers
    /// `GetPreferredAllocation` for device plugins that implement it.
    ///
    /// # Errors
    /// If the pod is admitted already, or if API validation would not accept it. A rejection is a decision, not an
    /// error.
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

    /// Sets the devices that the plugin of `resource` advertises; `None` if it has unregistered. Returns `None` if that
    /// changes nothing.
    pub fn set_devices(
        &mut self,
        resource: ResourceName,
        devices: Option<AdvertisedDevices>,
    ) -> Option<Change> {
        let mut transaction = LedgerTransaction::new(&self.rules, &mut self.state);
        transaction.set_devices(resource.clone(), devices);
        transaction.finish(LedgerEvent::DevicesChanged(resource))
    }

    /// Applies a change that was made by another copy of this ledger.
    ///
    /// # Errors
    /// If the change was made for another state; the ledger is unchanged then.
    pub fn apply(&mut self, change: &Change) -> Result<(), ChangeConflict> {
        self.expect_generation(change.generation)?;
        self.state.edit_all(&change.edits, Direction::Apply)?;
        self.state.generation += 1;
        Ok(())
    }

    /// Reverts the last change.
    ///
    /// # Errors
    /// If it was not the last change of this ledger; the ledger is unchanged then.
    pub fn undo(&mut self, change: &Change) -> Result<(), ChangeConflict> {
        self.expect_generation(change.generation + 1)?;
        self.state.edit_all(&change.edits, Direction::Revert)?;
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
