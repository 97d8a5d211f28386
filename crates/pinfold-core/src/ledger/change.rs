//! [`Change`]: all edits that one event made in a ledger, as a value that can be journaled, replayed and undone.

use serde::{Deserialize, Serialize};

use super::state::{AdmittedPod, LedgerState, ReusableCpus};
use crate::cpu::CpuEdit;
use crate::device::{AdvertisedDevices, DeviceEdit};
use crate::memory::MemoryEdit;
use crate::name::{ContainerName, PodUid, ResourceName};

/// One event and the edits it made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The generation of the ledger before the change; applying it increments the generation.
    pub generation: u64,
    /// The event.
    pub event: LedgerEvent,
    /// Its edits, in order.
    pub edits: Vec<Edit>,
}

/// The events that change a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LedgerEvent {
    /// A pod was admitted.
    Admitted(PodUid),
    /// A pod was rejected. Journaled only under exact fidelity: in the kubelet a rejected pod can keep resources.
    Rejected(PodUid),
    /// A container started.
    Started(PodUid, ContainerName),
    /// A pod was released.
    Released(PodUid),
    /// A device plugin registered, unregistered, or reported a different list or health of devices.
    DevicesChanged(ResourceName),
}

/// One entry of the ledger before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edit {
    /// An entry of the CPU manager's state.
    Cpu(CpuEdit),
    /// An entry of the memory manager's state.
    Memory(MemoryEdit),
    /// An entry of the device manager's state.
    Device(DeviceEdit),
    /// An admitted pod.
    Pod {
        /// Its UID.
        pod: PodUid,
        /// The entry before; `None` if the pod was not admitted.
        before: Option<Box<AdmittedPod>>,
        /// The entry after; `None` if the pod was released.
        after: Option<Box<AdmittedPod>>,
    },
    /// The CPUs of finished init containers that later containers of the same pod may reuse.
    ReusableCpus {
        /// The CPUs before.
        before: Option<ReusableCpus>,
        /// The CPUs after.
        after: Option<ReusableCpus>,
    },
    /// The devices that the plugin of one resource advertises; `None` while it is not registered.
    AdvertisedDevices {
        /// The resource.
        resource: ResourceName,
        /// The devices before.
        before: Option<AdvertisedDevices>,
        /// The devices after.
        after: Option<AdvertisedDevices>,
    },
}

/// A change that does not fit the state of the ledger it is applied to. The ledger is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeConflict {
    /// The change was made for another generation.
    #[error("the change is for generation {expected} of the ledger, which is at {found}")]
    Generation {
        /// The generation of the change.
        expected: u64,
        /// The generation of the ledger.
        found: u64,
    },
    /// An entry differs from what the change expects before it.
    #[error("the ledger is not the one this change was made for: {0}")]
    Content(String),
}

impl LedgerState {
    /// Applies one edit.
    pub(super) fn apply(&mut self, edit: &Edit) -> Result<(), ChangeConflict> {
        match edit {
            Edit::Cpu(edit) => self.cpus.apply(edit).map_err(content),
            Edit::Memory(edit) => self
                .memory
                .apply(std::slice::from_ref(edit))
                .map_err(content),
            Edit::Device(edit) => self.devices.apply(edit).map_err(content),
            Edit::Pod { pod, before, after } => {
                self.swap_pod(pod, before.as_deref(), after.as_deref())
            }
            Edit::ReusableCpus { before, after } => {
                self.swap_reusable(before.as_ref(), after.as_ref())
            }
            Edit::AdvertisedDevices {
                resource,
                before,
                after,
            } => self.swap_devices(resource, before.as_ref(), after.as_ref()),
        }
    }

    /// Reverts one edit.
    pub(super) fn revert(&mut self, edit: &Edit) -> Result<(), ChangeConflict> {
        match edit {
            Edit::Cpu(edit) => self.cpus.revert(edit).map_err(content),
            Edit::Memory(edit) => self
                .memory
                .revert(std::slice::from_ref(edit))
                .map_err(content),
            Edit::Device(edit) => self.devices.revert(edit).map_err(content),
            Edit::Pod { pod, before, after } => {
                self.swap_pod(pod, after.as_deref(), before.as_deref())
            }
            Edit::ReusableCpus { before, after } => {
                self.swap_reusable(after.as_ref(), before.as_ref())
            }
            Edit::AdvertisedDevices {
                resource,
                before,
                after,
            } => self.swap_devices(resource, after.as_ref(), before.as_ref()),
        }
    }

    fn swap_pod(
        &mut self,
        pod: &PodUid,
        from: Option<&AdmittedPod>,
        to: Option<&AdmittedPod>,
    ) -> Result<(), ChangeConflict> {
        if self.admitted_pods.get(pod) != from {
            return Err(ChangeConflict::Content(format!("pod {pod}")));
        }
        match to {
            Some(admitted) => drop(self.admitted_pods.insert(pod.clone(), admitted.clone())),
            None => drop(self.admitted_pods.remove(pod)),
        }
        Ok(())
    }

    fn swap_reusable(
        &mut self,
        from: Option<&ReusableCpus>,
        to: Option<&ReusableCpus>,
    ) -> Result<(), ChangeConflict> {
        if self.reusable_cpus.as_ref() != from {
            return Err(ChangeConflict::Content(
                "reusable CPUs of init containers".into(),
            ));
        }
        self.reusable_cpus = to.cloned();
        Ok(())
    }

    fn swap_devices(
        &mut self,
        resource: &ResourceName,
        from: Option<&AdvertisedDevices>,
        to: Option<&AdvertisedDevices>,
    ) -> Result<(), ChangeConflict> {
        if self.pool.devices(resource) != from {
            return Err(ChangeConflict::Content(format!("devices of {resource}")));
        }
        match to {
            Some(devices) => self.pool.set_devices(resource.clone(), devices.clone()),
            None => self.pool.remove_resource(resource),
        }
        Ok(())
    }

    /// Applies all edits or none.
    pub(super) fn apply_all(&mut self, edits: &[Edit]) -> Result<(), ChangeConflict> {
        for (done, edit) in edits.iter().enumerate() {
            if let Err(conflict) = self.apply(edit) {
                self.revert_all(&edits[..done]);
                return Err(conflict);
            }
        }
        Ok(())
    }

    /// Reverts edits that were just applied, the last one first.
    pub(super) fn revert_all(&mut self, edits: &[Edit]) {
        for edit in edits.iter().rev() {
            self.revert(edit)
                .expect("an edit that was just applied can be reverted");
        }
    }

    /// Reverts all edits or none.
    pub(super) fn undo_all(&mut self, edits: &[Edit]) -> Result<(), ChangeConflict> {
        for (at, edit) in edits.iter().enumerate().rev() {
            if let Err(conflict) = self.revert(edit) {
                for undone in &edits[at + 1..] {
                    self.apply(undone)
                        .expect("an edit that was just reverted can be applied again");
                }
                return Err(conflict);
            }
        }
        Ok(())
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
fn content(problem: impl ToString) -> ChangeConflict {
    ChangeConflict::Content(problem.to_string())
}
