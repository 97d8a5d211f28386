//! `pinfold explain` on a cluster: which nodes fit a pod, why the others reject it, and what would let it fit.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use pinfold_cluster::{Evaluation, PodRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeSet;
use pinfold_kube::admission::AdmissionRequest;
use pinfold_kube::cluster::{DialectName, PodChange, find_changes};
use pinfold_kube::decider::Decider;
use pinfold_kube::pod::PodObject;
use pinfold_render::table::{Align, Table};
use pinfold_render::text::{count, paragraph};
use pinfold_render::{amount, placement};
use serde::Serialize;

use crate::admission::{self, NotSimulated};
use crate::args::ExplainArgs;
use crate::as_pinfold::{AsPinfold, PodOutcome};
use crate::cluster::rejections::{self, RejectionGroup};
use crate::cluster::{ClusterFiles, NodeReason, SimulatedCluster};
use crate::exit::{Failure, REJECTED};
use crate::input;
use crate::output;

/// The most nodes that are listed; further ones are counted.
const LISTED: usize = 10;

/// The answers of all nodes as JSON and YAML.
#[derive(Serialize)]
pub(crate) struct ClusterExplanation {
    pod: String,
    decider: String,
    /// The nodes that fit the pod, best first.
    fits: Vec<FittingNode>,
    /// kube-scheduler's message, if its filters exclude every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<String>,
    /// Why the other nodes reject it.
    rejections: Vec<RejectionGroup>,
    /// What is not simulated about the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_simulated: Vec<NotSimulated>,
    /// The changes that would let it fit, if no node fits it.
    changes: Vec<PodChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_pinfold: Option<AsPinfold>,
}

/// A node that fits the pod.
#[derive(Clone, Debug, Serialize)]
struct FittingNode {
    node: NodeName,
    score: i64,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    cpus: CpuSet,
    numa_nodes: NodeSet,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let running = args.start.cluster_pods_without_script()?;
    let files = ClusterFiles::read(&args.cluster, &args.node)?;
    let mut nodes = files.nodes(args.node.decider.decider)?;
    nodes.place_pending()?;
    nodes.place_running(&running)?;
    let mut pod = input::first_object(&args.pod)?;
    if args.bound {
        nodes.bind_all(std::slice::from_mut(&mut pod))?;
    }
    let mut explanation = ClusterExplanation::of(&mut nodes, &pod)?;
    if nodes.reading.decider.is_kubelet() {
        explanation.as_pinfold = compare(&files, &running, &pod, explanation.fits.first());
    }
    output::print_as(args.output, &explanation, || {
        text(&nodes, &explanation, output::width())
    })?;
    Ok(match explanation.is_admitted() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}

impl ClusterExplanation {
    /// The explanation and its text after other pods were placed. Nothing is printed.
    pub(crate) fn quietly(
        files: &ClusterFiles,
        decider: Decider,
        before: &[PodObject],
        pod: &PodObject,
        width: usize,
    ) -> Result<(Self, String), Failure> {
        let mut nodes = files.nodes_quietly(decider)?;
        nodes.place_running(before)?;
        let explanation = Self::of(&mut nodes, pod)?;
        let text = text(&nodes, &explanation, width);
        Ok((explanation, text))
    }

    /// Whether a node takes the pod.
    pub(crate) fn is_admitted(&self) -> bool {
        !self.fits.is_empty()
    }

