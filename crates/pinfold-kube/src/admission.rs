//! Admission around the NUMA managers: what kube-scheduler filters before a pod is bound to a node, and what the
//! node's kubelet checks after its managers.
//!
//! ```text
//! kube-scheduler      NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts: the first one that fails
//!                     NodeResourcesFit: every resource that is short         ─► Unschedulable, the pod stays Pending
//!                     PodTopologySpread, InterPodAffinity: the first one that fails
//! kubelet, managers   device, CPU and memory manager (pinfold-core)          ─► TopologyAffinityError and the like
//! kubelet, predicates the pod's operating system                             ─► PodOSNotSupported
//!                     pods, cpu, memory, ephemeral-storage, other resources  ─► OutOfcpu and the like
//!                     NodeAffinity, NodeName, NodePorts, TaintToleration     ─► the plugin's name
//! ```
//!
//! Mirrors kube-scheduler's default filters and `predicateAdmitHandler.Admit` of Kubernetes 1.36. The kubelet checks
//! all predicates and reports the first; it looks only at `NoExecute` taints, and drops requests for extended resources
//! that the node does not list. Pods that have terminated are left out by the caller. Values only: reasons are typed,
//! and their texts are those of Kubernetes.
//!
//! Not repeated: eviction conditions, sysctls, AppArmor, supplemental groups, declared features and node shutdown,
//! which depend on the state of a host; preemption; and the fields in
//! [`PodConstraints::unchecked_fields`](crate::scheduling_constraints::PodConstraints::unchecked_fields).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::{PODS, shortages};
use pinfold_core::demand::effective_requests;
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_core::pod::Pod;

use self::cluster_pods::PodClass;
use crate::node::NodeObject;
use crate::pod::{PodObject, is_extended};
use crate::scheduling_constraints::{NodeConstraints, PodConstraints, UsedPorts};

mod allocatable;
mod cluster_pods;
mod inter_pod_affinity;
mod kubelet;
mod replicas;
mod scheduler;
mod topology_spread;

pub use allocatable::{NodeCapacity, PodLimits};
pub use cluster_pods::{ClusterPods, PodFilters};
pub use kubelet::{KubeletRejection, OutOf};
pub use replicas::{MAX_REPLICAS, ReplicaSums};
pub use scheduler::{Unschedulable, unavailable};

/// The label of nodes and pods with their operating system.
const OS_LABEL: &str = "kubernetes.io/os";
/// The operating system of every node.
const LINUX: &str = "linux";
/// The least priority of pods that the kubelet preempts others for.
const CRITICAL: i32 = 2_000_000_000;
/// A resource that a machine's description does not have.
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// A pod as admission reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionRequest {
    /// Its constraints on nodes.
    pub constraints: Arc<PodConstraints>,
    /// Its effective requests with the overhead of its runtime class.
    requests: Amounts,
    overhead: Amounts,
    os_label: Option<String>,
    is_critical: bool,
    /// What filters about other pods read of it.
    class: Arc<PodClass>,
}

impl AdmissionRequest {
    /// Reads a pod.
    #[must_use]
    pub fn of(pod: &PodObject) -> Self {
        let priority = pod.priority.unwrap_or(0);
        let request = Self {
            is_critical: pod.constraints.is_static || priority >= CRITICAL,
            constraints: pod.constraints.clone(),
            os_label: pod.meta.labels.get(OS_LABEL).cloned(),
            overhead: Amounts::of(&pod.overhead),
            requests: Amounts::new(),
            class: Arc::new(PodClass {
                namespace: pod.meta.namespace.clone(),
                labels: pod.meta.labels.clone(),
                terminating: pod.constraints.terminating,
                terms: (pod.constraints.pod_terms).completed(&pod.meta.namespace, &pod.meta.labels),
            }),
        };
        request.with_resources_of(&pod.pod)
    }

    /// A pod of which only the resources are known.
    #[must_use]
    pub fn of_resources(pod: &Pod) -> Self {
        Self::default().with_resources_of(pod)
    }

    /// The same pod with other requests.
    #[must_use]
    pub fn with_resources_of(&self, pod: &Pod) -> Self {
        let mut requests = Amounts::of(&effective_requests(pod));
        requests.add(&self.overhead);
        Self {
            requests,
            ..self.clone()
        }
    }

    /// Its effective requests: init containers, sidecars, pod-level resources and overhead included.
    #[must_use]
    pub fn requests(&self) -> &Amounts {
        &self.requests
    }
}

