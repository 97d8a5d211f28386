//! Pods whose spec arrives after their containers were admitted one by one.
//!
//! The ledger then has each container under a UID of its own, which schedulers and reports do not know. As soon as the
//! spec is there, the pod is admitted as a whole on the CPUs that its containers have.

use std::collections::BTreeSet;
use std::sync::Arc;

use pinfold_core::name::PodUid;
use pinfold_kube::pin;

use super::admit::unpinned;
use super::pod_end::identity;
use super::pod_status::PodStatus;
use super::{ManagedNode, Rulebook, pod_record};
use crate::journaled_ledger::JournaledLedgerError;
use pinfold_journal::{PodOrigin, Timestamp};

impl ManagedNode {
    /// Joins the containers of pods whose spec has arrived. Returns whether there were any.
    pub(super) fn join_pods(&mut self, now: Timestamp) -> Result<bool, JournaledLedgerError> {
        if !matches!(self.rulebook, Rulebook::Kubelet) {
            return Ok(false);
        }
        let records = self.journaled.records();
        let pods = self.journaled.ledger().state().admitted_pods();
        let alone = pods.iter().filter_map(|(resident, admitted)| {
            let record = records.get(resident)?;
            let pod = identity(resident, &admitted.pod.name);
            let is_alone = pod.uid != *resident && record.origin == PodOrigin::Runtime;
            is_alone.then_some(pod)
        });
        let alone: BTreeSet<_> = alone.collect();
        self.unjoinable
            .retain(|uid| alone.iter().any(|pod| pod.uid == *uid));
        let mut any = false;
        for pod in alone {
            let is_active = self.pod_status.status(&pod) == PodStatus::Active;
            if !is_active || self.unjoinable.contains(&pod.uid) {
                continue;
            }
            if let Some(spec) = self.pod_status.spec(&pod) {
                let containers = self.residents_of(&pod.uid);
                let record = pod_record::record(
                    PodOrigin::Runtime,
                    &spec.meta.labels,
                    &spec.meta.annotations,
                );
                let core = match pin::is_wanted(&spec.meta.annotations) {
                    Ok(false) => Arc::new(unpinned(spec.pod.clone())),
                    _ => Arc::new(spec.pod.clone()),
                };
                match self
                    .journaled
                    .join_containers(&containers, &core, record, now)?
                {
                    true => self.set_resident(&pod.uid),
                    false => drop(self.unjoinable.insert(pod.uid.clone())),
                }
                any = true;
            }
        }
        Ok(any)
    }

    /// Has the containers of a pod hold what the ledger has under the pod's UID.
    fn set_resident(&mut self, uid: &PodUid) {
        for container in self.containers.values_mut() {
            if container.pod == *uid {
                container.resident.clone_from(uid);
            }
        }
    }
}
