//! [`PodAsk`]: what a cluster has to know about one pod.

use std::sync::Arc;

use crate::demand::{effective_limits, effective_requests};
use crate::koordinator::amounts::Amounts;
use crate::koordinator::plugin::PodDemand;
use crate::name::PodUid;
use crate::pod::{Pod, ResourceList};
use crate::volcano::predicate::Task;

/// One pod with what each dialect has to know about it.
///
/// A dialect that nothing was said about sees a pod without its labels and annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAsk {
    pod: Arc<Pod>,
    koordinator: PodDemand,
    volcano: Task,
    /// The overhead of its runtime class, for NodeResourceTopologyMatch.
    overhead: ResourceList,
    /// What is counted against a node's allocatable.
    requests: Amounts,
}

impl PodAsk {
    /// A pod that carries no words of Koordinator or Volcano.
    #[must_use]
    pub fn new(pod: Arc<Pod>) -> Self {
        let requests = Amounts::of(&effective_requests(&pod));
        Self {
            koordinator: PodDemand {
                requests: requests.clone(),
                limits: Amounts::of(&effective_limits(&pod)),
                ..PodDemand::default()
            },
            volcano: Task {
                pod: Pod::clone(&pod),
                policy: None,
            },
            overhead: ResourceList::new(),
            requests,
            pod,
        }
    }

    /// The same with what Koordinator's labels and annotations say.
    #[must_use]
    pub fn with_koordinator(self, demand: PodDemand) -> Self {
        Self {
            koordinator: demand,
            ..self
        }
    }

    /// The same with the text of Volcano's topology policy annotation.
    #[must_use]
    pub fn with_volcano_policy(mut self, policy: impl Into<String>) -> Self {
        self.volcano.policy = Some(policy.into());
        self
    }

    /// The same with the overhead that its runtime class declares, which is counted with its requests.
    #[must_use]
    pub fn with_overhead(mut self, overhead: ResourceList) -> Self {
        self.requests.add(&Amounts::of(&overhead));
        self.overhead = overhead;
        self
    }

    /// Another pod of the same shape: the `number`th.
    #[must_use]
    pub fn again(&self, number: u32) -> Self {
        let pod = Pod {
            uid: format!("{}#{number}", self.pod.uid).into(),
            name: format!("{}#{number}", self.pod.name),
            ..Pod::clone(&self.pod)
        };
        let mut again = self.clone();
        again.volcano.pod.uid = pod.uid.clone();
        again.volcano.pod.name.clone_from(&pod.name);
        again.pod = Arc::new(pod);
        again
    }

    /// The pod.
    #[must_use]
    pub fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// The key under which the cluster knows the pod.
    #[must_use]
    pub fn uid(&self) -> &PodUid {
        &self.pod.uid
    }

    /// The pod as Koordinator sees it.
    #[must_use]
    pub fn koordinator(&self) -> &PodDemand {
        &self.koordinator
    }

    /// The pod as Volcano sees it.
    #[must_use]
    pub fn volcano(&self) -> &Task {
        &self.volcano
    }

    /// The overhead of its runtime class.
    #[must_use]
    pub fn overhead(&self) -> &ResourceList {
        &self.overhead
    }

    /// What it requests at its peak.
    #[must_use]
    pub fn requests(&self) -> &Amounts {
        &self.requests
    }

    /// Whether every decision about one of them is also right for the other: all but name and uid is the same.
    pub(super) fn is_shaped_like(&self, other: &PodAsk) -> bool {
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
