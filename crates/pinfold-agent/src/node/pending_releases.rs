//! Releases pods, and retries releases that could not be journaled.

use pinfold_core::name::PodUid;

use super::{ManagedNode, PodOrigin, Update};
use crate::journaled_ledger::JournaledLedgerError;
use pinfold_journal::Timestamp;

impl ManagedNode {
    /// Releases a pod that terminated, unless it was declared through the API. If the journal cannot be written, the
    /// release stays pending: see [`ManagedNode::release_pending`].
    pub(super) fn release_resident(
        &mut self,
        resident: &PodUid,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let record = self.journaled.records().get(resident);
        let is_declared = record.is_some_and(|record| record.origin == PodOrigin::Api);
        if is_declared {
            return Ok(());
        }
        let released = match self.has_pod(resident) {
            true => self.journaled.release(resident, now),
            false => Ok(()),
        };
        let released = released.and_then(|()| self.withdraw_devices(resident, now));
        if released.is_err() {
            self.pending_releases.insert(resident.clone());
        }
        released
    }

    /// Releases pods whose removal could not be journaled because the disk was full. Returns the updates of other
    /// containers; `None` if no release was pending.
    ///
    /// # Errors
    /// If the journal still cannot be written.
    pub fn release_pending(
        &mut self,
        now: Timestamp,
    ) -> Result<Option<Vec<Update>>, JournaledLedgerError> {
        if self.pending_releases.is_empty() {
            return Ok(None);
        }
        let mut outcome = Ok(());
        for resident in std::mem::take(&mut self.pending_releases) {
            outcome = outcome.and(self.release_resident(&resident, now));
        }
        outcome.map(|()| Some(self.updates()))
    }
}
