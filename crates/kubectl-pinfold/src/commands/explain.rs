//! `kubectl pinfold explain pod`: the NUMA nodes of a bound pod, or why a pending pod fits no node and what would help.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use pinfold_cluster::{Cluster, Evaluation, PodRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeSet;
use pinfold_kube::cluster::{LocationSource, PodChange, PodLocation, find_changes};
use pinfold_kube::pod::PodObject;
use pinfold_render::explain as render;
use serde::Serialize;

use self::text::text;
use super::cluster_state::ClusterState;
use super::live::PodName;
use super::moves::{MovePlan, MoveSearch};
use super::reasons::{self, NodeReason, RejectionGroup};
use crate::args::PodArgs;
use pinfold_terminal::{Failure, REJECTED, output};

mod text;

/// The result for one pod.
#[derive(Serialize)]
pub(super) struct PodExplanation {
    namespace: String,
    pod: String,
    decider: String,
    /// The node and NUMA nodes of a bound pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<BoundLocation>,
    /// The last message of the scheduler about a pending pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler: Option<String>,
    /// Why the node of a bound pod does not start it.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_failure: Option<String>,
    /// The nodes that would admit the pod now, best first; for a bound pod as if it had been removed.
    fits: Vec<CandidateNode>,
    /// The other nodes, grouped by reason.
    rejections: Vec<RejectionGroup>,
    /// Changes of a pending pod after which a node would admit it, if none does.
    changes: Vec<PodChange>,
    /// Running pods whose move to other CPUs or nodes would make it fit.
    moves: Vec<MovePlan>,
    /// The result of the moves in `--if-moved`.
    #[serde(skip_serializing_if = "Option::is_none")]
    if_moved: Option<RequestedMoves>,
    /// Warnings about missing or inconsistent objects.
    notes: Vec<String>,
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    described: String,
    /// The explanation of the decision on its own node.
    #[serde(skip)]
    because: String,
    /// Nodes that report counts of CPUs only: CPU ids there are placeholders.
    #[serde(rename = "counted_nodes", skip_serializing_if = "BTreeSet::is_empty")]
    counted: BTreeSet<NodeName>,
}

/// The node and NUMA nodes of a bound pod.
#[derive(Clone, Debug, Serialize)]
struct BoundLocation {
    node: NodeName,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    cpus: CpuSet,
    numa_nodes: NodeSet,
    /// Where the NUMA nodes are known from.
    evidence: LocationEvidence,
}

/// Where the NUMA nodes of a bound pod are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum LocationEvidence {
    /// An annotation of the pod.
    Annotation,
    /// The report of its node.
    Report,
    /// The counts in its node's report: no other location matches them.
    Counts,
    /// The counts allow several NUMA nodes; the pod is on one of them.
    OneOf,
    /// The pod has no exclusive CPUs, memory or devices.
    Shared,
    /// Nothing reports it.
    Unknown,
}

/// A node that would admit the pod.
#[derive(Clone, Debug, Serialize)]
struct CandidateNode {
    node: NodeName,
    score: i64,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    cpus: CpuSet,
    numa_nodes: NodeSet,
}

/// The result of `--if-moved`.
#[derive(Clone, Debug, Serialize)]
struct RequestedMoves {
    pods: Vec<String>,
    /// One result for every possible location of the pods, if nothing reports it.
    results: Vec<MoveResult>,
}

/// The result of the requested moves for one possible location of the pods.
#[derive(Clone, Debug, Serialize)]
struct MoveResult {
    /// The assumed location of the pods, if nothing reports it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assuming: Vec<String>,
    /// The placement of all pods; `None` if the pending pod still fits no node.
    plan: Option<MovePlan>,
}

pub(crate) fn run(args: &PodArgs) -> Result<ExitCode, Failure> {
    let name = PodName {
        namespace: &args.namespace,
        name: &args.name,
    };
    let state = ClusterState::open(&args.source, Some(name))?;
    let found = explanation(&state, name, &args.if_moved)?;
    output::print_as(args.output, &found, || text(&found))?;
    Ok(match found.location.is_none() && found.fits.is_empty() {
        true => ExitCode::from(REJECTED),
        false => ExitCode::SUCCESS,
    })
}

