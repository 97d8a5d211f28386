//! When pods end: their sandbox is stopped or removed, or the API server says so.
//!
//! A pod holds its resources until it ends. A stopped sandbox is no end if the API server has the pod as active: the
//! kubelet makes a new sandbox for it, for example when the pause process dies.

use pinfold_core::name::PodUid;
use pinfold_kube::pod::PodIdentity;

use super::managed_container::{Sandbox, SandboxState};
use super::pod_status::PodStatus;
use super::{ManagedNode, PodOrigin, Update, standalone_uid};
use crate::journaled_ledger::JournaledLedgerError;
use pinfold_journal::Timestamp;

impl ManagedNode {
    /// Removes a stopped sandbox. Releases its pod unless the pod has a newer sandbox, or the API server may have it as
    /// active. Returns the updates of other containers.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn stop_pod(
        &mut self,
        id: &str,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        let Some(sandbox) = self.forget_sandbox(id) else {
            return Ok(Vec::new());
        };
        match self.pod_status.status(&sandbox.identity()) {
            // Once the pods are listed, a pod that ended is released: see `release_ended`.
            PodStatus::Active | PodStatus::NotListed => Ok(self.updates()),
            PodStatus::Unknown | PodStatus::Terminated | PodStatus::Absent => {
                self.release_without_sandbox(&sandbox.uid, now)
            }
        }
    }

    /// Removes a sandbox that the runtime deletes, and releases its pod unless the pod has a newer sandbox. Returns the
    /// updates of other containers.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn remove_pod(
        &mut self,
        id: &str,
        uid: &PodUid,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        self.forget_sandbox(id);
        self.release_without_sandbox(uid, now)
    }

    /// Removes a sandbox and its containers from memory.
    fn forget_sandbox(&mut self, id: &str) -> Option<Sandbox> {
        self.shared_sandboxes.remove(id);
        self.awaiting_specs.remove(id);
        self.containers
            .retain(|_, container| container.is_external() || container.sandbox != id);
        self.sandboxes.remove(id)
    }

    /// Releases a pod and its containers that were admitted without its spec, unless it has a sandbox.
    fn release_without_sandbox(
        &mut self,
        uid: &PodUid,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        let mut outcome = Ok(());
        if !self.has_sandbox_of(uid) {
            for resident in self.residents_of(uid) {
                outcome = outcome.and(self.release_resident(&resident, now));
            }
        }
        outcome.map(|()| self.updates())
    }

    /// The UIDs under which the ledger has a pod: its own, or those of its containers that were admitted without its spec.
    pub(super) fn residents_of(&self, uid: &PodUid) -> Vec<PodUid> {
        let prefix = standalone_uid(uid, &"".into());
        let pods = self.journaled.ledger().state().admitted_pods();
        let alone = pods.range(prefix.clone()..).map(|(resident, _)| resident);
        let alone = alone.take_while(|resident| resident.as_str().starts_with(prefix.as_str()));
        let whole = pods.get_key_value(uid).map(|(resident, _)| resident);
        whole.into_iter().chain(alone).cloned().collect()
    }

    /// Releases pods of which the API server says that they ended and of which nothing runs. Returns whether there were
    /// any.
    pub(super) fn release_ended(&mut self, now: Timestamp) -> Result<bool, JournaledLedgerError> {
        let pods = self.journaled.ledger().state().admitted_pods();
        let ended = pods.iter().filter(|(resident, admitted)| {
            let record = self.journaled.records().get(*resident);
            let is_declared = record.is_some_and(|record| record.origin == PodOrigin::Api);
            let pod = identity(resident, &admitted.pod.name);
            let runs = |container: &super::ManagedContainer| container.pod == pod.uid;
            if is_declared || self.containers.values().any(runs) {
                return false;
            }
            match self.pod_status.status(&pod) {
                PodStatus::Terminated => true,
                PodStatus::Absent => {
                    let is_ready = |sandbox: &Sandbox| sandbox.state == SandboxState::Ready;
                    let mut of_pod = self.sandboxes.values().filter(|one| one.uid == pod.uid);
                    !of_pod.any(is_ready)
                }
                PodStatus::Unknown | PodStatus::NotListed | PodStatus::Active => false,
            }
        });
        let ended: Vec<PodUid> = ended.map(|(resident, _)| resident.clone()).collect();
        let mut outcome = Ok(!ended.is_empty());
        for resident in ended {
            let released = self.release_resident(&resident, now);
            outcome = outcome.and_then(|any| released.map(|()| any));
        }
        outcome
    }

    /// Whether a pod of the ledger goes on although the runtime lists no sandbox of it that runs.
    pub(super) fn is_active(&self, resident: &PodUid) -> bool {
        let pods = self.journaled.ledger().state().admitted_pods();
        pods.get(resident).is_some_and(|admitted| {
            let status = self
                .pod_status
                .status(&identity(resident, &admitted.pod.name));
            matches!(status, PodStatus::Active | PodStatus::NotListed)
        })
    }
}

/// UID and name of the pod behind a UID of the ledger, which may be that of one container.
pub(super) fn identity(resident: &PodUid, name: &str) -> PodIdentity {
    let Some((uid, container)) = resident.as_str().split_once('/') else {
        let (uid, name) = (resident.clone(), name.to_owned());
        return PodIdentity { uid, name };
    };
    let name = name.strip_suffix(container).unwrap_or(name);
    PodIdentity {
        uid: uid.into(),
        name: name.trim_end_matches('/').to_owned(),
    }
}
