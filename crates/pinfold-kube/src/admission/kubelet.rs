//! The kubelet's predicates, which it checks after its managers have admitted a pod.

use std::borrow::Cow;
use std::fmt;

use pinfold_cluster::koordinator::amounts::{Amounts, CPU, MEMORY};
use pinfold_cluster::{PODS, Shortage};
use pinfold_core::name::ResourceName;

use super::{AdmissionNode, AdmissionRequest, EPHEMERAL_STORAGE, LINUX, shortages};
use crate::scheduling_constraints::NO_EXECUTE;

/// Why a kubelet's predicates reject a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeletRejection {
    /// The pod's label `kubernetes.io/os` is not the node's.
    OsLabel,
    /// The pod is for another operating system.
    OsField,
    /// The node has too little of a resource left.
    OutOf(OutOf),
    /// The pod's selector or node affinity does not allow the node.
    NodeAffinity,
    /// The pod is bound to another node.
    NodeName,
    /// A host port of the pod is in use.
    NodePorts,
    /// The node has a `NoExecute` taint that the pod does not tolerate.
    TaintToleration,
}

/// A resource of which the node has too little left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOf {
    /// The resource.
    pub resource: ResourceName,
    /// The amount that the pod requests: milli-CPUs for `cpu`, whole units for everything else.
    pub requested: i64,
    /// The amount that other pods request.
    pub used: i64,
    /// The node's allocatable amount.
    pub capacity: i64,
    /// Whether the pod is critical: the kubelet would preempt other pods, which is not simulated.
    pub preempts: bool,
}

impl KubeletRejection {
    /// The reason in the pod's status.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            KubeletRejection::OsLabel => "PodOSSelectorNodeLabelDoesNotMatch".to_owned(),
            KubeletRejection::OsField => "PodOSNotSupported".to_owned(),
            KubeletRejection::OutOf(out) => format!("OutOf{}", out.resource),
            KubeletRejection::NodeAffinity => "NodeAffinity".to_owned(),
            KubeletRejection::NodeName => "NodeName".to_owned(),
            KubeletRejection::NodePorts => "NodePorts".to_owned(),
            KubeletRejection::TaintToleration => "TaintToleration".to_owned(),
        }
    }

    /// Whether the kubelet would preempt other pods instead of rejecting this one.
    #[must_use]
    pub fn preempts(&self) -> bool {
        matches!(self, KubeletRejection::OutOf(out) if out.preempts)
    }
}

/// The message in the pod's status.
impl fmt::Display for KubeletRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            KubeletRejection::OsLabel => {
                return f.write_str(
                    "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
                );
            }
            KubeletRejection::OsField => {
                return f.write_str("Failed to admit pod as the OS field doesn't match node OS");
            }
            KubeletRejection::OutOf(out) => {
                return write!(
                    f,
                    "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}",
                    out.resource, out.requested, out.used, out.capacity
                );
            }
            KubeletRejection::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            KubeletRejection::NodeName => "node(s) didn't match the requested node name",
            KubeletRejection::NodePorts => {
                "node(s) didn't have free ports for the requested pod ports"
            }
            KubeletRejection::TaintToleration => "node(s) had taints that the pod didn't tolerate",
        };
        write!(f, "Predicate {} failed: {text}", self.reason())
    }
}

impl AdmissionRequest {
    /// The rejection of a pod for another operating system than Linux, which kube-scheduler does not look at.
    #[must_use]
    pub fn unsupported_os(&self) -> Option<KubeletRejection> {
        let is_other = |os: &Option<String>| os.as_deref().is_some_and(|os| os != LINUX);
        if is_other(&self.os_label) {
            return Some(KubeletRejection::OsLabel);
        }
        is_other(&self.constraints.os).then_some(KubeletRejection::OsField)
    }
}

impl AdmissionNode {
    /// Whether the kubelet's predicates admit a pod that its managers admitted. `allocated` are the devices that all
    /// pods hold, this one included, if it holds any: of each device the node has at least as many as are allocated.
    ///
    /// # Errors
    /// With the first failure in the kubelet's order.
    pub fn predicates(
        &self,
        pod: &AdmissionRequest,
        allocated: &Amounts,
    ) -> Result<(), KubeletRejection> {
        if let Some(rejection) = pod.unsupported_os() {
            return Err(rejection);
        }
        let constraint = self.violated_constraint(pod);
        let short = self.out_of(pod, allocated);
        let (first, last) = match pod.is_critical {
            true => (constraint, short),
            false => (short, constraint),
        };
        match first.or(last) {
            Some(rejection) => Err(rejection),
            None => Ok(()),
        }
    }

    /// The first resource that is short, in the order in which the kubelet compares them.
    fn out_of(&self, pod: &AdmissionRequest, allocated: &Amounts) -> Option<KubeletRejection> {
        let mut capacity = Cow::Borrowed(&self.allocatable);
        for (name, amount) in allocated.iter() {
            let amount = amount.max(capacity.get(name.as_str()));
            capacity.to_mut().set(name, amount);
        }
        let requests = self.known_requests(pod);
        let short = shortages(&requests, &self.used, &capacity);
        if short.is_empty() {
            return None;
        }
        let unlisted = self.unlisted(pod);
        let mut short: Vec<Shortage> = short.into_vec();
        short.retain(|short| !unlisted.contains(&short.resource));
        short.sort_by_key(|short| match short.resource.as_str() {
            PODS => 0,
            CPU => 1,
            MEMORY => 2,
            EPHEMERAL_STORAGE => 3,
            _ => 4,
        });
        let first = short.into_iter().next()?;
        Some(KubeletRejection::OutOf(OutOf {
            used: self.used.get(first.resource.as_str()),
            capacity: capacity.get(first.resource.as_str()),
            requested: first.requested,
            resource: first.resource,
            preempts: pod.is_critical,
        }))
    }

    /// The first predicate about something else than resources that rejects the pod.
    #[must_use]
    pub fn violated_constraint(&self, pod: &AdmissionRequest) -> Option<KubeletRejection> {
        if let Some(node) = &self.constraints {
            if !node.is_selected_by(&pod.constraints) {
                return Some(KubeletRejection::NodeAffinity);
            }
            if !node.is_named_by(&pod.constraints) {
                return Some(KubeletRejection::NodeName);
            }
        }
        if (self.ports.conflict(&pod.constraints.host_ports)).is_some() {
            return Some(KubeletRejection::NodePorts);
        }
        let node = self.constraints.as_ref()?;
        let taint = node.untolerated(&pod.constraints, &[NO_EXECUTE]);
        (taint.is_some() && !pod.constraints.is_static).then_some(KubeletRejection::TaintToleration)
    }
}
