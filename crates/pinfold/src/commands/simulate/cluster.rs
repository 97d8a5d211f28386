//! `pinfold simulate` on a cluster: which node each pod goes to, what it gets there, and how every node looks then.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pinfold_core::cluster::{
    Cluster, ClusterNode, Dialect, NodeRejection, PlaceError, Placement, PlacementDetail,
    PodRequest,
};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeSet;
use pinfold_core::occupancy::Occupancy;
use pinfold_kube::koordinator::{self, ResourceStatus, keys};
use pinfold_kube::pod::PodObject;
use pinfold_render::grid::Legend;
use pinfold_render::layout::MachineLayout;
use pinfold_render::table::{Align, Table};
use pinfold_render::text::{count, grouped, paragraph};
use pinfold_render::{grid, palette, placement, svg};
use serde::Serialize;

use crate::args::SimulateArgs;
use crate::cluster::Nodes;
use crate::exit::{Failure, REJECTED};
use crate::progress::Progress;
use crate::simulation::{Counts, Step};
use crate::{input, output, script};

/// More steps than this are counted, not listed.
const LISTED: usize = 50;
/// More nodes than this are not drawn as text.
const DRAWN: usize = 8;
/// A rejection of more nodes than this is told without their names.
const NAMED: usize = 3;

/// What came of one step.
#[derive(Clone, Debug, Serialize)]
struct Event {
    step: &'static str,
    pod: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeName>,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    cpus: CpuSet,
    #[serde(skip_serializing_if = "Option::is_none")]
    numa_nodes: Option<NodeSet>,
    /// What the scheduler writes on the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
    /// Why each node said no.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejections: Vec<Reason>,
    /// What happened, in one sentence.
    told: String,
}

/// Nodes that say no for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reason {
    /// In the words of their dialect.
    pub(crate) reason: String,
    /// The nodes, ascending.
    pub(crate) nodes: Vec<NodeName>,
}

/// One node at the end.
#[derive(Debug, Serialize)]
struct NodeReport {
    node: NodeName,
    pods: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    occupancy: Option<Occupancy>,
}

#[derive(Serialize)]
struct Report<'a> {
    dialect: &'static str,
    counts: Counts,
    events: &'a [Event],
    nodes: &'a [NodeReport],
}

pub(crate) fn run(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    let mut nodes = Nodes::open(&args.cluster, &args.node)?;
    let mut pods = std::mem::take(&mut nodes.waiting);
    pods.extend(input::pods(&args.pods)?);
    let steps = script::steps(args.script.as_ref(), &pods)?;
    let mut play = Play {
        asks: pods
            .iter()
            .map(|pod| nodes.ask(pod))
            .collect::<Result<_, _>>()?,
        pods: &pods,
        events: Vec::new(),
        counts: Counts::default(),
    };
    let mut progress = Progress::on_stderr(steps.len() * args.repeat as usize);
    for round in 1..=args.repeat {
        for &step in &steps {
            play.step(&mut nodes, step, round)?;
            progress.advance();
        }
    }
    progress.end();
    let Play { events, counts, .. } = play;
    let reports = reports(&nodes);
    let report = Report {
        dialect: nodes.reading.dialect.name(),
        counts,
        events: &events,
        nodes: &reports,
    };
    output::print_as(args.output, &report, || text(&nodes, &report))?;
    if let Some(path) = &args.svg {
        draw(&nodes, path)?;
    }
    Ok(match counts.rejected {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(REJECTED),
    })
}

/// Pods that come and go.
struct Play<'a> {
    pods: &'a [PodObject],
    asks: Vec<PodRequest>,
    events: Vec<Event>,
    counts: Counts,
}

