//! `pinfold simulate` on a cluster: the node of each pod, what it gets there, and the nodes afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pinfold_cluster::{Cluster, ClusterNode, Dialect, Placement, PlacementDetail, PodRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeSet;
use pinfold_core::occupancy::Occupancy;
use pinfold_kube::admission::AdmissionRequest;
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, ResourceStatus, keys};
use pinfold_kube::pod::PodObject;
use pinfold_render::grid::Legend;
use pinfold_render::layout::MachineLayout;
use pinfold_render::svg::Caption;
use pinfold_render::table::{Align, Table};
use pinfold_render::text::{count, grouped, paragraph};
use pinfold_render::{grid, palette, placement, svg};
use serde::Serialize;

use crate::admission::{self, NotSimulated, ignored_text};
use crate::args::{SimulateArgs, SimulateFormat};
use crate::as_pinfold::{AsPinfold, PodOutcome};
use crate::cluster::{ClusterFiles, NodeReason, NotPlaced, RejectedStatus, SimulatedCluster};
use crate::exit::{Failure, REJECTED};
use crate::progress::Progress;
use crate::script::ScriptPod;
use crate::simulation::{PodCounts, SimulationStep};
use crate::{input, output, script};

/// The most steps that are listed; further ones are counted.
const LISTED: usize = 50;
/// The most nodes that are drawn as text.
const DRAWN: usize = 8;
/// The most nodes of one rejection that are named; more are counted.
const NAMED: usize = 3;
/// A comparison with Pinfold's decisions asks nodes at most this many times about a pod.
const MOST_COMPARED: usize = 500_000;

/// The result of one step.
#[derive(Clone, Debug, Serialize)]
struct ClusterStepEvent {
    step: &'static str,
    pod: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeName>,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    cpus: CpuSet,
    #[serde(skip_serializing_if = "Option::is_none")]
    numa_nodes: Option<NodeSet>,
    /// The annotations that the scheduler writes on the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
    /// Why the nodes rejected the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejections: Vec<RejectionGroup>,
    /// The status of a rejected pod, if it is certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<RejectedStatus>,
    /// The result in one sentence.
    message: String,
}

/// Nodes that reject a pod for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RejectionGroup {
    /// The message of the program that decides.
    pub(crate) reason: String,
    /// The nodes, ascending.
    pub(crate) nodes: Vec<NodeName>,
}

/// A node after all steps.
#[derive(Debug, Serialize)]
struct NodeReport {
    node: NodeName,
    pods: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    occupancy: Option<Occupancy>,
}

#[derive(Serialize)]
struct ClusterSimulationReport<'a> {
    decider: String,
    counts: PodCounts,
    events: &'a [ClusterStepEvent],
    nodes: &'a [NodeReport],
    /// Fields of pods that kube-scheduler or the kubelet checks and the simulation does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_simulated: Vec<NotSimulated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_pinfold: Option<&'a AsPinfold>,
}

pub(crate) fn run(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    if args.compare {
        return Err(Failure::BadInput(
            "--compare simulates one node, where a kubelet or pinfold decides".to_owned(),
        ));
    }
    let files = ClusterFiles::read(&args.cluster, &args.node)?;
    let running = args.start.cluster_pods()?;
    let mut nodes = files.nodes(args.node.decider.decider)?;
    let mut pods = std::mem::take(&mut nodes.pending);
    nodes.place_running(&running)?;
    pods.extend(input::pods(&args.pods)?);
    if args.bound {
        nodes.bind_all(&mut pods)?;
    }
    // The running pods are behind the others, so that a script can remove them.
    let added = pods.len();
    pods.extend(running.iter().cloned());
    let steps = match &args.start.script {
        Some(script) => {
            let names: Vec<ScriptPod> = pods.iter().map(ScriptPod::from).collect();
            script::read(script, &names)?
        }
        None => (0..added).map(SimulationStep::Add).collect(),
    };
    let mut progress = Progress::on_stderr(steps.len() * args.repeat as usize);
    let simulation = ClusterSimulation::new(&nodes, &pods)?;
    let ClusterSimulation { events, counts, .. } =
        simulation.take(&mut nodes, &steps, args.repeat, usize::MAX, || {
            progress.advance();
        })?;
    progress.end();
    let as_pinfold = match nodes.reading.decider.is_kubelet() {
        true => compare(&files, &running, &pods, &steps, args.repeat, &events),
        false => None,
    };
    let reports = reports(&nodes);
    let report = ClusterSimulationReport {
        decider: nodes.reading.decider.to_string(),
        counts,
        events: &events,
        nodes: &reports,
        not_simulated: nodes.not_simulated(&pods),
        as_pinfold: as_pinfold.as_ref(),
    };
    match args.output {
        SimulateFormat::Svg => print_picture(&nodes)?,
        format => {
            output::print_as(format.without_picture(), &report, || text(&nodes, &report))?;
        }
    }
    if let Some(path) = &args.svg {
        draw(&nodes, path)?;
    }
    Ok(match counts.rejected {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(REJECTED),
    })
}

