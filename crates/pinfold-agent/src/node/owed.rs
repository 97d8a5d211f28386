//! Departures: who left, whether or not that could be written down at once.

use pinfold_core::name::PodUid;

use super::{Node, PodOrigin, Update};
use crate::journaled_ledger::JournaledLedgerError;
use pinfold_journal::Timestamp;

impl Node {
    /// A resident leaves, if it is one and is not to stay until somebody releases it. A departure that cannot be
    /// written down is owed: see [`Node::settle`].
    pub(super) fn let_go(
        &mut self,
        resident: &PodUid,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let note = self.journaled.records().get(resident);
        let stays = note.is_some_and(|note| note.origin == PodOrigin::Api);
        if stays {
            return Ok(());
        }
        let left = match self.lives_here(resident) {
            true => self.journaled.release(resident, now),
            false => Ok(()),
        };
        let left = left.and_then(|()| self.withdraw_devices(resident, now));
        if left.is_err() {
            self.owed.insert(resident.clone());
        }
        left
    }

    /// Whoever left while nothing could be written down leaves now. What others may use from now on; `None` if nobody
    /// was waiting.
    ///
    /// # Errors
    /// If it still cannot be written down.
    pub fn settle(&mut self, now: Timestamp) -> Result<Option<Vec<Update>>, JournaledLedgerError> {
        if self.owed.is_empty() {
            return Ok(None);
        }
        let mut outcome = Ok(());
        for resident in std::mem::take(&mut self.owed) {
            outcome = outcome.and(self.let_go(&resident, now));
        }
        outcome.map(|()| Some(self.updates()))
    }
}
