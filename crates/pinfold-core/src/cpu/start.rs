//! Validates a saved state. Mirrors the static policy's `validateState`.

use super::error::CpuStateError;
use super::state::{CpuEdits, CpuState};
use super::static_policy::StaticCpus;
use crate::demand::PodLevel;

impl StaticCpus {
    /// Checks the state against the machine and the reservation; an empty state is initialized with its shared pool.
    ///
    /// # Errors
    /// If the state contradicts itself, the reservation or the machine.
    pub fn start(&self, state: &CpuState) -> Result<CpuEdits, CpuStateError> {
        let shared = state.shared();
        let all = match self.options.strict_reservation {
            true => self.allocatable(),
            false => self.topology.all().clone(),
        };
        if shared.is_empty() {
            return match state.containers().is_empty() {
                true => Ok(state.set_shared(all).into_iter().collect()),
                false => Err(CpuStateError::NoSharedPool),
            };
        }
        self.check_reserved(state)?;
        for (pod, containers) in state.containers() {
            for (container, cpus) in containers {
                if !cpus.is_disjoint(shared) {
                    return Err(CpuStateError::Overlap {
                        pod: pod.clone(),
                        container: container.clone(),
                        cpus: cpus.clone(),
                        shared: shared.clone(),
                    });
                }
            }
        }
        let mut known = shared.clone();
        for cpus in state
            .containers()
            .values()
            .flat_map(|containers| containers.values())
        {
            known |= cpus;
        }
        if self.pod_level == PodLevel::Managed {
            for cpus in state.pods().values() {
                known |= cpus;
            }
        }
        match known == all {
            true => Ok(CpuEdits::new()),
            false => Err(CpuStateError::OtherMachine {
                machine: all,
                known,
            }),
        }
    }

    fn check_reserved(&self, state: &CpuState) -> Result<(), CpuStateError> {
        let shared = state.shared();
        if self.options.strict_reservation {
            if !self.reserved.is_disjoint(shared) {
                return Err(CpuStateError::ReservedShared {
                    reserved: &self.reserved & shared,
                    shared: shared.clone(),
                });
            }
        } else if !self.reserved.is_subset(shared) {
            return Err(CpuStateError::ReservedMissing {
                reserved: self.reserved.clone(),
                shared: shared.clone(),
            });
        }
        Ok(())
    }
}