/// Takes the same steps as Pinfold decides, and compares; `None` if Pinfold cannot decide about the cluster.
fn compare(
    files: &ClusterFiles,
    running: &[PodObject],
    pods: &[PodObject],
    steps: &[SimulationStep],
    rounds: u32,
    events: &[ClusterStepEvent],
) -> Option<AsPinfold> {
    let mut nodes = files.as_pinfold()?;
    nodes.place_running(running).ok()?;
    let most = MOST_COMPARED / nodes.cluster.nodes().count().max(1);
    let simulation = ClusterSimulation::new(&nodes, pods).ok()?;
    let pinfold = simulation
        .take(&mut nodes, steps, rounds, most, || {})
        .ok()?
        .events;
    let kubelet = events.iter().take(pinfold.len());
    let mut found = AsPinfold::compare(
        kubelet.filter_map(ClusterStepEvent::outcome),
        pinfold.iter().filter_map(ClusterStepEvent::outcome),
    );
    if pinfold.len() < events.len() {
        found = found.of_first_steps(most);
    }
    Some(
        match nodes.dialects == BTreeSet::from([DialectName::Kubelet]) {
            true => found,
            false => found.by_other_rules(),
        },
    )
}

/// A simulation of steps on a cluster. Every step has one event.
struct ClusterSimulation<'a> {
    pods: &'a [PodObject],
    asks: Vec<PodRequest>,
    requests: Vec<AdmissionRequest>,
    events: Vec<ClusterStepEvent>,
    counts: PodCounts,
}

impl<'a> ClusterSimulation<'a> {
    /// A simulation with these pods, without steps.
    fn new(nodes: &SimulatedCluster, pods: &'a [PodObject]) -> Result<Self, Failure> {
        let asks = pods.iter().map(|pod| nodes.ask(pod));
        Ok(Self {
            asks: asks.collect::<Result<_, _>>()?,
            requests: pods.iter().map(AdmissionRequest::of).collect(),
            pods,
            events: Vec::new(),
            counts: PodCounts::default(),
        })
    }

    /// Takes the steps of all rounds, at most this many.
    fn take(
        mut self,
        nodes: &mut SimulatedCluster,
        steps: &[SimulationStep],
        rounds: u32,
        most: usize,
        mut advance: impl FnMut(),
    ) -> Result<Self, Failure> {
        for round in 1..=rounds {
            for &step in steps.iter().take(most - self.events.len()) {
                self.step(nodes, step, round)?;
                advance();
            }
        }
        Ok(self)
    }
}

