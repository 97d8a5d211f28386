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

    /// Releases pods whose removal could not be journaled because the disk was full, and pods of which the API server says
    /// that they ended; admits running pods whose spec has arrived. Returns the updates of other containers; `None` if
    /// nothing was pending.
    ///
    /// # Errors
    /// If the journal still cannot be written.
    pub fn release_pending(
        &mut self,
        now: Timestamp,
    ) -> Result<Option<Vec<Update>>, JournaledLedgerError> {
        let pending = std::mem::take(&mut self.pending_releases);
        let mut outcome = Ok(!pending.is_empty());
        for resident in pending {
            let released = self.release_resident(&resident, now);
            outcome = outcome.and_then(|any| released.map(|()| any));
        }
        let ended = self.release_ended(now);
        outcome = outcome.and_then(|any| ended.map(|ended| any || ended));
        let admitted = self.admit_awaiting(now);
        let joined = self.join_pods(now);
        outcome = outcome.and_then(|any| joined.map(|joined| any || admitted || joined));
        outcome.map(|any| any.then(|| self.updates()))
    }
}