/// Why a pod is on its node, or why it is pending and what would help.
pub(super) fn explanation(
    state: &ClusterState,
    name: PodName<'_>,
    if_moved: &[String],
) -> Result<PodExplanation, Failure> {
    let pod = state.pod(name.namespace, name.name)?;
    let constraints = &pod.constraints;
    let request = state.request(pod)?;
    let mut found = PodExplanation {
        namespace: pod.meta.namespace.clone(),
        pod: pod.meta.name.clone(),
        decider: state.options.decider.to_string(),
        location: None,
        scheduler: None,
        start_failure: state.start_failure.clone(),
        fits: Vec::new(),
        rejections: Vec::new(),
        changes: Vec::new(),
        moves: Vec::new(),
        if_moved: None,
        notes: state.notes.clone(),
        name: pod.pod.name.clone(),
        described: state.described(),
        because: String::new(),
        counted: state.counted.clone(),
    };
    if !constraints.unchecked_fields.is_empty() {
        let words = constraints.unchecked_fields.join(", ");
        let note = format!("not checked here, though a scheduler does: {words}");
        found.notes.push(note);
    }
    found.notes.extend(state.unknown_namespaces(pod));
    match &pod.node_name {
        Some(node) => explain_bound(state, pod, node, &request, &mut found)?,
        None => explain_pending(state, pod, &request, if_moved, &mut found)?,
    }
    Ok(found)
}

impl PodExplanation {
    /// What `kubectl pinfold explain pod` prints.
    pub(super) fn text(&self) -> String {
        text(self)
    }
}

/// Fills in the location of a bound pod, and how every node would decide if it were removed and scheduled again.
fn explain_bound(
    state: &ClusterState,
    pod: &PodObject,
    node: &str,
    request: &PodRequest,
    found: &mut PodExplanation,
) -> Result<(), Failure> {
    let name = NodeName::from(node);
    let sources = state.sources();
    let options = &state.options;
    let Some(home) = sources.get(&name) else {
        return Err(Failure::BadInput(format!(
            "pod {} is bound to node {node}, which does not exist",
            found.name
        )));
    };
    let location = home.location_of(pod, options);
    let (cpus, numa_nodes, evidence) = match &location {
        PodLocation::Known { cpus, numa, by } => (cpus.clone(), *numa, evidence(*by)),
        PodLocation::Shared => (CpuSet::new(), NodeSet::EMPTY, LocationEvidence::Shared),
        PodLocation::OneOf(nodes) => (CpuSet::new(), *nodes, LocationEvidence::OneOf),
        PodLocation::Unknown => (CpuSet::new(), NodeSet::EMPTY, LocationEvidence::Unknown),
    };
    found.location = Some(BoundLocation {
        node: name.clone(),
        cpus,
        numa_nodes,
        evidence,
    });
    let mut cluster = state.cluster.clone();
    let is_known = matches!(location, PodLocation::Known { .. } | PodLocation::Shared);
    match home.member_without_pods(&[(pod, location)], options) {
        Ok(member) if is_known => {
            cluster.insert(name.clone(), member.value);
        }
        _ => {
            cluster.remove_node(&name);
            found.notes.push(format!(
                "{name} is left out: nothing reports which CPUs, memory and devices {} holds there",
                found.name
            ));
        }
    }
    evaluate_nodes(state, &mut cluster, pod, request, found);
    if let Some(decision) = reasons::kubelet_decision(&cluster, &name, request) {
        found.because = render::admission(&found.name, &decision, render::WIDTH);
    }
    Ok(())
}

fn evidence(source: LocationSource) -> LocationEvidence {
    match source {
        LocationSource::Pod => LocationEvidence::Annotation,
        LocationSource::Report => LocationEvidence::Report,
        LocationSource::Counts => LocationEvidence::Counts,
    }
}

