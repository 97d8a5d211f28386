//! [`LedgerTransaction`]: the edits of one event, applied to the state while the event is being decided.

use super::change::{Change, Edit, LedgerEvent};
use super::rules::Rules;
use super::state::{AdmittedPod, LedgerState, ReusableCpus};
use crate::cpu::CpuEdit;
use crate::device::{AdvertisedDevices, DeviceEdit};
use crate::edit::Direction;
use crate::memory::MemoryEdit;
use crate::name::{PodUid, ResourceName};

/// A pod of one container on one NUMA node: its devices, the shared pool, its CPUs, the node, its memory, the pod.
const USUAL_EDITS: usize = 6;

/// A state, and the edits that the current event has applied to it so far.
pub(super) struct LedgerTransaction<'a> {
    pub(super) rules: &'a Rules,
    pub(super) state: &'a mut LedgerState,
    edits: Vec<Edit>,
}

impl<'a> LedgerTransaction<'a> {
    pub(super) fn new(rules: &'a Rules, state: &'a mut LedgerState) -> Self {
        Self {
            rules,
            state,
            edits: Vec::with_capacity(USUAL_EDITS),
        }
    }

    pub(super) fn cpu(&mut self, edits: impl IntoIterator<Item = CpuEdit>) {
        for edit in edits {
            self.edit(Edit::Cpu(edit));
        }
    }

    pub(super) fn memory(&mut self, edits: impl IntoIterator<Item = MemoryEdit>) {
        for edit in edits {
            self.edit(Edit::Memory(edit));
        }
    }

    pub(super) fn devices(&mut self, edits: impl IntoIterator<Item = DeviceEdit>) {
        for edit in edits {
            self.edit(Edit::Device(edit));
        }
    }

    /// Sets the CPUs that later containers of a pod may reuse.
    pub(super) fn reusable_cpus(&mut self, after: Option<ReusableCpus>) {
        if self.state.reusable_cpus != after {
            let before = self.state.reusable_cpus.clone();
            self.edit(Edit::ReusableCpus { before, after });
        }
    }

    /// Sets the devices that the plugin of a resource advertises.
    pub(super) fn set_devices(&mut self, resource: ResourceName, after: Option<AdvertisedDevices>) {
        let before = self.state.pool.devices(&resource).cloned();
        if before != after {
            self.edit(Edit::AdvertisedDevices {
                resource,
                before,
                after,
            });
        }
    }

    /// Sets or removes the entry of a pod.
    pub(super) fn set_pod(&mut self, pod: &PodUid, after: Option<AdmittedPod>) {
        let before = self.state.admitted_pods.get(pod).cloned().map(Box::new);
        let after = after.map(Box::new);
        self.edit(Edit::Pod {
            pod: pod.clone(),
            before,
            after,
        });
    }

    fn edit(&mut self, edit: Edit) {
        self.state
            .edit(&edit, Direction::Apply)
            .expect("an edit made from this state fits it");
        self.edits.push(edit);
    }

    /// Reverts all edits.
    pub(super) fn discard(&mut self) {
        self.state
            .edit_all(&self.edits, Direction::Revert)
            .expect("edits that were just applied can be reverted");
        self.edits.clear();
    }

    /// Commits the edits as the change of `event`. `None` if there are none.
    pub(super) fn finish(self, event: LedgerEvent) -> Option<Change> {
        if self.edits.is_empty() {
            return None;
        }
        let generation = self.state.generation;
        self.state.generation += 1;
        Some(Change {
            generation,
            event,
            edits: self.edits,
        })
    }
}
