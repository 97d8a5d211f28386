//! A node as Koordinator's scheduler sees it.

use pinfold_cluster::koordinator::KoordinatorDefects;
use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::ledger::KoordinatorLedger;
use pinfold_cluster::koordinator::node::{KoordinatorNode, RatioAnnotation};
use pinfold_cluster::koordinator::policy_values::{AllocateStrategy, NodeBindPolicy, NumaPolicy};
use pinfold_core::fidelity::Fidelity;

use super::annotations::{NodeAnnotations, ReportAnnotations, keys};
use super::key_aliases::{self, KEY_ALIASES, KeyAlias};
use super::read_annotations::ratios;
use crate::annotation::Annotation;
use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, Position, WithWarnings};
use crate::meta::{ObjectMeta, TextKind};
use crate::node::NodeObject;
use crate::node_resource_topology::NodeResourceTopology;

/// The policies of a Node object: its labels, and its amplification ratios.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePolicies {
    /// Label `cpu-bind-policy`.
    pub bind: Option<NodeBindPolicy>,
    /// Label `numa-allocate-strategy`.
    pub strategy: Option<AllocateStrategy>,
    /// Label `numa-topology-policy`.
    pub numa: Option<NumaPolicy>,
    /// Annotation `resource-amplification-ratio`, or why it cannot be read.
    pub ratios: RatioAnnotation,
}

impl NodePolicies {
    fn read(meta: &ObjectMeta, fidelity: Fidelity, report: &mut DiagnosticReport) -> Self {
        let bind = key_aliases::label(meta, keys::BIND_POLICY, fidelity, report);
        let strategy = key_aliases::label(meta, keys::ALLOCATE_STRATEGY, fidelity, report);
        Self {
            bind: bind.and_then(|(_, word)| NodeBindPolicy::parse(word)),
            strategy: strategy.and_then(|(_, word)| AllocateStrategy::parse(word)),
            numa: numa_policy(meta, fidelity, report),
            ratios: ratio_annotation(meta, report),
        }
    }
}

/// All labels and annotations of a Node object that the agent of the node follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSettings {
    /// The annotations that the agent copies to its report.
    pub annotations: NodeAnnotations,
    /// The policies by which pods are placed.
    pub policies: NodePolicies,
}

impl NodeSettings {
    /// Whether a label with this key is read.
    #[must_use]
    pub fn is_label(key: &str) -> bool {
        let current = [
            keys::BIND_POLICY,
            keys::ALLOCATE_STRATEGY,
            keys::NUMA_POLICY,
        ];
        let is_alias =
            |one: &KeyAlias| current.contains(&one.current) && one.aliases.contains(&key);
        current.contains(&key) || KEY_ALIASES.iter().any(is_alias)
    }

    /// Whether an annotation with this key is read.
    #[must_use]
    pub fn is_annotation(key: &str) -> bool {
        let read = [
            keys::RESERVATION,
            keys::SYSTEM_QOS,
            keys::RAW_ALLOCATABLE,
            keys::RATIOS,
        ];
        read.contains(&key)
    }

    /// Reads a Node. An annotation that cannot be parsed counts as absent, with a warning.
    ///
    /// # Errors
    /// None that is known: reading in exact mode turns errors into warnings.
    pub fn read(node: &NodeObject) -> Result<WithWarnings<Self>, Diagnostics> {
        let annotations = NodeAnnotations::read(node, Fidelity::Exact)?;
        let meta = &node.meta;
        let mut report = DiagnosticReport::for_object(&meta.origin.file, "Node", &meta.name);
        let policies = NodePolicies::read(meta, Fidelity::Sound, &mut report);
        let mut read = report.finish(Self {
            annotations: annotations.value,
            policies,
        })?;
        read.warnings.extend(annotations.warnings);
        Ok(read)
    }
}

/// Builds a node from its object and its report, without pods.
///
/// # Errors
/// With every annotation of the report that cannot be parsed (sound mode).
pub fn node(
    object: &NodeObject,
    topology: Option<&NodeResourceTopology>,
    fidelity: Fidelity,
) -> Result<WithWarnings<KoordinatorNode>, Diagnostics> {
    let meta = &object.meta;
    let mut report = DiagnosticReport::for_object(&meta.origin.file, "Node", &meta.name);
    let policies = NodePolicies::read(meta, fidelity, &mut report);
    let mut node = KoordinatorNode {
        bind_policy: policies.bind,
        strategy: policies.strategy,
        numa_policy: policies.numa,
        ratios: policies.ratios,
        report: None,
        allocatable: allocatable(object)?,
        requested: Amounts::new(),
        ledger: KoordinatorLedger::new(fidelity),
    };
    let mut read = match topology {
        Some(topology) => {
            let WithWarnings { value, warnings } = ReportAnnotations::report(topology, fidelity)?;
            node.report = Some(value);
            warnings
        }
        None => Vec::new(),
    };
    let own = report.finish(node)?;
    read.extend(own.warnings);
    Ok(WithWarnings {
        value: own.value,
        warnings: read,
    })
}