/// Fills in why a pending pod fits no node, and the changes and moves that would make it fit.
fn explain_pending(
    state: &ClusterState,
    pod: &PodObject,
    request: &PodRequest,
    if_moved: &[String],
    found: &mut PodExplanation,
) -> Result<(), Failure> {
    found
        .scheduler
        .clone_from(&pod.constraints.scheduler_message);
    let mut cluster = state.cluster.clone();
    evaluate_nodes(state, &mut cluster, pod, request, found);
    let mut search = MoveSearch::new(state, pod, request);
    if !if_moved.is_empty() {
        found.if_moved = Some(requested_moves(state, &search, if_moved)?);
    }
    if !found.fits.is_empty() {
        return Ok(());
    }
    for node in state.excluded_nodes(pod).keys() {
        cluster.remove_node(node);
    }
    found.changes = find_changes(&cluster, &state.options, &BTreeMap::new(), pod);
    found.moves = search.smallest(&mut cluster);
    if search.gave_up() {
        let note = "the search for moves stopped at its limit";
        found.notes.push(note.to_owned());
    }
    Ok(())
}

/// Evaluates every node and groups the rejections.
fn evaluate_nodes(
    state: &ClusterState,
    cluster: &mut Cluster,
    pod: &PodObject,
    request: &PodRequest,
    found: &mut PodExplanation,
) {
    let excluded = state.excluded_nodes(pod);
    let ranked = cluster.rank(request).into_iter();
    let ranked: Vec<(NodeName, i64)> = ranked
        .filter(|ranked| !excluded.contains_key(ranked.node))
        .map(|ranked| (ranked.node.clone(), ranked.score))
        .collect();
    for (node, score) in ranked {
        let (cpus, numa_nodes) = match cluster.evaluate(request, &node) {
            Evaluation::Fits(fit) => (fit.cpus, fit.numa),
            Evaluation::FitsInTotal | Evaluation::Rejected(_) => Default::default(),
        };
        found.fits.push(CandidateNode {
            node,
            score,
            cpus,
            numa_nodes,
        });
    }
    let mut all: BTreeMap<NodeName, NodeReason> =
        reasons::of_nodes(cluster, request).into_iter().collect();
    let plain = |reason: String| NodeReason {
        reason,
        shortage: None,
    };
    for (node, why) in &state.unreadable {
        let reason = format!("invalid report: {why}");
        all.insert(node.clone(), plain(reason));
    }
    for (node, mismatch) in excluded {
        all.insert(node, plain(mismatch.to_string()));
    }
    found.rejections = reasons::grouped(all);
}

/// Simulates the moves in `--if-moved`.
fn requested_moves(
    state: &ClusterState,
    search: &MoveSearch<'_>,
    names: &[String],
) -> Result<RequestedMoves, Failure> {
    let mut set: Vec<&PodObject> = Vec::new();
    for name in names {
        let (namespace, pod) = name.split_once('/').unwrap_or(("default", name));
        let pod = state.pod(namespace, pod)?;
        if pod.node_name.is_none() || search.is_itself(pod) {
            return Err(Failure::BadInput(format!(
                "--if-moved {name}: expected a running pod, found a pending one"
            )));
        }
        if set.iter().all(|known| known.pod.uid != pod.pod.uid) {
            set.push(pod);
        }
    }
    let results = search.if_moved(&set);
    let several = results.len() > 1;
    let result = |(located, plan): (Vec<(&PodObject, PodLocation)>, Option<MovePlan>)| MoveResult {
        assuming: match several {
            false => Vec::new(),
            true => located
                .iter()
                .filter_map(|(pod, location)| match location {
                    PodLocation::Known { numa, .. } => {
                        Some(format!("{} is on NUMA node {numa}", pod.pod.name))
                    }
                    _ => None,
                })
                .collect(),
        },
        plan,
    };
    Ok(RequestedMoves {
        pods: set.iter().map(|pod| pod.pod.name.clone()).collect(),
        results: results.into_iter().map(result).collect(),
    })
}
