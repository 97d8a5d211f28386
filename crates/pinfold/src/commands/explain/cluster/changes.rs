//! What would let a pod in that no node takes: each change is tried on the cluster before it is named.

use pinfold_core::cluster::{Cluster, Evaluation};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::{NodeName, ResourceName};
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::Container;
use pinfold_core::quantity::Quantity;
use pinfold_kube::cluster::{self, DialectName};
use pinfold_kube::koordinator::keys;
use pinfold_kube::pod::PodObject;
use pinfold_kube::volcano;
use serde::Serialize;

use crate::cluster::Nodes;
use crate::commands::simulate::cluster::place;

/// So many questions to nodes are asked in all.
const MOST_QUESTIONS: usize = 200_000;
/// Memory is cut down in steps of so many bytes.
const MEMORY_STEP: i64 = 1 << 20;

/// A change after which a node takes the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// What to change.
    pub(crate) change: String,
    /// The best node then.
    pub(crate) node: NodeName,
    /// The CPUs it gets there.
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub(crate) cpus: CpuSet,
    /// The NUMA nodes it gets there.
    pub(crate) numa_nodes: NodeSet,
}

impl Change {
    /// `cpu of container main: 4 instead of 6 (node-1: node 0, CPUs 4-7)`.
    pub(super) fn told(&self) -> String {
        let place = place(&self.cpus, self.numa_nodes);
        format!("{} ({}: {place})", self.change, self.node)
    }
}

/// The changes, smallest kinds first: less of one resource, other words, one running pod less.
pub(crate) fn find(nodes: &Nodes, pod: &PodObject) -> Vec<Change> {
    let size = nodes.cluster.nodes().count().max(1);
    let mut trial = Trial {
        nodes,
        cluster: nodes.cluster.clone(),
        left: MOST_QUESTIONS / size,
    };
    let mut changes = Vec::new();
    for (index, container) in pod.pod.containers.iter().enumerate() {
        for resource in container.requests.keys() {
            changes.extend(trial.less(pod, index, resource));
        }
    }
    changes.extend(trial.other_words(pod));
    changes.extend(trial.without_one(pod));
    changes
}

struct Trial<'a> {
    nodes: &'a Nodes,
    cluster: Cluster,
    /// So many more pods may be tried.
    left: usize,
}

impl Trial<'_> {
    /// The best node for a changed pod.
    fn try_pod(&mut self, pod: &PodObject, told: impl FnOnce() -> String) -> Option<Change> {
        self.left = self.left.checked_sub(1)?;
        let ask = cluster::pod_request(pod, &self.nodes.reading).ok()?.value;
        let node = self.cluster.rank(&ask).first()?.node.clone();
        let (cpus, numa_nodes) = match self.cluster.evaluate(&ask, &node) {
            Evaluation::Fits(fit) => (fit.cpus, fit.numa),
            Evaluation::FitsInTotal => Default::default(),
            Evaluation::Rejected(_) => return None,
        };
        Some(Change {
            change: told(),
            node,
            cpus,
            numa_nodes,
        })
    }

    /// The most of a resource that would fit.
    fn less(&mut self, pod: &PodObject, index: usize, resource: &ResourceName) -> Option<Change> {
        let container = pod.pod.containers.get(index)?;
        let asked = *container.requests.get(resource)?;
        let mut fitting = |amount: Quantity| {
            let mut less = pod.clone();
            set(less.pod.containers.get_mut(index)?, resource, amount);
            let told = || {
                let name = &container.name;
                format!("{resource} of container {name}: {amount} instead of {asked}")
            };
            self.try_pod(&less, told)
        };
        if resource.as_str() == "memory" || resource.as_str().starts_with("hugepages-") {
            let steps = asked.value() / MEMORY_STEP;
            let amount = |steps: i64| Quantity::bytes(steps.saturating_mul(MEMORY_STEP));
            // More memory is never easier to find than less.
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
        // Whole cores and the like: less may fit where a little more does not, so all are tried.
        let whole = (asked.milli_value() - 1) / 1000;
        (1..=whole).rev().find_map(|amount| fitting(amount.into()))
    }

    /// Without or with other labels and annotations of the dialect.
    fn other_words(&mut self, pod: &PodObject) -> Vec<Change> {
        let mut changes = Vec::new();
        match self.nodes.reading.dialect {
            DialectName::Kubelet => {}
            DialectName::Koordinator => {
                for key in [keys::NUMA_SPEC, keys::RESOURCE_SPEC] {
                    let mut without = pod.clone();
                    if without.meta.annotations.remove(key).is_some() {
                        let told = || format!("without the annotation {key}");
                        changes.extend(self.try_pod(&without, told));
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
                    let told =
                        || format!("the annotation {}: {policy}", volcano::POLICY_ANNOTATION);
                    changes.extend(self.try_pod(&other, told));
                }
            }
        }
        changes
    }

    /// Without one of the pods that run.
    fn without_one(&mut self, pod: &PodObject) -> Vec<Change> {
        let mut changes = Vec::new();
        let whole = self.cluster.clone();
        for (uid, name) in &self.nodes.names {
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

/// Requests so much, and allows no more where there is a limit.
fn set(container: &mut Container, resource: &ResourceName, amount: Quantity) {
    container.requests.insert(resource.clone(), amount);
    if let Some(limit) = container.limits.get_mut(resource) {
        *limit = amount;
    }
}