/// What pods can have of a Node together: its allocatable amounts without those that its annotation `reservation`
/// reserves, unless only the CPUs themselves are reserved. An annotation that cannot be parsed reserves nothing. Mirrors
/// `TrimNodeAllocatableByNodeReservation`.
fn allocatable(object: &NodeObject) -> Result<Amounts, Diagnostics> {
    let all = Amounts::of(&object.allocatable);
    let reservation = NodeAnnotations::read(object, Fidelity::Exact)?
        .value
        .reservation;
    if !matches!(reservation.apply_policy.as_str(), "" | "Default") {
        return Ok(all);
    }
    let mut reserved = Amounts::of(&reservation.resources);
    if !reservation.cpus.is_empty() {
        let count = i64::try_from(reservation.cpus.len()).unwrap_or(i64::MAX);
        reserved.set_cpu(count.saturating_mul(1000));
    }
    // Batch amounts are already without the reservation.
    for (name, _) in Amounts::of(&reservation.resources).iter() {
        if BATCH.contains(&name.as_str()) {
            reserved.set(name, 0);
        }
    }
    Ok(all.minus(&reserved))
}

/// Koordinator's resources of best-effort pods.
const BATCH: [&str; 2] = ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"];

/// The NUMA policy that koord-scheduler 1.8.0 does not survive.
pub(super) const POLICY_NONE: &str = "None";

/// Warns about the NUMA policy `None`.
pub(super) fn warn_about_none(at: Option<Position>, path: &str, report: &mut DiagnosticReport) {
    let message = "koord-scheduler 1.8.0 ends with a nil pointer on the NUMA policy None";
    let hint = "remove it: without a policy nothing is aligned either".to_owned();
    let problem = DiagnosticKind::Contradiction(message.to_owned());
    report.warning(at, path, problem, Some(hint));
}

/// The policy of the label. Sound mode also accepts the values of `topologyPolicies`, as the label's design document
/// does.
fn numa_policy(
    meta: &ObjectMeta,
    fidelity: Fidelity,
    report: &mut DiagnosticReport,
) -> Option<NumaPolicy> {
    let (key, word) = key_aliases::label(meta, keys::NUMA_POLICY, fidelity, report)?;
    let policy = NumaPolicy::parse(word)?;
    if word == POLICY_NONE {
        let (at, path) = meta.position_of(TextKind::Label, key);
        warn_about_none(at, &path, report);
    }
    if fidelity.reads_one_spelling() || policy.known().is_ok() {
        return Some(policy);
    }
    let stem = word
        .strip_suffix("PodLevel")
        .or_else(|| word.strip_suffix("ContainerLevel"));
    let meant = stem.and_then(NumaPolicy::parse);
    let Some(meant) = meant.filter(|meant| meant.known().is_ok()) else {
        return Some(policy);
    };
    let (at, path) = meta.position_of(TextKind::Label, key);
    let problem = DiagnosticKind::OldSpelling {
        found: format!("{word:?}"),
        read_as: format!("{:?}", meant.as_str()),
    };
    let hint = format!("write {:?}", meant.as_str());
    report.warning(at, &path, problem, Some(hint));
    Some(meant)
}

/// The ratios, or the error: then the node rejects pods that request CPU, in both modes.
fn ratio_annotation(meta: &ObjectMeta, report: &mut DiagnosticReport) -> RatioAnnotation {
    if meta
        .annotations
        .get(keys::RATIOS)
        .is_none_or(String::is_empty)
    {
        return RatioAnnotation::Absent;
    }
    let mut own = report.empty_copy();
    let annotation = Annotation::read(meta, keys::RATIOS, &mut own);
    let read = annotation.map(|annotation| match annotation.root().is_null() {
        true => RatioAnnotation::Absent,
        false => RatioAnnotation::Ratios(ratios(&annotation.root(), &mut own)),
    });
    let message = own.first_error();
    own.downgrade_errors();
    report.merge(own);
    match (message, read) {
        (None, Some(read)) => read,
        (message, _) => RatioAnnotation::Unreadable(message.unwrap_or_default()),
    }
}
