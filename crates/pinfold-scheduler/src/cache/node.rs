//! [`NodeEntry`]: the Node object, the reports and the pods of one node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::node as koordinator_node;
use pinfold_cluster::volcano::predicate::NumaInfo;
use pinfold_core::fidelity::{Fidelity, KubeletVersion, UnknownKubelet};
use pinfold_core::name::{NodeName, PodUid};
use pinfold_kube::api_object::ApiObject;
use pinfold_kube::cluster::{DialectName, KubeletReport};
use pinfold_kube::generation::GENERATION;
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::node::{self, NodeObject};
use pinfold_kube::node_resource_topology::{self, NodeResourceTopology};
use pinfold_kube::pod_fingerprint::{self, FingerprintMethod};
use pinfold_kube::volcano::{self, Numatopology};

pub use pinfold_kube::api_object::InvalidObject;

use super::dialect::ReportedDialect;
use super::pending_headroom::Headroom;

/// The label of a node that sets its dialect, for clusters whose reports do not show it.
pub use pinfold_kube::cluster::DIALECT_LABEL;

/// The Node object, the reports and the pods of one node.
#[derive(Debug, Default)]
pub struct NodeEntry {
    /// The Node object; `None` if only reports or pods of the node were received.
    pub node: Option<NodeInfo>,
    /// The NodeResourceTopology of the node.
    pub report: Option<Observed<TopologyReport>>,
    /// The Numatopology of the node.
    pub numa: Option<Observed<NumaInfo>>,
    /// The pods bound to the node or reserved on it, by the order of their binding.
    pub pods: BTreeMap<u64, PodUid>,
    /// Pods that do not fit on the node although they are bound to it.
    pub misplaced: Vec<PodUid>,
    /// Whose rules decide on the node.
    pub dialect: ReportedDialect,
    /// Whether the report is stale: it lacks a pod that it should list by now, or there are uncertain placements.
    pub stale: bool,
    /// Whether the report lacks a pod that it should list by now.
    pub overdue: bool,
    /// Whether the report lacks pods with an assignment.
    pub has_unreported: bool,
    /// When the last pod of the node was deleted, while further deletions are expected.
    pub(super) last_deletion: Option<Instant>,
    /// Unreported pods whose placement is unknown until the report lists them.
    pub uncertain: BTreeSet<PodUid>,
    /// The headroom for further pods; `None` if the report does not list pods.
    pub(super) headroom: Option<Headroom>,
}

impl NodeEntry {
    /// Whether the label of the node sets its dialect.
    #[must_use]
    pub fn has_dialect_label(&self) -> bool {
        let node = self.node.as_ref();
        node.is_some_and(|node| node.dialect_label.is_some())
    }

    /// Whether the report lists this pod; `None` without a report, or if the report does not list pods.
    #[must_use]
    pub fn lists(&self, pod: &PodUid) -> Option<bool> {
        let report = self.report.as_ref()?.parsed.as_ref().ok()?;
        report.kubelet.lists(pod)
    }
}

/// A report with its resource version and the time of its arrival.
#[derive(Debug)]
pub struct Observed<T> {
    /// The parsed report, or why it cannot be parsed.
    pub parsed: Result<Box<T>, String>,
    /// When the report arrived.
    pub received: Instant,
    /// The resource version.
    pub version: String,
}

/// The parts of a Node object that the cache keeps.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// The name of the node.
    pub name: NodeName,
    /// The resource version.
    pub version: String,
    /// The allocatable amounts.
    pub allocatable: Amounts,
    /// The version of its kubelet, by whose rules the node is evaluated; the error of one whose rules are not known.
    pub kubelet: Result<KubeletVersion, UnknownKubelet>,
    /// The dialect that the label of the node sets.
    pub dialect_label: Option<ReportedDialect>,
    /// The node for Koordinator's rules, without its report and pods.
    pub koordinator: koordinator_node::KoordinatorNode,
}

/// The parts of a NodeResourceTopology that the cache keeps.
#[derive(Clone, Debug)]
pub struct TopologyReport {
    /// The report for the kubelet's rules.
    pub kubelet: KubeletReport,
    /// The report for Koordinator's rules, or why it cannot be used for them.
    pub koordinator: Result<koordinator_node::KoordinatorReport, String>,
    /// Whether the report has Koordinator's CPU topology annotation.
    pub lists_cpus: bool,
    /// The fingerprint of the pods that the report counts, if it has one, and which pods it covers.
    pub fingerprint: Option<(FingerprintMethod, String)>,
    /// The generation of the node state that the report was made from.
    pub generation: Option<String>,
}