impl ClusterSimulation<'_> {
    fn step(
        &mut self,
        nodes: &mut SimulatedCluster,
        step: SimulationStep,
        round: u32,
    ) -> Result<(), Failure> {
        match step {
            SimulationStep::Add(index) => self.add(nodes, index, round),
            SimulationStep::Remove(index) => self.remove(nodes, index, round),
            SimulationStep::Start(_)
            | SimulationStep::StartOne { .. }
            | SimulationStep::Offer(_)
            | SimulationStep::Restart => {
                return Err(Failure::BadInput(
                    "expected \"- add: POD\" or \"- remove: POD\": start and restart are steps of a single node"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn add(&mut self, nodes: &mut SimulatedCluster, index: usize, round: u32) {
        let (object, ask) = (&self.pods[index], self.ask(index, round));
        let name = ask.pod().name.clone();
        nodes.names.insert(ask.uid().clone(), name.clone());
        let request = &self.requests[index];
        let event = match nodes.place(object, request, &ask) {
            Ok((placement, ignored)) => {
                self.counts.admitted += 1;
                ClusterStepEvent {
                    step: "add",
                    pod: name,
                    message: match ignored.is_empty() {
                        true => placement_text(&placement),
                        false => placement_text(&placement) + &ignored_text(&ignored),
                    },
                    annotations: annotations(nodes, object, &placement),
                    cpus: placement.cpus,
                    numa_nodes: Some(placement.numa).filter(|nodes| !nodes.is_empty()),
                    node: Some(placement.node),
                    rejections: Vec::new(),
                    status: None,
                }
            }
            Err(NotPlaced::Already(node)) => ClusterStepEvent {
                message: format!("is on node {node} already"),
                ..ClusterStepEvent::about("add", name)
            },
            Err(NotPlaced::Ended) => ClusterStepEvent {
                message: "has ended: it holds nothing".to_owned(),
                ..ClusterStepEvent::about("add", name)
            },
            Err(NotPlaced::NoNode(rejections)) => {
                self.counts.rejected += 1;
                ClusterStepEvent {
                    message: rejected(&rejections),
                    status: RejectedStatus::of(&rejections),
                    rejections: grouped_reasons(&rejections),
                    ..ClusterStepEvent::about("add", name)
                }
            }
        };
        self.events.push(event);
    }

    fn remove(&mut self, nodes: &mut SimulatedCluster, index: usize, round: u32) {
        let ask = self.ask(index, round);
        let node = nodes.remove(ask.uid());
        self.events.push(ClusterStepEvent {
            message: match &node {
                Some(node) => format!("removed from node {node}"),
                None => "is not on any node".to_owned(),
            },
            node,
            ..ClusterStepEvent::about("remove", ask.pod().name.clone())
        });
    }

    /// The pod itself in the first round, a copy with another name and uid in later ones.
    fn ask(&self, index: usize, round: u32) -> PodRequest {
        match round {
            1 => self.asks[index].clone(),
            _ => self.asks[index].copy(round),
        }
    }
}

impl ClusterStepEvent {
    /// The pod and the decision about it; `None` if the step decides nothing.
    fn outcome(&self) -> Option<(&str, PodOutcome)> {
        let outcome = match (&self.node, self.rejections.is_empty()) {
            (Some(_), _) if self.step == "add" => PodOutcome::Admitted(self.message.clone()),
            (None, false) => PodOutcome::Rejected,
            _ => return None,
        };
        Some((&self.pod, outcome))
    }

    /// An event without a decision.
    fn about(step: &'static str, pod: String) -> Self {
        Self {
            step,
            pod,
            node: None,
            cpus: CpuSet::new(),
            numa_nodes: None,
            annotations: BTreeMap::new(),
            rejections: Vec::new(),
            status: None,
            message: String::new(),
        }
    }
}

/// `node-1: node 0, CPUs 4-7`.
fn placement_text(placement: &Placement) -> String {
    let what = match &placement.detail {
        PlacementDetail::Kubelet(assignment) => placement::placement(assignment),
        PlacementDetail::SchedulerPlugins { score } => format!("score {score}"),
        _ => place(&placement.cpus, placement.numa),
    };
    format!("{}: {what}", placement.node)
}

/// `node 0, CPUs 4-7`, as for a kubelet's placements.
pub(crate) fn place(cpus: &CpuSet, numa: NodeSet) -> String {
    let mut parts = Vec::new();
    match numa.len() {
        0 => {}
        1 => parts.push(format!("node {numa}")),
        _ => parts.push(format!("nodes {numa}")),
    }
    match cpus.is_empty() {
        true => parts.push("shared pool".to_owned()),
        false => parts.push(format!("CPUs {cpus}")),
    }
    parts.join(", ")
}

/// The annotations that Koordinator's scheduler writes before it binds a pod.
fn annotations(
    nodes: &SimulatedCluster,
    pod: &PodObject,
    placement: &Placement,
) -> BTreeMap<&'static str, String> {
    let mut texts = BTreeMap::new();
    let PlacementDetail::Koordinator { status, spec } = &placement.detail else {
        return texts;
    };
    let report = match nodes
        .cluster
        .node(&placement.node)
        .map(ClusterNode::dialect)
    {
        Some(Dialect::Koordinator { node, .. }) => node.report.as_ref(),
        _ => None,
    };
    if let (Some(status), Some(report)) = (status, report) {
        let status = ResourceStatus::of(status, &report.topology, nodes.reading.fidelity());
        texts.insert(keys::RESOURCE_STATUS, status.to_json());
    }
    if let Some(spec) = spec {
        let text = koordinator::with_resource_spec(pod, spec);
        texts.insert(keys::RESOURCE_SPEC, text);
    }
    texts
}

/// Rejections by reason, the most frequent first.
pub(crate) fn grouped_reasons(rejections: &[(NodeName, NodeReason)]) -> Vec<RejectionGroup> {
    let mut by_text = BTreeMap::<String, Vec<NodeName>>::new();
    for (node, rejection) in rejections {
        by_text
            .entry(rejection.to_string())
            .or_default()
            .push(node.clone());
    }
    let mut reasons: Vec<RejectionGroup> = by_text
        .into_iter()
        .map(|(reason, nodes)| RejectionGroup { reason, nodes })
        .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.nodes.len()));
    reasons
}

/// kube-scheduler's message if its filters exclude every node, else the reasons of all nodes.
pub(crate) fn rejected(rejections: &[(NodeName, NodeReason)]) -> String {
    if let Some(pending) = NodeReason::pending(rejections) {
        return pending;
    }
    let reasons = grouped_reasons(rejections);
    let reasons: Vec<String> = reasons.iter().map(RejectionGroup::text).collect();
    match rejections.len() {
        1 => format!("does not fit {}", reasons.join("; ")),
        asked => format!("fits none of {asked} nodes: {}", reasons.join("; ")),
    }
}

impl RejectionGroup {
    /// `node-1, node-2: Insufficient cpu (4 asked, 2 left)`.
    pub(crate) fn text(&self) -> String {
        let named: Vec<&str> = self.nodes.iter().map(NodeName::as_str).collect();
        let nodes = match named.len() > NAMED {
            true => count(named.len(), "node", "nodes"),
            false => named.join(", "),
        };
        format!("{nodes}: {}", self.reason)
    }
}

fn reports(nodes: &SimulatedCluster) -> Vec<NodeReport> {
    let cluster: &Cluster = &nodes.cluster;
    let report = |(name, member): (&NodeName, &ClusterNode)| NodeReport {
        node: name.clone(),
        pods: member.pods(),
        occupancy: nodes.node_view(name).map(|portrait| portrait.occupancy),
    };
    cluster.nodes().map(report).collect()
}

fn text(nodes: &SimulatedCluster, report: &ClusterSimulationReport<'_>) -> String {
    let number = nodes.cluster.nodes().count();
    let head = format!("{}, {}", count(number, "node", "nodes"), nodes.described());
    let mut text = paragraph("", &head, 2, output::width());
    text.push('\n');
    text.push_str(&events(report));
    for (name, _) in nodes.cluster.nodes().take(DRAWN) {
        let _ = write!(text, "\n{name}\n");
        let Some(portrait) = nodes.node_view(name) else {
            text.push_str(&zones(nodes, name));
            continue;
        };
        let layout = MachineLayout::new(&portrait.machine, &portrait.occupancy);
        let (width, colour) = (output::width(), output::colour());
        let names = Legend::Names;
        text.push_str(&grid::draw(
            &layout,
            &portrait.occupancy,
            names,
            width,
            colour,
        ));
    }
    if number > DRAWN {
        let rest = count(number - DRAWN, "more node", "more nodes");
        let _ = writeln!(text, "\n... {rest} (-o json lists all, --svg draws all)");
    }
    if number > 1 {
        let _ = write!(text, "\n{}", table(report.nodes));
    }
    let PodCounts { admitted, rejected } = report.counts;
    let pods = count(admitted, "pod", "pods");
    let _ = writeln!(text, "\n{pods} placed, {} rejected", grouped(rejected));
    text.push_str(&admission::not_simulated_text(&report.not_simulated));
    text.extend(report.as_pinfold.map(AsPinfold::text));
    text
}

/// The NUMA zones of a node's NodeResourceTopology as NodeResourceTopologyMatch sees them.
fn zones(nodes: &SimulatedCluster, name: &NodeName) -> String {
    let topology = match nodes.cluster.node(name).map(ClusterNode::dialect) {
        Some(Dialect::SchedulerPlugins(node)) => node.topology(),
        _ => None,
    };
    let Some(topology) = topology else {
        return "  reports no NUMA topology\n".to_owned();
    };
    let mut text = String::new();
    for zone in topology.zones.iter().filter(|zone| zone.kind == "Node") {
        let available = zone.resources.iter();
        let available: Vec<String> = available
            .map(|resource| format!("{} {}", resource.name, resource.available))
            .collect();
        let _ = writeln!(text, "  {}: available {}", zone.name, available.join(", "));
    }
    text
}

/// One line per step, with the letter of the pod in the picture of its node.
fn events(report: &ClusterSimulationReport<'_>) -> String {
    let mut signs = BTreeMap::new();
    for node in report.nodes {
        let holders = node.occupancy.iter().flat_map(|node| &node.holders);
        for (index, holder) in holders.enumerate() {
            signs.insert(holder.name.as_str(), palette::sign(index));
        }
    }
    let listed = &report.events[..report.events.len().min(LISTED)];
    let widest = listed.iter().map(|event| event.pod.chars().count()).max();
    let widest = widest.unwrap_or(0).clamp(7, 24);
    let mut text = String::new();
    for event in listed {
        let mark = match (event.step, event.rejections.is_empty()) {
            (_, false) => '✗',
            ("add", _) => *signs.get(event.pod.as_str()).unwrap_or(&'+'),
            _ => '-',
        };
        let lead = format!("{mark} {:<widest$}  ", event.pod);
        text.push_str(&paragraph(
            &lead,
            &event.message,
            widest + 4,
            output::width(),
        ));
    }
    let rest = &report.events[listed.len()..];
    if !rest.is_empty() {
        let rejected = rest.iter().filter(|event| !event.rejections.is_empty());
        let _ = writeln!(
            text,
            "  ... {}, {} of them rejected (-o json lists all)",
            count(rest.len(), "more step", "more steps"),
            grouped(rejected.count())
        );
    }
    text
}

/// Pods and CPUs of each node.
fn table(nodes: &[NodeReport]) -> String {
    let mut table = Table::new([
        ("node", Align::Left),
        ("pods", Align::Right),
        ("with exclusive CPUs", Align::Right),
        ("exclusive CPUs", Align::Right),
        ("shared CPUs", Align::Right),
    ]);
    for node in nodes.iter().take(LISTED) {
        let unknown = || "-".to_owned();
        let occupancy = node.occupancy.as_ref();
        let owners = occupancy.map(|node| {
            let owners = node.holders.iter();
            let owners: Vec<_> = owners.filter(|owner| !owner.cpus.is_empty()).collect();
            let held: usize = owners.iter().map(|owner| owner.cpus.len()).sum();
            (owners.len(), held)
        });
        table.row([
            node.node.to_string(),
            node.pods.to_string(),
            owners.map_or_else(unknown, |(owners, _)| owners.to_string()),
            owners.map_or_else(unknown, |(_, held)| held.to_string()),
            occupancy.map_or_else(unknown, |node| node.shared.len().to_string()),
        ]);
    }
    table.draw()
}

/// One picture per node: `FILE` is `cluster.svg`, the pictures are `cluster-NODE.svg`.
fn draw(nodes: &SimulatedCluster, file: &Path) -> Result<(), Failure> {
    for (name, _) in nodes.cluster.nodes() {
        if let Some(portrait) = nodes.node_view(name) {
            let layout = MachineLayout::new(&portrait.machine, &portrait.occupancy);
            let caption = Caption {
                title: name.as_str(),
                ..Caption::default()
            };
            let picture = svg::draw(&layout, &portrait.occupancy, caption);
            output::write_file(&picture_file(file, name), picture.as_bytes())?;
        }
    }
    Ok(())
}

/// Prints the picture of a cluster's only node.
fn print_picture(nodes: &SimulatedCluster) -> Result<(), Failure> {
    let mut names = nodes.cluster.nodes().map(|(name, _)| name);
    let (first, more) = (names.next(), names.next());
    let view = match (first, more) {
        (Some(name), None) => nodes.node_view(name).map(|view| (name, view)),
        _ => None,
    };
    let Some((name, view)) = view else {
        return Err(Failure::BadInput(
            "-o svg draws one node: --svg FILE writes a picture of every node".to_owned(),
        ));
    };
    let layout = MachineLayout::new(&view.machine, &view.occupancy);
    let caption = Caption {
        title: name.as_str(),
        ..Caption::default()
    };
    output::print_raw(&svg::draw(&layout, &view.occupancy, caption))
}

/// The file of a node's picture. Characters of the node's name that could lead to another folder become `_`.
fn picture_file(file: &Path, node: &NodeName) -> PathBuf {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
    let name: String = node
        .as_str()
        .chars()
        .map(|letter| if plain(letter) { letter } else { '_' })
        .collect();
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{stem}-{name}.svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_name_cannot_lead_a_picture_to_another_folder() {
        let file = Path::new("out/cluster.svg");
        let table = [
            ("node-1", "out/cluster-node-1.svg"),
            ("../../etc/x", "out/cluster-.._.._etc_x.svg"),
        ];
        for (node, picture) in table {
            assert_eq!(picture_file(file, &node.into()), Path::new(picture));
        }
    }
}
