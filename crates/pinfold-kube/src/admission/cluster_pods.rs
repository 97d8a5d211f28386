//! [`ClusterPods`]: the pods of a cluster by node, as kube-scheduler's filters about other pods read them.
//!
//! Pods with the same namespace, labels and terms are one class. A filter compares its selectors with each class once
//! and then counts, so that a cluster of thousands of equal pods costs as much as its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::name::{NodeName, PodUid};

use super::inter_pod_affinity::InterPodAffinity;
use super::topology_spread::TopologySpread;
use super::{AdmissionNode, AdmissionRequest};
use crate::scheduling_constraints::{Labels, NodeConstraints, NodeMismatch, PodTerms};

/// The label that every namespace has.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What filters about other pods read of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodClass {
    pub(super) namespace: String,
    pub(super) labels: Labels,
    /// Pods that are being deleted do not count for topology spread.
    pub(super) terminating: bool,
    /// Its terms as the API server completes them.
    pub(super) terms: PodTerms,
}

/// The number of a class.
pub(super) type ClassId = usize;

/// The pods of a cluster by node, and the labels of its namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPods {
    classes: Vec<Arc<PodClass>>,
    ids: BTreeMap<Arc<PodClass>, ClassId>,
    /// The number of pods of each class.
    nodes: BTreeMap<NodeName, BTreeMap<ClassId, u64>>,
    pods: BTreeMap<PodUid, (NodeName, ClassId)>,
    namespaces: BTreeMap<String, Labels>,
}

impl ClusterPods {
    /// No pods, in a cluster with these namespaces.
    #[must_use]
    pub fn new(namespaces: BTreeMap<String, Labels>) -> Self {
        Self {
            namespaces,
            ..Self::default()
        }
    }

    /// Adds a pod to a node.
    pub fn add(&mut self, node: &NodeName, uid: &PodUid, pod: &AdmissionRequest) {
        self.remove(uid);
        let class = match self.ids.get(&pod.class) {
            Some(&class) => class,
            None => {
                self.classes.push(pod.class.clone());
                self.ids.insert(pod.class.clone(), self.classes.len() - 1);
                self.classes.len() - 1
            }
        };
        let counts = self.nodes.entry(node.clone()).or_default();
        *counts.entry(class).or_default() += 1;
        self.pods.insert(uid.clone(), (node.clone(), class));
    }

    /// Removes a pod.
    pub fn remove(&mut self, uid: &PodUid) {
        let Some((node, class)) = self.pods.remove(uid) else {
            return;
        };
        let Some(counts) = self.nodes.get_mut(&node) else {
            return;
        };
        if let Some(count) = counts.get_mut(&class) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&class);
            }
        }
    }

    /// Whether the labels of namespaces are known.
    #[must_use]
    pub fn knows_namespaces(&self) -> bool {
        !self.namespaces.is_empty()
    }

    /// What the filters about other pods compute once for a pod, before they look at single nodes.
    #[must_use]
    pub fn prepare<'a>(
        &self,
        pod: &'a AdmissionRequest,
        nodes: &'a BTreeMap<NodeName, AdmissionNode>,
    ) -> PodFilters<'a> {
        let labeled = || {
            let nodes = nodes.iter();
            nodes.filter_map(|(name, node)| Some((name, node.constraints.as_ref()?)))
        };
        PodFilters {
            spread: TopologySpread::of(pod, self, labeled),
            affinity: InterPodAffinity::of(pod, self, labeled),
        }
    }

    /// Asks a question about each class.
    pub(super) fn by_class<T>(&self, ask: impl Fn(&PodClass) -> T) -> Vec<T> {
        self.classes.iter().map(|class| ask(class)).collect()
    }

    /// The same with answers that borrow from the classes.
    pub(super) fn by_class_ref<'s, T>(&'s self, ask: impl Fn(&'s PodClass) -> T) -> Vec<T> {
        self.classes.iter().map(|class| ask(class)).collect()
    }

    /// The number of pods of each class on a node.
    pub(super) fn on<'s>(&'s self, node: &NodeName) -> impl Iterator<Item = (ClassId, u64)> + 's {
        let counts = self.nodes.get(node).into_iter().flatten();
        counts.map(|(class, count)| (*class, *count))
    }

    /// All namespaces with their labels, those of pods without a Namespace object included.
    pub(super) fn all_namespaces(&self) -> BTreeMap<String, Labels> {
        let of_pods = self.classes.iter().map(|class| &class.namespace);
        let names = of_pods.chain(self.namespaces.keys());
        names
            .map(|name| (name.clone(), self.namespace_labels(name)))
            .collect()
    }

    /// The labels of a namespace; without a Namespace object only the one that it has in any case.
    pub(super) fn namespace_labels(&self, namespace: &str) -> Labels {
        let known = self.namespaces.get(namespace).cloned();
        let mut labels = known.unwrap_or_default();
        let name = || namespace.to_owned();
        labels.entry(NAME_LABEL.to_owned()).or_insert_with(name);
        labels
    }
}

/// kube-scheduler's filters `PodTopologySpread` and `InterPodAffinity`, prepared for one pod.
pub struct PodFilters<'a> {
    spread: TopologySpread<'a>,
    affinity: InterPodAffinity<'a>,
}

impl PodFilters<'_> {
    /// Whether they exclude no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spread.is_empty() && self.affinity.is_empty()
    }

    /// The first of both filters that excludes a node. A node without a Node object is never excluded.
    fn mismatch(&self, node: &AdmissionNode) -> Option<NodeMismatch> {
        let node: &NodeConstraints = node.constraints.as_ref()?;
        let spread = self.spread.mismatch(node);
        spread.or_else(|| self.affinity.mismatch(node))
    }

    /// The first filter that excludes a node, resources aside. kube-scheduler looks at other pods last, and only where
    /// the resources suffice.
    #[must_use]
    pub fn first_mismatch(
        &self,
        node: &AdmissionNode,
        pod: &AdmissionRequest,
    ) -> Option<NodeMismatch> {
        let mismatch = node.mismatch(pod);
        if mismatch.is_some() || self.is_empty() || node.filter(pod).is_err() {
            return mismatch;
        }
        self.mismatch(node)
    }
}

#[cfg(test)]
mod tests;
