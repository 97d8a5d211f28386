//! [`NodeRecord`]: everything that was heard about one node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pinfold_apiserver::object;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::koordinator::amounts::Amounts;
use pinfold_core::koordinator::node as koordinator_node;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::volcano::predicate::NumaInfo;
use pinfold_kube::cluster::{DialectName, KubeletReport};
use pinfold_kube::generation::GENERATION;
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::manifest::Document;
use pinfold_kube::node::NodeObject;
use pinfold_kube::node_resource_topology::{self, NodeResourceTopology};
use serde_json::Value;

use super::firm::Spare;
use super::kind::Kind;

/// The label of a node that says whose rules decide there, for clusters where its reports do not.
pub use pinfold_kube::cluster::DIALECT_LABEL;

/// Everything that was heard about one node.
#[derive(Debug, Default)]
pub struct NodeRecord {
    /// The node itself; `None` if only its reports were heard of.
    pub node: Option<NodeFound>,
    /// Its NodeResourceTopology.
    pub report: Option<Heard<Reported>>,
    /// Its Numatopology.
    pub numa: Option<Heard<NumaInfo>>,
    /// Who is there, in the order of their binding.
    pub tenants: BTreeMap<u64, PodUid>,
    /// Who is there although the node should have rejected it.
    pub misfits: Vec<PodUid>,
    /// What was made of all this.
    pub kind: Kind,
    /// Whether its report lacks a pod that it should count by now.
    pub behind: bool,
    /// Whether its report lacks pods that hold something.
    pub open: bool,
    /// Pods whose place there is not known before the node reports them.
    pub unsure: BTreeSet<PodUid>,
    /// What is left for sure; `None` if its report does not list pods.
    pub(super) spare: Option<Spare>,
}

impl NodeRecord {
    /// Whether its report speaks of this pod; `None` if it does not speak of pods, or there is none.
    #[must_use]
    pub fn lists(&self, pod: &PodUid) -> Option<bool> {
        let report = self.report.as_ref()?.what.as_ref().ok()?;
        report.kubelet.lists(pod)
    }
}

/// Something, when it was heard, and in which version.
#[derive(Debug)]
pub struct Heard<T> {
    /// What; or why it cannot be understood.
    pub what: Result<Box<T>, String>,
    /// When.
    pub at: Instant,
    /// The version of the object.
    pub version: String,
}

/// What is kept of a Node.
#[derive(Clone, Debug)]
pub struct NodeFound {
    /// Its name.
    pub name: NodeName,
    /// The version of the object.
    pub version: String,
    /// What it offers as a whole.
    pub allocatable: Amounts,
    /// Whose rules decide, as its label says.
    pub label: Option<Kind>,
    /// The node as Koordinator sees it, without report and pods.
    pub koordinator: koordinator_node::KoordinatorNode,
}

/// What is kept of a NodeResourceTopology.
#[derive(Clone, Debug)]
pub struct Reported {
    /// For a node whose kubelet decides.
    pub kubelet: KubeletReport,
    /// For a node under Koordinator.
    pub koordinator: Result<koordinator_node::KoordinatorReport, String>,
    /// Whether it says where each CPU sits in Koordinator's words.
    pub lists_cpus: bool,
    /// The number of the state it is of.
    pub generation: Option<String>,
}

