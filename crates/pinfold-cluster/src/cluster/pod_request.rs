//! [`PodRequest`]: a pod to be placed, in the form that each dialect reads.

use std::sync::Arc;

use crate::koordinator::amounts::Amounts;
use crate::koordinator::plugin::PodDemand;
use crate::volcano::predicate::VolcanoTask;
use pinfold_core::demand::{effective_limits, effective_requests};
use pinfold_core::name::PodUid;
use pinfold_core::pod::{Pod, ResourceList};

/// A pod to be placed: its spec, and what Koordinator and Volcano read from its labels and annotations.
///
/// A dialect whose labels and annotations were not given sees a pod without any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRequest {
    pod: Arc<Pod>,
    koordinator: PodDemand,
    volcano: VolcanoTask,
    /// The overhead of its runtime class, which only NodeResourceTopologyMatch reads.
    overhead: ResourceList,
    /// The effective requests, which are counted against a node's allocatable.
    requests: Amounts,
}

impl PodRequest {
    /// A pod without labels and annotations of Koordinator or Volcano.
    #[must_use]
    pub fn new(pod: Arc<Pod>) -> Self {
        let requests = Amounts::of(&effective_requests(&pod));
        Self {
            koordinator: PodDemand {
                requests: requests.clone(),
                limits: Amounts::of(&effective_limits(&pod)),
                ..PodDemand::default()
            },
            volcano: VolcanoTask {
                pod: pod.clone(),
                policy: None,
            },
            overhead: ResourceList::new(),
            requests,
            pod,
        }
    }

    /// The same pod with what Koordinator's labels and annotations say.
    #[must_use]
    pub fn with_koordinator(self, demand: PodDemand) -> Self {
        Self {
            koordinator: demand,
            ..self
        }
    }

    /// The same pod with the value of Volcano's topology policy annotation.
    #[must_use]
    pub fn with_volcano_policy(mut self, policy: impl Into<String>) -> Self {
        self.volcano.policy = Some(policy.into());
        self
    }

    /// The same pod with the overhead of its runtime class, which is added to its requests.
    #[must_use]
    pub fn with_overhead(mut self, overhead: ResourceList) -> Self {
        self.requests.add(&Amounts::of(&overhead));
        self.overhead = overhead;
        self
    }

    /// The `number`th copy of the pod: the same spec under another name and uid.
    #[must_use]
    pub fn copy(&self, number: u32) -> Self {
        let pod = Pod {
            uid: format!("{}#{number}", self.pod.uid).into(),
            name: format!("{}#{number}", self.pod.name),
            ..Pod::clone(&self.pod)
        };
        let mut copy = self.clone();
        copy.pod = Arc::new(pod);
        copy.volcano.pod = copy.pod.clone();
        copy
    }

    /// The pod.
    #[must_use]
    pub fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// The pod's uid, by which the cluster identifies it.
    #[must_use]
    pub fn uid(&self) -> &PodUid {
        &self.pod.uid
    }

    /// The pod as Koordinator's plugin reads it.
    #[must_use]
    pub fn koordinator(&self) -> &PodDemand {
        &self.koordinator
    }

    /// The pod as Volcano's plugin reads it.
    #[must_use]
    pub fn volcano(&self) -> &VolcanoTask {
        &self.volcano
    }

    /// The overhead of the pod's runtime class.
    #[must_use]
    pub fn overhead(&self) -> &ResourceList {
        &self.overhead
    }

    /// The pod's effective requests, init containers and sidecars included.
    #[must_use]
    pub fn requests(&self) -> &Amounts {
        &self.requests
    }

    /// Whether both pods are equal except for name and uid, so that an evaluation of one is valid for the other.
    pub(super) fn has_shape_of(&self, other: &PodRequest) -> bool {
        let (mine, theirs) = (&self.pod, &other.pod);
        mine.containers == theirs.containers
            && mine.init_containers == theirs.init_containers
            && mine.pod_requests == theirs.pod_requests
            && mine.pod_limits == theirs.pod_limits
            && self.koordinator == other.koordinator
            && self.volcano.policy == other.volcano.policy
            && self.overhead == other.overhead
    }
}