impl Play<'_> {
    fn step(&mut self, nodes: &mut Nodes, step: Step, round: u32) -> Result<(), Failure> {
        match step {
            Step::Add(index) => self.add(nodes, index, round),
            Step::Remove(index) => self.remove(nodes, index, round),
            Step::Start(_) | Step::StartOne { .. } | Step::Offer(_) | Step::Restart => {
                return Err(Failure::BadInput(
                    "expected \"- add: POD\" or \"- remove: POD\", found a step of a single node: \
                     clusters know no start and no restart"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn add(&mut self, nodes: &mut Nodes, index: usize, round: u32) {
        let (object, ask) = (&self.pods[index], self.ask(index, round));
        let name = ask.pod().name.clone();
        nodes.names.insert(ask.uid().clone(), name.clone());
        let placed = match &object.node_name {
            Some(node) => nodes.cluster.place_on(&ask, &node.as_str().into()),
            None => nodes.cluster.place(&ask),
        };
        let event = match placed {
            Ok(placement) => {
                self.counts.admitted += 1;
                Event {
                    step: "add",
                    pod: name,
                    told: told(&placement),
                    annotations: annotations(nodes, object, &placement),
                    cpus: placement.cpus,
                    numa_nodes: Some(placement.numa).filter(|nodes| !nodes.is_empty()),
                    node: Some(placement.node),
                    rejections: Vec::new(),
                }
            }
            Err(PlaceError::AlreadyPlaced { node, .. }) => Event {
                told: format!("is on node {node} already"),
                ..Event::about("add", name)
            },
            Err(PlaceError::NoNode { rejections, .. }) => {
                self.counts.rejected += 1;
                let reasons = grouped_reasons(&rejections);
                Event {
                    told: rejected(&reasons, rejections.len()),
                    rejections: reasons,
                    ..Event::about("add", name)
                }
            }
        };
        self.events.push(event);
    }

    fn remove(&mut self, nodes: &mut Nodes, index: usize, round: u32) {
        let ask = self.ask(index, round);
        let node = nodes.cluster.remove(ask.uid());
        self.events.push(Event {
            told: match &node {
                Some(node) => format!("left node {node}"),
                None => "is not here".to_owned(),
            },
            node,
            ..Event::about("remove", ask.pod().name.clone())
        });
    }

    /// The pod itself in the first round, a pod like it in later ones.
    fn ask(&self, index: usize, round: u32) -> PodRequest {
        match round {
            1 => self.asks[index].clone(),
            _ => self.asks[index].copy(round),
        }
    }
}

impl Event {
    fn about(step: &'static str, pod: String) -> Self {
        Self {
            step,
            pod,
            node: None,
            cpus: CpuSet::new(),
            numa_nodes: None,
            annotations: BTreeMap::new(),
            rejections: Vec::new(),
            told: String::new(),
        }
    }
}

/// `node-1: NUMA node 0, CPUs 4-7`.
fn told(placement: &Placement) -> String {
    let what = match &placement.detail {
        PlacementDetail::Kubelet(assignment) => placement::placement(assignment),
        _ => place(&placement.cpus, placement.numa),
    };
    format!("{}: {what}", placement.node)
}

/// `node 0, CPUs 4-7`, as a kubelet's placements are told.
pub(crate) fn place(cpus: &CpuSet, numa: NodeSet) -> String {
    let mut words = Vec::new();
    match numa.len() {
        0 => {}
        1 => words.push(format!("node {numa}")),
        _ => words.push(format!("nodes {numa}")),
    }
    match cpus.is_empty() {
        true => words.push("shared pool".to_owned()),
        false => words.push(format!("CPUs {cpus}")),
    }
    words.join(", ")
}

/// The annotations that Koordinator's scheduler writes before it binds a pod.
fn annotations(
    nodes: &Nodes,
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
        let status = ResourceStatus::of(status, &report.topology, nodes.reading.fidelity);
        texts.insert(keys::RESOURCE_STATUS, status.to_json());
    }
    if let Some(spec) = spec {
        let text = koordinator::with_resource_spec(pod, spec);
        texts.insert(keys::RESOURCE_SPEC, text);
    }
    texts
}

/// Rejections by reason, the most frequent first.
pub(crate) fn grouped_reasons(rejections: &[(NodeName, NodeRejection)]) -> Vec<Reason> {
    let mut by_text = BTreeMap::<String, Vec<NodeName>>::new();
    for (node, rejection) in rejections {
        by_text
            .entry(rejection.to_string())
            .or_default()
            .push(node.clone());
    }
    let mut reasons: Vec<Reason> = by_text
        .into_iter()
        .map(|(reason, nodes)| Reason { reason, nodes })
        .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.nodes.len()));
    reasons
}

fn rejected(reasons: &[Reason], asked: usize) -> String {
    let told: Vec<String> = reasons.iter().map(Reason::told).collect();
    match asked {
        1 => format!("does not fit {}", told.join("; ")),
        _ => format!("fits none of {asked} nodes: {}", told.join("; ")),
    }
}

impl Reason {
    /// `node-1, node-2: Insufficient cpu (4 asked, 2 left)`.
    pub(crate) fn told(&self) -> String {
        let named: Vec<&str> = self.nodes.iter().map(NodeName::as_str).collect();
        let nodes = match named.len() > NAMED {
            true => count(named.len(), "node", "nodes"),
            false => named.join(", "),
        };
        format!("{nodes}: {}", self.reason)
    }
}

fn reports(nodes: &Nodes) -> Vec<NodeReport> {
    let cluster: &Cluster = &nodes.cluster;
    let report = |(name, member): (&NodeName, &ClusterNode)| NodeReport {
        node: name.clone(),
        pods: member.pods(),
        occupancy: nodes.node_view(name).map(|portrait| portrait.occupancy),
    };
    cluster.nodes().map(report).collect()
}

fn text(nodes: &Nodes, report: &Report<'_>) -> String {
    let number = nodes.cluster.nodes().count();
    let head = format!("{}, {}", count(number, "node", "nodes"), nodes.described());
    let mut text = paragraph("", &head, 2, output::width());
    text.push('\n');
    text.push_str(&events(report));
    for (name, _) in nodes.cluster.nodes().take(DRAWN) {
        let _ = write!(text, "\n{name}\n");
        let Some(portrait) = nodes.node_view(name) else {
            text.push_str("  says nothing about its NUMA nodes\n");
            continue;
        };
        let plan = MachineLayout::new(&portrait.machine, &portrait.occupancy);
        let (width, colour) = (output::width(), output::colour());
        let names = Legend::Names;
        text.push_str(&grid::draw(
            &plan,
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
    let Counts { admitted, rejected } = report.counts;
    let pods = count(admitted, "pod", "pods");
    let _ = writeln!(text, "\n{pods} placed, {} rejected", grouped(rejected));
    text
}

/// One line per step, with the sign that the pod has in the picture of its node.
fn events(report: &Report<'_>) -> String {
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
        text.push_str(&paragraph(&lead, &event.told, widest + 4, output::width()));
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

/// How full each node is.
fn table(nodes: &[NodeReport]) -> String {
    let mut table = Table::new([
        ("node", Align::Left),
        ("pods", Align::Right),
        ("with CPUs of their own", Align::Right),
        ("CPUs held", Align::Right),
        ("shared", Align::Right),
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
fn draw(nodes: &Nodes, file: &Path) -> Result<(), Failure> {
    for (name, _) in nodes.cluster.nodes() {
        if let Some(portrait) = nodes.node_view(name) {
            let plan = MachineLayout::new(&portrait.machine, &portrait.occupancy);
            let picture = svg::draw(&plan, &portrait.occupancy, name.as_str());
            output::write_file(&picture_file(file, name), picture.as_bytes())?;
        }
    }
    Ok(())
}

/// A node's name comes from outside: whatever is no plain letter of a file name becomes `_`.
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
    fn a_nodes_name_cannot_lead_a_picture_elsewhere() {
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
