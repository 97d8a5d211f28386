//! Changes of a rejected pod after which a node of the cluster would admit it. Every change is tried before it is
//! named.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_cluster::{Cluster, Evaluation};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::{NodeName, PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::Container;
use pinfold_core::quantity::Quantity;
use serde::Serialize;

use super::{DialectName, DialectOptions};
use crate::koordinator::keys;
use crate::pod::PodObject;
use crate::volcano;

/// The most nodes that are evaluated in all.
const MAX_EVALUATIONS: usize = 200_000;
/// Smaller memory requests are tried in multiples of this many bytes.
const MEMORY_STEP: i64 = 1 << 20;

/// A change after which a node admits the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodChange {
    /// The change, such as `cpu of container main: 4 instead of 6`.
    pub change: String,
    /// The node with the highest score after the change.
    pub node: NodeName,
    /// The exclusive CPUs of the pod there.
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub cpus: CpuSet,
    /// The NUMA nodes of the pod there.
    pub numa_nodes: NodeSet,
}

/// Changes that make a rejected pod fit: a smaller request, other annotations, or one running pod less. `running` are
/// the pods that may be removed, with their names.
#[must_use]
pub fn find_changes(
    cluster: &Cluster,
    reading: &DialectOptions,
    running: &BTreeMap<PodUid, String>,
    pod: &PodObject,
) -> Vec<PodChange> {
    let size = cluster.nodes().count().max(1);
    let mut trial = Trial {
        reading,
        dialects: super::dialects_of(cluster),
        running,
        cluster: cluster.clone(),
        left: MAX_EVALUATIONS / size,
    };
    let mut changes = Vec::new();
    for (index, container) in pod.pod.containers.iter().enumerate() {
        for resource in container.requests.keys() {
            changes.extend(trial.smaller_request(pod, index, resource));
        }
    }
    changes.extend(trial.other_annotations(pod));
    changes.extend(trial.without_one_pod(pod));
    changes
}

/// Tries changed pods on a copy of the cluster.
struct Trial<'a> {
    reading: &'a DialectOptions,
    dialects: BTreeSet<DialectName>,
    running: &'a BTreeMap<PodUid, String>,
    cluster: Cluster,
    /// How many more pods may be tried.
    left: usize,
}

impl Trial<'_> {
    /// The best node for a changed pod.
    fn try_pod(&mut self, pod: &PodObject, change: impl FnOnce() -> String) -> Option<PodChange> {
        self.left = self.left.checked_sub(1)?;
        let ask = super::pod_request(pod, self.reading, &self.dialects);
        let ask = ask.ok()?.value;
        let node = self.cluster.rank(&ask).first()?.node.clone();
        let (cpus, numa_nodes) = match self.cluster.evaluate(&ask, &node) {
            Evaluation::Fits(fit) => (fit.cpus, fit.numa),
            Evaluation::FitsInTotal => Default::default(),
            Evaluation::Rejected(_) => return None,
        };
        Some(PodChange {
            change: change(),
            node,
            cpus,
            numa_nodes,
        })
    }

    /// The largest smaller request of a resource that would fit.
    fn smaller_request(
        &mut self,
        pod: &PodObject,
        index: usize,
        resource: &ResourceName,
    ) -> Option<PodChange> {
        let container = pod.pod.containers.get(index)?;
        let asked = *container.requests.get(resource)?;
        let mut fitting = |amount: Quantity| {
            let mut less = pod.clone();
            set_request(less.pod.containers.get_mut(index)?, resource, amount);
            let change = || {
                let name = &container.name;
                format!("{resource} of container {name}: {amount} instead of {asked}")
            };
            self.try_pod(&less, change)
        };
        if resource.as_str() == "memory" || resource.as_str().starts_with("hugepages-") {
            let steps = asked.value() / MEMORY_STEP;
            let amount = |steps: i64| Quantity::bytes(steps.saturating_mul(MEMORY_STEP));
            // A node that admits a request of memory admits every smaller one: binary search.
            let (mut fits, mut too_much) = (0, steps);
            while too_much - fits > 1 {
                let middle = fits + (too_much - fits) / 2;
                match fitting(amount(middle)) {
                    Some(_) => fits = middle,
                    None => too_much = middle,
                }
            }
            return (fits > 0).then(|| fitting(amount(fits)))?;
        }
        // With whole cores or devices a smaller request may fit where a larger one does not, and the reverse: try all.
        let whole = (asked.milli_value() - 1) / 1000;
        (1..=whole).rev().find_map(|amount| fitting(amount.into()))
    }

    /// Other annotations that the nodes' dialects read.
    fn other_annotations(&mut self, pod: &PodObject) -> Vec<PodChange> {
        let dialects = self.dialects.clone().into_iter();
        dialects
            .flat_map(|dialect| self.other_annotations_of(dialect, pod))
            .collect()
    }

    fn other_annotations_of(&mut self, dialect: DialectName, pod: &PodObject) -> Vec<PodChange> {
        let mut changes = Vec::new();
        match dialect {
            DialectName::Kubelet | DialectName::SchedulerPlugins => {}
            DialectName::Koordinator => {
                for key in [keys::NUMA_SPEC, keys::RESOURCE_SPEC] {
                    let mut without = pod.clone();
                    if without.meta.annotations.remove(key).is_some() {
                        let change = || format!("without the annotation {key}");
                        changes.extend(self.try_pod(&without, change));
                    }
                }
            }
            DialectName::Volcano => {
                let own = pod.meta.annotations.get(volcano::POLICY_ANNOTATION);
                let policies = ["single-numa-node", "restricted", "best-effort", "none"];
                for policy in policies {
                    if own.is_some_and(|own| own == policy) {
                        continue;
                    }
                    let mut other = pod.clone();
                    let key = volcano::POLICY_ANNOTATION.to_owned();
                    other.meta.annotations.insert(key, policy.to_owned());
                    let change =
                        || format!("the annotation {}: {policy}", volcano::POLICY_ANNOTATION);
                    changes.extend(self.try_pod(&other, change));
                }
            }
        }
        changes
    }

    /// The cluster without one of the running pods.
    fn without_one_pod(&mut self, pod: &PodObject) -> Vec<PodChange> {
        let mut changes = Vec::new();
        let whole = self.cluster.clone();
        for (uid, name) in self.running {
            if whole.node_of_pod(uid).is_none() || self.left == 0 {
                continue;
            }
            self.cluster.remove(uid);
            changes.extend(self.try_pod(pod, || format!("without pod {name}")));
            self.cluster.clone_from(&whole);
        }
        changes
    }
}

/// Sets the request of a resource, and its limit if there is one.
fn set_request(container: &mut Container, resource: &ResourceName, amount: Quantity) {
    container.requests.insert(resource.clone(), amount);
    if let Some(limit) = container.limits.get_mut(resource) {
        *limit = amount;
    }
}