    /// Asks all nodes about a pod, without a comparison.
    fn of(nodes: &mut SimulatedCluster, pod: &PodObject) -> Result<Self, Failure> {
        let ask = nodes.ask(pod)?;
        let excluded = nodes.excluded(&AdmissionRequest::of(pod));
        let fits = candidates(nodes, &ask, &excluded);
        let rejections = nodes.rejections(&ask, excluded);
        let all_reject = fits.is_empty();
        Ok(Self {
            pod: pod.pod.name.clone(),
            decider: nodes.reading.decider.to_string(),
            changes: match fits.is_empty() {
                true => find_changes(
                    &nodes.without_excluded(&AdmissionRequest::of(pod)),
                    &nodes.reading,
                    &nodes.names,
                    pod,
                ),
                false => Vec::new(),
            },
            as_pinfold: None,
            fits,
            pending: NodeReason::pending(&rejections).filter(|_| all_reject),
            rejections: rejections::grouped(&rejections),
            not_simulated: nodes.not_simulated(std::slice::from_ref(pod)),
        })
    }
}

/// Compares the kubelets' best node with the one of Pinfold; `None` if Pinfold cannot decide about the cluster.
fn compare(
    files: &ClusterFiles,
    running: &[PodObject],
    pod: &PodObject,
    kubelet: Option<&FittingNode>,
) -> Option<AsPinfold> {
    let mut nodes = files.as_pinfold()?;
    nodes.place_pending().ok()?;
    nodes.place_running(running).ok()?;
    let ask = nodes.ask(pod).ok()?;
    let excluded = nodes.excluded(&AdmissionRequest::of(pod));
    let pinfold = candidates(&mut nodes, &ask, &excluded);
    let outcome = |fit: Option<&FittingNode>| match fit {
        Some(fit) => PodOutcome::Admitted(format!(
            "{}: {}",
            fit.node,
            placement::of_sets(&fit.cpus, fit.numa_nodes)
        )),
        None => PodOutcome::Rejected,
    };
    let name = pod.pod.name.as_str();
    let found = AsPinfold::compare(
        [(name, outcome(kubelet))],
        [(name, outcome(pinfold.first()))],
    );
    Some(
        match nodes.dialects == BTreeSet::from([DialectName::Kubelet]) {
            true => found,
            false => found.by_other_rules(),
        },
    )
}

fn candidates(
    nodes: &mut SimulatedCluster,
    ask: &PodRequest,
    excluded: &BTreeMap<NodeName, NodeReason>,
) -> Vec<FittingNode> {
    let ranked = nodes.cluster.rank(ask).into_iter();
    let ranked: Vec<(NodeName, i64)> = ranked
        .filter(|ranked| !excluded.contains_key(ranked.node))
        .map(|ranked| (ranked.node.clone(), ranked.score))
        .collect();
    let candidate = |(node, score)| {
        let (cpus, numa_nodes) = match nodes.cluster.evaluate(ask, &node) {
            Evaluation::Fits(fit) => (fit.cpus, fit.numa),
            Evaluation::FitsInTotal | Evaluation::Rejected(_) => Default::default(),
        };
        FittingNode {
            node,
            score,
            cpus,
            numa_nodes,
        }
    };
    ranked.into_iter().map(candidate).collect()
}

fn text(nodes: &SimulatedCluster, found: &ClusterExplanation, width: usize) -> String {
    let all = nodes.cluster.nodes().count();
    let fitting = match (found.fits.len(), all) {
        (0, 1) => "does not fit the only node".to_owned(),
        (0, _) => format!("fits none of {all} nodes"),
        (_, 1) => "fits the only node".to_owned(),
        (some, _) => format!("fits {some} of {all} nodes"),
    };
    let head = format!("Pod {} {fitting} ({}).", found.pod, nodes.described());
    let mut text = paragraph("", &head, 2, width);
    if !found.fits.is_empty() {
        text.push('\n');
        text.push_str(&fit_table(nodes, &found.fits));
    }
    if let Some(pending) = &found.pending {
        text.push_str(&paragraph("  ", pending, 2, width));
    }
    if !found.rejections.is_empty() {
        text.push_str("\nrejected by\n");
        for reason in &found.rejections {
            text.push_str(&paragraph("  ", &reason.text(), 4, width));
        }
        text.push('\n');
        text.push_str(&free_table(nodes, found));
    }
    if !found.changes.is_empty() {
        text.push_str("\nWhat would fit\n");
        for (number, change) in (1..).zip(&found.changes) {
            let lead = format!("{number:>2}. ");
            let place = placement::of_sets(&change.cpus, change.numa_nodes);
            let line = format!("{} ({}: {place})", change.change, change.node);
            text.push_str(&paragraph(&lead, &line, 4, width));
        }
    }
    text.push_str(&admission::not_simulated_text(&found.not_simulated));
    text.extend(found.as_pinfold.as_ref().map(AsPinfold::text));
    text
}

/// The nodes that fit the pod, with the score and the CPUs and NUMA nodes it would get.
fn fit_table(nodes: &SimulatedCluster, fits: &[FittingNode]) -> String {
    let chooses_cpus = nodes.reading.decider != Decider::SchedulerPlugins;
    let mut table = Table::new([
        ("node", Align::Left),
        ("score", Align::Right),
        ("if scheduled now", Align::Left),
    ]);
    for fit in fits.iter().take(LISTED) {
        table.row([
            fit.node.to_string(),
            fit.score.to_string(),
            match chooses_cpus {
                true => placement::of_sets(&fit.cpus, fit.numa_nodes),
                false => "CPUs and memory of its kubelet's choice".to_owned(),
            },
        ]);
    }
    let mut text = table.draw();
    if fits.len() > LISTED {
        let rest = count(fits.len() - LISTED, "more node", "more nodes");
        text.push_str(&format!("... {rest} (-o json lists all)\n"));
    }
    text
}

/// What is free on the NUMA nodes of the nodes that reject the pod.
fn free_table(nodes: &SimulatedCluster, found: &ClusterExplanation) -> String {
    let mut table = Table::new([
        ("node", Align::Left),
        ("NUMA", Align::Right),
        ("CPUs free", Align::Right),
        ("total", Align::Right),
        ("memory free", Align::Right),
    ]);
    let mut rejecting: Vec<&NodeName> =
        found.rejections.iter().flat_map(|why| &why.nodes).collect();
    rejecting.sort();
    let mut rows = 0;
    for name in rejecting.into_iter().take(LISTED) {
        let Some(portrait) = nodes.node_view(name) else {
            continue;
        };
        let occupancy = &portrait.occupancy;
        let free = &occupancy.shared - &occupancy.reserved;
        for node in portrait.machine.nodes() {
            let cpus: CpuSet = node
                .cores
                .iter()
                .flat_map(|core| core.threads.iter().copied())
                .collect();
            let memory = occupancy.memory.iter();
            let mut memory = memory
                .filter(|row| row.node == node.id && row.resource.as_str() == "memory")
                .map(|row| amount::bytes(row.free));
            table.row([
                name.to_string(),
                node.id.to_string(),
                cpus.common_len(&free).to_string(),
                cpus.len().to_string(),
                memory.next().unwrap_or_else(|| "-".to_owned()),
            ]);
            rows += 1;
        }
    }
    match rows {
        0 => String::new(),
        _ => table.draw(),
    }
}
