//! `pinfold simulate` on a cluster: the node of each pod, what it gets there, and the nodes afterwards.

use std::collections::BTreeSet;
use std::process::ExitCode;

use pinfold_cluster::{Cluster, ClusterNode};
use pinfold_core::name::NodeName;
use pinfold_core::occupancy::Occupancy;
use pinfold_kube::cluster::DialectName;
use pinfold_kube::decider::Decider;
use pinfold_kube::pod::PodObject;
use serde::Serialize;

use self::steps::{ClusterSimulation, ClusterStepEvent};
use crate::admission::NotSimulated;
use crate::args::{SimulateArgs, SimulateFormat};
use crate::as_pinfold::AsPinfold;
use crate::cluster::{ClusterFiles, SimulatedCluster};
use crate::exit::{Failure, REJECTED};
use crate::progress::Progress;
use crate::script::ScriptPod;
use crate::simulation::{PodCounts, SimulationStep};
use crate::{input, output, script};

mod pictures;
mod steps;
mod text;

/// A comparison with Pinfold's decisions asks nodes at most this many times about a pod.
const MOST_COMPARED: usize = 500_000;

/// A node after all steps.
#[derive(Debug, Serialize)]
struct NodeReport {
    node: NodeName,
    pods: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    occupancy: Option<Occupancy>,
}

#[derive(Serialize)]
pub(crate) struct ClusterSimulationReport {
    decider: String,
    counts: PodCounts,
    events: Vec<ClusterStepEvent>,
    nodes: Vec<NodeReport>,
    /// Fields of pods that kube-scheduler or the kubelet checks and the simulation does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_simulated: Vec<NotSimulated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_pinfold: Option<AsPinfold>,
}

impl ClusterSimulationReport {
    /// The pods placed one after the other on a cluster, and the nodes' pictures afterwards. Nothing is printed.
    pub(crate) fn quietly(
        files: &ClusterFiles,
        decider: Decider,
        pods: &mut [PodObject],
        bound: bool,
        read_steps: impl FnOnce(&[PodObject]) -> Result<Vec<SimulationStep>, Failure>,
    ) -> Result<(Self, Vec<String>), Failure> {
        let mut nodes = files.nodes_quietly(decider)?;
        if bound {
            nodes.bind_all(pods)?;
        }
        let steps = read_steps(pods)?;
        let simulation = ClusterSimulation::new(&nodes, pods)?;
        let simulation = simulation.take(&mut nodes, &steps, 1, usize::MAX, || {})?;
        let (events, counts) = (simulation.events, simulation.counts);
        let views = nodes.cluster.nodes();
        let views = views.filter_map(|(name, _)| Some((name, nodes.node_view(name)?)));
        let drawn = views.map(|(name, view)| pictures::picture(name, &view));
        let drawn = drawn.collect();
        Ok((Self::of(&nodes, pods, events, counts, None), drawn))
    }

    fn of(
        nodes: &SimulatedCluster,
        pods: &[PodObject],
        events: Vec<ClusterStepEvent>,
        counts: PodCounts,
        as_pinfold: Option<AsPinfold>,
    ) -> Self {
        Self {
            decider: nodes.reading.decider.to_string(),
            counts,
            events,
            nodes: reports(nodes),
            not_simulated: nodes.not_simulated(pods),
            as_pinfold,
        }
    }
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
    let report = ClusterSimulationReport::of(&nodes, &pods, events, counts, as_pinfold);
    match args.output {
        SimulateFormat::Svg => pictures::print(&nodes)?,
        format => {
            output::print_as(format.without_picture(), &report, || {
                text::text(&nodes, &report)
            })?;
        }
    }
    if let Some(path) = &args.svg {
        pictures::draw(&nodes, path)?;
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

fn reports(nodes: &SimulatedCluster) -> Vec<NodeReport> {
    let cluster: &Cluster = &nodes.cluster;
    let report = |(name, member): (&NodeName, &ClusterNode)| NodeReport {
        node: name.clone(),
        pods: member.pods(),
        occupancy: nodes.node_view(name).map(|portrait| portrait.occupancy),
    };
    cluster.nodes().map(report).collect()
}