/// Parses an object that must have a name.
fn parse_named(
    kind: &'static str,
    api_version: &str,
    json: &str,
) -> Result<ApiObject, InvalidObject> {
    let object = ApiObject::parse(kind, api_version, json)?;
    match object.name.as_str() {
        "?" => Err(InvalidObject {
            kind,
            name: object.name,
            problem: "expected a name".to_owned(),
        }),
        _ => Ok(object),
    }
}

/// Parses a Node.
///
/// # Errors
/// If the object is not a valid Node.
pub fn parse_node(json: &str) -> Result<NodeInfo, InvalidObject> {
    let object = ApiObject::parse("Node", "v1", json)?;
    let node = NodeObject::read(&object.document).map_err(|found| object.invalid(&found))?;
    let node = node.value;
    let plain = koordinator::node(&node, None, Fidelity::Sound);
    let plain = plain.map_err(|found| object.invalid(&found))?;
    Ok(NodeInfo {
        name: node.name(),
        kubelet: kubelet_version(&object),
        version: object.resource_version,
        allocatable: Amounts::of(&node.allocatable),
        dialect_label: (node.meta.labels.get(DIALECT_LABEL))
            .and_then(|value| ReportedDialect::from_label(value)),
        koordinator: plain.value,
    })
}

/// The version in `status.nodeInfo`, or the default one if there is none that can be read. A kubelet that is newer than
/// all known ones is evaluated as the newest of them.
fn kubelet_version(object: &ApiObject) -> Result<KubeletVersion, UnknownKubelet> {
    let text = node::kubelet_version(&object.document);
    match text.map_or(
        Ok((KubeletVersion::DEFAULT, false)),
        KubeletVersion::nearest,
    ) {
        Ok((version, _)) => Ok(version),
        Err(UnknownKubelet::TooOld(text)) => Err(UnknownKubelet::TooOld(text)),
        Err(_) => Ok(KubeletVersion::DEFAULT),
    }
}

/// Parses a NodeResourceTopology. The error of an invalid one is kept in [`Observed::parsed`].
///
/// # Errors
/// If the object has no name.
pub fn parse_report(
    json: &str,
    now: Instant,
) -> Result<(NodeName, Observed<TopologyReport>), InvalidObject> {
    let kind = node_resource_topology::KIND;
    let object = parse_named(kind, "topology.node.k8s.io/v1alpha2", json)?;
    let generation = object.annotation(GENERATION).map(str::to_owned);
    let parsed = NodeResourceTopology::read(&object.document)
        .map_err(|findings| findings.to_string())
        .and_then(|read| report_of(&read.value, generation).map(Box::new));
    let observed = Observed {
        parsed,
        received: now,
        version: object.resource_version,
    };
    Ok((object.name.as_str().into(), observed))
}

fn report_of(
    topology: &NodeResourceTopology,
    generation: Option<String>,
) -> Result<TopologyReport, String> {
    let kubelet = KubeletReport::read(topology).map_err(|findings| findings.to_string())?;
    let kubelet = kubelet.value;
    let koordinator = match kubelet.state().map(|state| state.dialect) {
        Some(DialectName::Kubelet) => Err("its agent publishes the kubelet's dialect".to_owned()),
        _ => ReportAnnotations::report(topology, Fidelity::Sound)
            .map(|read| read.value)
            .map_err(|findings| findings.to_string()),
    };
    Ok(TopologyReport {
        lists_cpus: kubelet.lists_cpus(),
        kubelet,
        koordinator,
        fingerprint: pod_fingerprint::reported(topology),
        generation,
    })
}

/// Parses a Numatopology. The error of an invalid one is kept in [`Observed::parsed`].
///
/// # Errors
/// If the object has no name.
pub fn parse_numa(
    json: &str,
    now: Instant,
) -> Result<(NodeName, Observed<NumaInfo>), InvalidObject> {
    let object = parse_named(volcano::KIND, volcano::API_VERSION, json)?;
    let parse = || {
        let read = Numatopology::read(&object.document);
        let node = read.and_then(|numa| numa.value.node(Fidelity::Sound));
        let node = node.map_err(|findings| findings.to_string())?;
        let info = node.value.numa.ok_or_else(|| "no CPUs".to_owned())?;
        Ok(Box::new(info))
    };
    let observed = Observed {
        parsed: parse(),
        received: now,
        version: object.resource_version.clone(),
    };
    Ok((object.name.as_str().into(), observed))
}
