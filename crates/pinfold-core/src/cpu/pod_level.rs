//! CPUs of a pod with pod-level resources: one set for the pod, divided among its containers.
//!
//! Containers that request whole CPUs are assigned exclusive ones from the pod's set; init containers that finish
//! release theirs. All other containers share the rest of the set. Only with [`PodLevel::Managed`] and the topology
//! scope `pod`. Mirrors `AllocatePod` and `validatePodScopeResources`.
//!
//! [`PodLevel::Managed`]: crate::demand::PodLevel::Managed

use super::error::CpuError;
use super::state::{CpuEdit, CpuEdits, CpuState};
use super::static_policy::{CpuGrant, PodCpus, StaticCpus};
use super::take::TakeError;
use crate::cpu_set::CpuSet;
use crate::demand::PodDemand;
use crate::name::ContainerName;
use crate::node_set::NodeSet;

/// Why a pod was not assigned CPUs, and the edits that the kubelet had made by then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct PodCpuRejection {
    /// The error.
    pub error: CpuError,
    /// Edits that remain: the pod's set, which no container uses and the kubelet never releases. Always empty in sound
    /// fidelity.
    pub left_behind: Vec<CpuEdit>,
}

impl From<CpuError> for PodCpuRejection {
    fn from(error: CpuError) -> Self {
        Self {
            error,
            left_behind: Vec::new(),
        }
    }
}

impl StaticCpus {
    /// Assigns a pod its CPUs, on `affinity` first, and divides them among its containers.
    ///
    /// # Errors
    /// If too few CPUs are free, or none would be left for the pod's other containers.
    pub(crate) fn allocate_pod(
        &self,
        state: &CpuState,
        affinity: Option<NodeSet>,
        demand: &PodDemand<'_>,
    ) -> Result<CpuGrant, PodCpuRejection> {
        let count = demand.pod_cpus();
        if count == 0 {
            return Ok(CpuGrant::default());
        }
        check_pod_budget(demand)?;
        if let Some(held) = self.pod_as_recorded(state, demand) {
            return Ok(CpuGrant {
                cpus: Some(held.clone()),
                ..CpuGrant::default()
            });
        }
        let supply = self.supply(state, &PodCpus::default());
        self.check_whole_cores(state, &supply, count)?;
        let whole = self.choose(&supply, count, affinity)?;
        let shared = state.set_shared(state.shared() - &whole);
        let pod = &demand.pod().uid;
        let own = state.set_pod(pod, Some(whole.clone()));
        let mut edits: CpuEdits = shared.into_iter().chain(own).collect();
        match self.divide(&whole, demand) {
            Ok(shares) => {
                let share = |(name, cpus): (&ContainerName, CpuSet)| -> Option<CpuEdit> {
                    state.set_container(pod, name, Some(cpus))
                };
                edits.extend(shares.into_iter().filter_map(share));
                Ok(CpuGrant {
                    edits,
                    cpus: Some(whole),
                    reusable: None,
                })
            }
            Err(error) => Err(PodCpuRejection {
                error: error.into(),
                left_behind: match self.fidelity.forgets_pod_sets() {
                    true => edits.into_vec(),
                    false => Vec::new(),
                },
            }),
        }
    }

    /// The CPUs of each container, in the pod's order.
    fn divide<'p>(
        &self,
        whole: &CpuSet,
        demand: &PodDemand<'p>,
    ) -> Result<Vec<(&'p ContainerName, CpuSet)>, TakeError> {
        let pod = demand.pod();
        let mut shares = Vec::new();
        // The pod's CPUs without those of sidecars.
        let mut left = whole.clone();
        for container in &pod.init_containers {
            let own = match (demand.container_cpus(container), container.restartable) {
                (0, true) => None,
                (0, false) => Some(left.clone()),
                (count, _) => Some(self.take(&left, count)?),
            };
            if let (Some(own), true) = (&own, container.restartable) {
                left -= own;
            }
            shares.push((&container.name, own));
        }
        for container in &pod.containers {
            let own = match demand.container_cpus(container) {
                0 => None,
                count => Some(self.take(&left, count)?),
            };
            if let Some(own) = &own {
                left -= own;
            }
            shares.push((&container.name, own));
        }
        let named = |(name, own): (_, Option<_>)| (name, own.unwrap_or_else(|| left.clone()));
        Ok(shares.into_iter().map(named).collect())
    }

    /// The pod's recorded set, if it is still what the pod requests. The kubelet does not look for it: after a restart
    /// it chooses a new set and leaks the old one.
    pub(super) fn pod_as_recorded<'s>(
        &self,
        state: &'s CpuState,
        demand: &PodDemand<'_>,
    ) -> Option<&'s CpuSet> {
        let held = state.pod(&demand.pod().uid)?;
        let fits = held.len() == demand.pod_cpus();
        (fits && !self.fidelity.forgets_pod_sets()).then_some(held)
    }
}

/// Checks that exclusive containers leave CPUs for the containers without exclusive ones.
pub(crate) fn check_pod_budget(demand: &PodDemand<'_>) -> Result<(), CpuError> {
    let (pod, budget) = (demand.pod(), demand.pod_cpus());
    let mut exclusive = 0_usize;
    let mut needs_shared_pool = false;
    for container in &pod.init_containers {
        match (demand.container_cpus(container), container.restartable) {
            (0, true) => needs_shared_pool = true,
            (0, false) if exclusive >= budget => return Err(CpuError::NothingLeftForInit),
            (_, false) => {}
            (count, true) => exclusive = exclusive.saturating_add(count),
        }
    }
    for container in &pod.containers {
        match demand.container_cpus(container) {
            0 => needs_shared_pool = true,
            count => exclusive = exclusive.saturating_add(count),
        }
    }
    match needs_shared_pool && exclusive >= budget {
        true => Err(CpuError::NothingLeftToShare),
        false => Ok(()),
    }
}
