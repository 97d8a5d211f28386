//! [`Change`]: all edits that one event made in a ledger, as a value that can be journaled, replayed and undone.

use serde::{Deserialize, Serialize};

use super::state::{AdmittedPod, LedgerState, ReusableCpus};
use crate::cpu::CpuEdit;
use crate::device::{AdvertisedDevices, DeviceEdit};
use crate::edit::{Direction, StaleEdit, all_or_none, replace, replace_entry};
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
    /// An entry differs from what the change expects.
    #[error("the ledger is not the one this change was made for: {0}")]
    Content(#[from] StaleEdit),
}

impl LedgerState {
    pub(super) fn edit(&mut self, edit: &Edit, direction: Direction) -> Result<(), StaleEdit> {
        match edit {
            Edit::Cpu(edit) => self.cpus.edit(edit, direction),
            Edit::Memory(edit) => self.memory.edit(edit, direction),
            Edit::Device(edit) => self.devices.edit(edit, direction),
            Edit::Pod { pod, before, after } => {
                let change = direction.order(before.as_deref(), after.as_deref());
                replace_entry(&mut self.admitted_pods, pod, change, || {
                    format!("pod {pod}")
                })
            }
            Edit::ReusableCpus { before, after } => replace(
                &mut self.reusable_cpus,
                direction.order(before, after),
                || "reusable CPUs of init containers".to_owned(),
            ),
            Edit::AdvertisedDevices {
                resource,
                before,
                after,
            } => {
                let change = direction.order(before.as_ref(), after.as_ref());
                self.pool.edit(resource, change)
            }
        }
    }

    /// Applies or reverts all edits or none.
    pub(super) fn edit_all(
        &mut self,
        edits: &[Edit],
        direction: Direction,
    ) -> Result<(), StaleEdit> {
        all_or_none(edits, direction, |edit, direction| {
            self.edit(edit, direction)
        })
    }
}