/// An object that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name}: {problem}")]
pub struct BadObject {
    /// What it is.
    pub kind: &'static str,
    /// Its name, as far as it says.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The name and the version of an object.
fn identity(object: &Value) -> (String, String) {
    let version = object["metadata"]["resourceVersion"].as_str();
    let version = version.unwrap_or_default().to_owned();
    (object::full_name(object), version)
}

/// Reads a Node.
///
/// # Errors
/// If it is none.
pub fn read_node(mut node: Value) -> Result<NodeFound, BadObject> {
    let (name, version) = identity(&node);
    let bad = |problem: String| BadObject {
        kind: "Node",
        name: name.clone(),
        problem,
    };
    if let Some(status) = node.get_mut("status").and_then(Value::as_object_mut) {
        // Images and conditions are most of it, and nothing here depends on them.
        status.retain(|key, _| key == "capacity" || key == "allocatable");
    }
    object::prune(&mut node);
    let read = Document::of_json(&name, "v1", "Node", &node);
    let read = read.and_then(|document| NodeObject::read(&document));
    let node = read.map_err(|found| bad(found.to_string()))?.value;
    let plain = koordinator::node(&node, None, Fidelity::Sound);
    let plain = plain.map_err(|found| bad(found.to_string()))?;
    Ok(NodeFound {
        name: node.name(),
        version,
        allocatable: Amounts::of(&node.allocatable),
        label: (node.meta.labels.get(DIALECT_LABEL)).and_then(|word| Kind::named(word)),
        koordinator: plain.value,
    })
}

/// Reads a NodeResourceTopology. One that cannot be understood is still the node's report.
///
/// # Errors
/// If not even its name can be read.
pub fn read_report(
    mut report: Value,
    now: Instant,
) -> Result<(NodeName, Heard<Reported>), BadObject> {
    let (name, version) = identity(&report);
    if name == "?" {
        return Err(BadObject {
            kind: "NodeResourceTopology",
            name,
            problem: "expected a name".to_owned(),
        });
    }
    let api_version = report["apiVersion"].as_str();
    let api_version = api_version
        .unwrap_or("topology.node.k8s.io/v1alpha2")
        .to_owned();
    let generation = report["metadata"]["annotations"][GENERATION].as_str();
    let generation = generation.map(str::to_owned);
    object::prune(&mut report);
    let read = Document::of_json(&name, &api_version, node_resource_topology::KIND, &report);
    let what = read
        .and_then(|document| NodeResourceTopology::read(&document))
        .map_err(|findings| findings.to_string())
        .and_then(|read| understood(&read.value, generation).map(Box::new));
    let heard = Heard {
        what,
        at: now,
        version,
    };
    Ok((name.as_str().into(), heard))
}

fn understood(
    topology: &NodeResourceTopology,
    generation: Option<String>,
) -> Result<Reported, String> {
    let kubelet = KubeletReport::read(topology).map_err(|findings| findings.to_string())?;
    let kubelet = kubelet.value;
    let koordinator = match kubelet.state().map(|state| state.dialect) {
        Some(DialectName::Kubelet) => Err("its agent says that its kubelet decides".to_owned()),
        _ => ReportAnnotations::report(topology, Fidelity::Sound)
            .map(|read| read.value)
            .map_err(|findings| findings.to_string()),
    };
    Ok(Reported {
        lists_cpus: kubelet.lists_cpus(),
        kubelet,
        koordinator,
        generation,
    })
}

/// Reads a Numatopology.
///
/// # Errors
/// If not even its name can be read.
pub fn read_numa(
    mut object: Value,
    now: Instant,
) -> Result<(NodeName, Heard<NumaInfo>), BadObject> {
    use pinfold_kube::volcano::{API_VERSION, KIND, Numatopology};
    let (name, version) = identity(&object);
    if name == "?" {
        return Err(BadObject {
            kind: KIND,
            name,
            problem: "expected a name".to_owned(),
        });
    }
    object::prune(&mut object);
    let read = || {
        let read = Document::of_json(&name, API_VERSION, KIND, &object);
        let read = read.and_then(|document| Numatopology::read(&document));
        let node = read.and_then(|numa| numa.value.node(Fidelity::Sound));
        let node = node.map_err(|findings| findings.to_string())?;
        let info = node.value.numa.ok_or_else(|| "no CPUs".to_owned())?;
        Ok(Box::new(info))
    };
    let heard = Heard {
        what: read(),
        at: now,
        version,
    };
    Ok((name.as_str().into(), heard))
}
