//! [`Change`]: everything one event changed in a ledger, as a value to write down, replay and undo.

use serde::{Deserialize, Serialize};

use super::state::{AdmittedPod, LedgerState, ReusableCpus};
use crate::cpu::CpuEdit;
use crate::device::{AdvertisedDevices, DeviceEdit};
use crate::memory::MemoryEdit;
use crate::name::{ContainerName, PodUid, ResourceName};

/// What happened, and what it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The generation of the ledger it was made for. It makes the next one.
    pub generation: u64,
    /// What happened.
    pub event: LedgerEvent,
    /// What it changed, in order.
    pub edits: Vec<Edit>,
}

/// What can happen to a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LedgerEvent {
    /// A pod was let in.
    Admitted(PodUid),
    /// A pod was turned away. Only a faithful copy of the kubelet writes this down: there, a rejected pod
    /// can leave something behind.
    Rejected(PodUid),
    /// A container started.
    Started(PodUid, ContainerName),
    /// A pod left.
    Released(PodUid),
    /// A device plugin came, went, or reported other devices or other health.
    DevicesChanged(ResourceName),
}

/// One entry of the ledger before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edit {
    /// Of the CPU manager.
    Cpu(CpuEdit),
    /// Of the memory manager.
    Memory(MemoryEdit),
    /// Of the device manager.
    Device(DeviceEdit),
    /// A pod that lives here.
    Pod {
        /// Which.
        pod: PodUid,
        /// What was known of it; `None` if it did not live here.
        before: Option<Box<AdmittedPod>>,
        /// What is known of it.
        after: Option<Box<AdmittedPod>>,
    },
    /// The CPUs that finished init containers leave to the rest of their pod.
    ReusableCpus {
        /// What there was.
        before: Option<ReusableCpus>,
        /// What there is.
        after: Option<ReusableCpus>,
    },
    /// The devices that the plugin of one resource offers; `None` while it has not registered.
    AdvertisedDevices {
        /// Of which resource.
        resource: ResourceName,
        /// What it offered.
        before: Option<AdvertisedDevices>,
        /// What it offers.
        after: Option<AdvertisedDevices>,
    },
}

/// A change that was made for another ledger than the one it met. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeConflict {
    /// Made for another moment.
    #[error("the change is for generation {expected} of the ledger, which is at {found}")]
    Generation {
        /// The change's.
        expected: u64,
        /// The ledger's.
        found: u64,
    },
    /// Made for other content.
    #[error("the ledger is not the one this change was made for: {0}")]
    Content(String),
}

impl LedgerState {
    /// Carries out one edit.
    pub(super) fn apply(&mut self, edit: &Edit) -> Result<(), ChangeConflict> {
        match edit {
            Edit::Cpu(edit) => self.cpus.apply(edit).map_err(content),
            Edit::Memory(edit) => self
                .memory
                .apply(std::slice::from_ref(edit))
                .map_err(content),
            Edit::Device(edit) => self.devices.apply(edit).map_err(content),
            Edit::Pod { pod, before, after } => {
                self.swap_resident(pod, before.as_deref(), after.as_deref())
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

    /// Takes one edit back.
    pub(super) fn revert(&mut self, edit: &Edit) -> Result<(), ChangeConflict> {
        match edit {
            Edit::Cpu(edit) => self.cpus.revert(edit).map_err(content),
            Edit::Memory(edit) => self
                .memory
                .revert(std::slice::from_ref(edit))
                .map_err(content),
            Edit::Device(edit) => self.devices.revert(edit).map_err(content),
            Edit::Pod { pod, before, after } => {
                self.swap_resident(pod, after.as_deref(), before.as_deref())
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

    fn swap_resident(
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
                "CPUs that init containers left".into(),
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

    /// Carries out all edits or none.
    pub(super) fn apply_all(&mut self, edits: &[Edit]) -> Result<(), ChangeConflict> {
        for (done, edit) in edits.iter().enumerate() {
            if let Err(conflict) = self.apply(edit) {
                self.revert_all(&edits[..done]);
                return Err(conflict);
            }
        }
        Ok(())
    }

    /// Takes edits back that were just carried out, last one first.
    pub(super) fn revert_all(&mut self, edits: &[Edit]) {
        for edit in edits.iter().rev() {
            self.revert(edit)
                .expect("an edit that was just carried out can be taken back");
        }
    }

    /// Takes all edits back or none.
    pub(super) fn undo_all(&mut self, edits: &[Edit]) -> Result<(), ChangeConflict> {
        for (at, edit) in edits.iter().enumerate().rev() {
            if let Err(conflict) = self.revert(edit) {
                for undone in &edits[at + 1..] {
                    self.apply(undone)
                        .expect("an edit that was just taken back can be carried out");
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