/// A node as admission sees it, with its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionNode {
    /// Name, labels, taints; `None` for a machine without a Node object, where none of them is checked.
    constraints: Option<NodeConstraints>,
    allocatable: Amounts,
    /// The requests of all pods, and their number under `pods`.
    used: Amounts,
    ports: UsedPorts,
    pods: BTreeMap<PodUid, Amounts>,
}

impl AdmissionNode {
    /// A node without pods.
    #[must_use]
    pub fn new(constraints: Option<NodeConstraints>, allocatable: Amounts) -> Self {
        Self {
            constraints,
            allocatable,
            used: Amounts::new(),
            ports: UsedPorts::default(),
            pods: BTreeMap::new(),
        }
    }

    /// A node of a cluster, without pods. Labels and taints that are not known are not checked.
    #[must_use]
    pub fn of(node: &NodeObject, allocatable: Amounts) -> Self {
        let constraints = node.is_known.then(|| NodeConstraints::of(node));
        Self::new(constraints, allocatable)
    }

    /// The requests of all pods, and their number under `pods`.
    #[must_use]
    pub fn used(&self) -> &Amounts {
        &self.used
    }

    /// Whether its labels and taints are known.
    #[must_use]
    pub fn has_object(&self) -> bool {
        self.constraints.is_some()
    }

    /// Adds a pod that runs on the node; a pod that is there already is replaced.
    pub fn add(&mut self, uid: &PodUid, pod: &AdmissionRequest) {
        self.remove(uid);
        self.count(pod.requests(), 1);
        self.ports.add(uid, &pod.constraints.host_ports);
        self.pods.insert(uid.clone(), pod.requests.clone());
    }

    /// Removes a pod.
    pub fn remove(&mut self, uid: &PodUid) {
        if let Some(requests) = self.pods.remove(uid) {
            self.count(&requests, -1);
            self.ports.remove(uid);
        }
    }

    /// Changes the number of healthy devices that the node lists, when a device plugin connects or disconnects.
    pub fn set_devices(&mut self, resource: &ResourceName, devices: usize) {
        let devices = i64::try_from(devices).unwrap_or(i64::MAX);
        self.allocatable.set(resource, devices);
    }

    fn count(&mut self, requests: &Amounts, sign: i64) {
        for (name, amount) in requests.iter() {
            let used = self.used.get(name.as_str());
            self.used.set(name, used.saturating_add(sign * amount));
        }
        let pods = self.used.get(PODS).saturating_add(sign);
        self.used.set(&PODS.into(), pods);
    }

    /// The extended resources that the pod requests and the node does not list: the kubelet ignores them.
    #[must_use]
    pub fn unlisted(&self, pod: &AdmissionRequest) -> Vec<ResourceName> {
        let names = pod.requests.iter().filter(|&(_, amount)| amount > 0);
        let is_unlisted = |name: &&ResourceName| {
            is_extended(name.as_str()) && !self.allocatable.contains(name.as_str())
        };
        let names = names.map(|(name, _)| name);
        names.filter(is_unlisted).cloned().collect()
    }

    /// What kube-scheduler or the kubelet checks about the pod and this crate does not, in a few words each.
    #[must_use]
    pub fn not_simulated(&self, pod: &AdmissionRequest) -> Vec<&'static str> {
        let mut found = pod.constraints.unchecked_fields.clone();
        if self.constraints.is_none() {
            found.extend(pod.constraints.pod_terms.fields());
        }
        if self.constraints.is_none() && !pod.constraints.selector.is_empty() {
            found.push("node selector and affinity (no Node object)");
        }
        if pod.requests.get(EPHEMERAL_STORAGE) > 0 && !self.knows(EPHEMERAL_STORAGE) {
            found.push("ephemeral-storage (no Node object)");
        }
        found
    }

    /// Whether the amount of a resource is known. A machine without a Node object says nothing about its disks.
    fn knows(&self, resource: &str) -> bool {
        self.constraints.is_some()
            || resource != EPHEMERAL_STORAGE
            || self.allocatable.contains(resource)
    }

    /// The requests that are compared with `allocatable`.
    fn known_requests<'p>(&self, pod: &'p AdmissionRequest) -> Cow<'p, Amounts> {
        let mut names = pod.requests.iter().map(|(name, _)| name.as_str());
        if names.all(|name| self.knows(name)) {
            return Cow::Borrowed(&pod.requests);
        }
        let known = pod.requests.iter();
        let known = known.filter(|(name, _)| self.knows(name.as_str()));
        Cow::Owned(known.map(|(name, amount)| (name.clone(), amount)).collect())
    }
}

#[cfg(test)]
mod tests;
