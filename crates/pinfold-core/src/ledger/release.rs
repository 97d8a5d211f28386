//! Releases what a pod holds: when a container starts, when the pod is removed, and after a rejection.

use super::change::{Change, LedgerEvent};
use super::transaction::LedgerTransaction;
use super::{Ledger, LedgerError};
use crate::name::{ContainerName, PodUid};

impl Ledger {
    /// Records that a container of `pod` started and releases the memory of init containers that finished before it.
    /// Mirrors the memory manager's `AddContainer`. Returns `None` if that changes nothing.
    ///
    /// # Errors
    /// If the pod is not admitted or has no such container.
    pub fn start(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
    ) -> Result<Option<Change>, LedgerError> {
        let admitted = self
            .state
            .admitted_pods
            .get(pod)
            .ok_or_else(|| LedgerError::NotAdmitted(pod.clone()))?;
        let spec = admitted.pod.clone();
        if spec.container(container).is_none() {
            return Err(LedgerError::NoSuchContainer {
                pod: pod.clone(),
                container: container.clone(),
            });
        }
        let mut transaction = LedgerTransaction::new(&self.rules, &mut self.state);
        let inits = spec.init_containers.iter();
        let earlier = inits.take_while(|init| init.name != *container);
        if let Some(policy) = transaction.rules.memory.as_static() {
            for init in earlier.filter(|init| !init.restartable) {
                let edits = policy.remove_container(&transaction.state.memory, pod, &init.name);
                transaction.memory(edits);
            }
        }
        Ok(transaction.finish(LedgerEvent::Started(pod.clone(), container.clone())))
    }

    /// Removes `pod` and releases everything it holds.
    ///
    /// # Errors
    /// If the pod is not admitted.
    pub fn release(&mut self, pod: &PodUid) -> Result<Change, LedgerError> {
        if !self.state.admitted_pods.contains_key(pod) {
            return Err(LedgerError::NotAdmitted(pod.clone()));
        }
        let mut transaction = LedgerTransaction::new(&self.rules, &mut self.state);
        transaction.set_pod(pod, None);
        let kept = self.last.each_ref().map(|last| last.as_ref() == Some(pod));
        transaction.release_where(pod, |provider| kept.get(provider) != Some(&true));
        Ok(transaction
            .finish(LedgerEvent::Released(pod.clone()))
            .expect("the entry of the pod was removed"))
    }
}

impl LedgerTransaction<'_> {
    /// Releases everything that the providers have recorded for a pod. Mirrors their `removeStaleState` for a pod that
    /// is not active any more.
    pub(super) fn release_all(&mut self, pod: &PodUid) {
        self.release_where(pod, |_| true);
    }

    /// The same for some providers, by their position.
    fn release_where(&mut self, pod: &PodUid, releases: impl Fn(usize) -> bool) {
        for (number, provider) in self.rules.providers.iter().enumerate() {
            if releases(number) {
                provider.release(self, pod);
            }
        }
        if !self.rules.fidelity().remembers_reuse_after_admission() {
            self.reusable_cpus(None);
        }
    }
}
