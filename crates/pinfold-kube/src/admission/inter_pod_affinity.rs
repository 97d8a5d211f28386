//! kube-scheduler's filter `InterPodAffinity`.
//!
//! A domain is a topology key and its value. Each filter counts in domains: the pods that meet all affinity terms of the
//! new pod, those that meet one of its anti-affinity terms, and those with an anti-affinity term that the new pod meets.
//! Mirrors `PreFilter` and `Filter` of the plugin, with one defect of 1.36: the selector of namespaces of the new pod's
//! terms is also compared with an empty set of labels, so that `NotIn` and `DoesNotExist` select all namespaces.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::name::NodeName;

use super::AdmissionRequest;
use super::cluster_pods::{ClusterPods, PodClass};
use crate::scheduling_constraints::{AffinityTerm, Labels, NodeConstraints, NodeMismatch};

/// Topology keys with a value, and the number of pods there.
type Domains<'a> = BTreeMap<(&'a str, &'a str), u64>;

/// The terms of a pod with the pods that they are about.
pub(super) struct InterPodAffinity<'a> {
    affinity: &'a [AffinityTerm],
    anti_affinity: &'a [AffinityTerm],
    /// Pods that meet all affinity terms.
    wanted: Domains<'a>,
    /// Pods that meet an anti-affinity term.
    unwanted: Domains<'a>,
    /// Pods with an anti-affinity term that the pod meets; keys and values are labels of nodes.
    repelled: BTreeSet<(String, String)>,
    /// Whether the pod meets its own affinity terms.
    wants_itself: bool,
}

/// A term of the new pod with the namespaces that its selector selects.
struct MergedTerm<'a> {
    term: &'a AffinityTerm,
    namespaces: BTreeSet<String>,
    /// Whether the selector also selects namespaces without labels: then it selects all.
    everywhere: bool,
}

impl<'a> MergedTerm<'a> {
    fn of(term: &'a AffinityTerm, known: &BTreeMap<String, Labels>) -> Self {
        let selected = known
            .iter()
            .filter(|(_, labels)| term.namespace_selector.matches(labels))
            .map(|(name, _)| name.clone());
        Self {
            namespaces: term.namespaces.iter().cloned().chain(selected).collect(),
            everywhere: term.namespace_selector.matches(&Labels::new()),
            term,
        }
    }

    fn is_met_by(&self, pod: &PodClass) -> bool {
        (self.everywhere || self.namespaces.contains(&pod.namespace))
            && self.term.selector.matches(&pod.labels)
    }
}

impl<'a> InterPodAffinity<'a> {
    pub(super) fn of<N: Iterator<Item = (&'a NodeName, &'a NodeConstraints)>>(
        pod: &'a AdmissionRequest,
        pods: &ClusterPods,
        nodes: impl Fn() -> N,
    ) -> Self {
        let terms = &pod.class.terms;
        let mut found = Self {
            affinity: &terms.affinity,
            anti_affinity: &terms.anti_affinity,
            wanted: Domains::new(),
            unwanted: Domains::new(),
            repelled: BTreeSet::new(),
            wants_itself: false,
        };
        let own_namespace = pods.namespace_labels(&pod.class.namespace);
        // The topology keys of the terms of each class that the pod meets.
        let repelling: Vec<Vec<&str>> = pods.by_class_ref(|class| {
            let terms = class.terms.anti_affinity.iter();
            let met = terms.filter(|term| {
                (term.namespaces.contains(&pod.class.namespace)
                    || term.namespace_selector.matches(&own_namespace))
                    && term.selector.matches(&pod.class.labels)
            });
            met.map(|term| term.topology_key.as_str()).collect()
        });
        let is_repelled = repelling.iter().any(|keys| !keys.is_empty());
        if !is_repelled && terms.affinity.is_empty() && terms.anti_affinity.is_empty() {
            return found;
        }
        let known = pods.all_namespaces();
        let merged = |terms: &'a [AffinityTerm]| -> Vec<MergedTerm<'a>> {
            let terms = terms.iter();
            terms.map(|term| MergedTerm::of(term, &known)).collect()
        };
        let (affinity, anti_affinity) = (merged(&terms.affinity), merged(&terms.anti_affinity));
        found.wants_itself = meets_all(&pod.class, &affinity);
        let wanted = pods.by_class(|class| meets_all(class, &affinity));
        let unwanted: Vec<Vec<&str>> = pods.by_class(|class| {
            let met = anti_affinity.iter().filter(|term| term.is_met_by(class));
            met.map(|term| term.term.topology_key.as_str()).collect()
        });
        for (name, node) in nodes() {
            for (class, count) in pods.on(name) {
                if wanted[class] {
                    let keys = terms.affinity.iter().map(|term| term.topology_key.as_str());
                    keys.for_each(|key| add(&mut found.wanted, node, key, count));
                }
                for key in &unwanted[class] {
                    add(&mut found.unwanted, node, key, count);
                }
                for &key in &repelling[class] {
                    if let Some(value) = node.labels.get(key) {
                        found.repelled.insert((key.to_owned(), value.clone()));
                    }
                }
            }
        }
        found
    }

    pub(super) fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty() && self.repelled.is_empty()
    }

    /// Why the node is excluded: affinity, anti-affinity, then the anti-affinity of other pods.
    pub(super) fn mismatch(&self, node: &NodeConstraints) -> Option<NodeMismatch> {
        if !self.has_wanted(node) {
            return Some(NodeMismatch::PodAffinity);
        }
        let domain = |term: &'a AffinityTerm| {
            let value = node.labels.get(&term.topology_key)?;
            self.unwanted
                .get(&(term.topology_key.as_str(), value.as_str()))
        };
        if self.anti_affinity.iter().any(|term| domain(term).is_some()) {
            return Some(NodeMismatch::PodAntiAffinity);
        }
        let is_repelled = |(key, value): &(String, String)| node.labels.get(key) == Some(value);
        let is_repelled = match self.repelled.len() < node.labels.len() {
            true => self.repelled.iter().any(is_repelled),
            false => {
                let mut labels = node.labels.iter();
                labels.any(|(key, value)| self.repelled.contains(&(key.clone(), value.clone())))
            }
        };
        is_repelled.then_some(NodeMismatch::ExistingAntiAffinity)
    }

    /// Whether every affinity term has its pod in the node's domain. A pod that would meet its own terms is the first of
    /// its kind, if no pod of the cluster meets them.
    fn has_wanted(&self, node: &NodeConstraints) -> bool {
        let mut all_met = true;
        for term in self.affinity {
            let Some(value) = node.labels.get(&term.topology_key) else {
                return false;
            };
            let domain = (term.topology_key.as_str(), value.as_str());
            all_met &= self.wanted.contains_key(&domain);
        }
        all_met || (self.wanted.is_empty() && self.wants_itself)
    }
}

/// Whether a pod meets all terms, of which there is at least one.
fn meets_all(pod: &PodClass, terms: &[MergedTerm<'_>]) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.is_met_by(pod))
}

/// Counts pods on a node in the domain of a topology key.
fn add<'a>(domains: &mut Domains<'a>, node: &'a NodeConstraints, key: &'a str, count: u64) {
    if let Some(value) = node.labels.get(key) {
        *domains.entry((key, value)).or_default() += count;
    }
}
