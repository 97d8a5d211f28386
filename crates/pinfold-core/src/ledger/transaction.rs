//! [`Transaction`]: the edits of one event while it is being decided, carried out as they come.

use super::change::{Change, Edit, LedgerEvent};
use super::rules::Rules;
use super::state::{AdmittedPod, LedgerState, ReusableCpus};
use crate::cpu::CpuEdit;
use crate::device::{AdvertisedDevices, DeviceEdit};
use crate::memory::MemoryEdit;
use crate::name::{PodUid, ResourceName};

/// A state with the edits that one event has made in it so far.
pub(super) struct Transaction<'a> {
    pub(super) rules: &'a Rules,
    pub(super) state: &'a mut LedgerState,
    edits: Vec<Edit>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(rules: &'a Rules, state: &'a mut LedgerState) -> Self {
        Self {
            rules,
            state,
            edits: Vec::new(),
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

    /// Makes `after` the CPUs that init containers leave.
    pub(super) fn reusable_cpus(&mut self, after: Option<ReusableCpus>) {
        if self.state.reusable_cpus != after {
            let before = self.state.reusable_cpus.clone();
            self.edit(Edit::ReusableCpus { before, after });
        }
    }

    /// Makes `after` what the plugin of a resource offers.
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

    /// Makes `after` what is known of a pod.
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
            .apply(&edit)
            .expect("an edit made from this state fits it");
        self.edits.push(edit);
    }

    /// Takes everything back.
    pub(super) fn discard(&mut self) {
        self.state.revert_all(&self.edits);
        self.edits.clear();
    }

    /// The event with all its edits, now part of the ledger. `None` if it changed nothing.
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
