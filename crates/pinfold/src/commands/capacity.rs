//! `pinfold capacity`: how many replicas of a pod really start, on each node and in all.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pinfold_cluster::{ClusterNode, PodRequest};
use pinfold_core::name::NodeName;
use pinfold_kube::admission::AdmissionRequest;
use pinfold_kube::capacity::{self, CandidateNode, NodeReplicas, ReplicaLimit};
use pinfold_kube::decider::Decider;
use pinfold_kube::pod::PodObject;
use pinfold_render::text::{count, grouped};
use pinfold_terminal::capacity::CapacityReport;

use crate::args::CapacityArgs;
use crate::cluster::{ClusterFiles, NodeReason, NotPlaced, SimulatedCluster};
use crate::exit::{Failure, REJECTED};
use crate::output::remark;
use crate::starting_state::StartedNode;
use crate::{input, output};

/// The name of the only node.
const THIS_NODE: &str = "node";
/// The most replicas with constraints on each other, which are placed on the whole cluster one after the other.
const MOST_IN_TURN: u32 = 2000;

pub(crate) fn run(args: &CapacityArgs) -> Result<ExitCode, Failure> {
    output::print_rejected(args.output, capacity(args))
}

fn capacity(args: &CapacityArgs) -> Result<ExitCode, Failure> {
    let pod = input::first_object(&args.pod)?;
    let report = match args.cluster.is_cluster(args.node.decider.decider) {
        true => on_cluster(args, &pod)?,
        false => on_machine(args, &pod)?,
    };
    output::print_as(args.output, &report, || report.text(output::width()))?;
    Ok(match report.started() {
        0 => ExitCode::from(REJECTED),
        _ => ExitCode::SUCCESS,
    })
}

/// The replicas of one machine with its running pods.
fn on_machine(args: &CapacityArgs, pod: &PodObject) -> Result<CapacityReport, Failure> {
    let opened = args.start.open(&args.node)?;
    let StartedNode { ledger, sums, .. } = opened.started(&args.start, false)?;
    let name = match opened.node.name.as_str() {
        "" => NodeName::from(THIS_NODE),
        name => NodeName::from(name),
    };
    let node = CandidateNode {
        name: &name,
        rules: &ClusterNode::kubelet(ledger, opened.node.allocatable.clone()),
        sums: &sums,
    };
    let (ask, request) = (
        PodRequest::new(pod.pod.clone().into()),
        AdmissionRequest::of(pod),
    );
    let counted = capacity::count([node], &ask, &request);
    let mut not_simulated = sums.not_simulated(&request);
    if opened.start.is_directory() {
        not_simulated.push("the requests of pods that the state files do not list");
    }
    let report = CapacityReport::new(&pod.pod.name, opened.node.decider.to_string(), &counted);
    let report = report.with_not_simulated(not_simulated);
    Ok(match args.compare {
        true => report.with_policies(&capacity::count_under_policies([node], &ask, &request)),
        false => report,
    })
}

/// The replicas of every node of a cluster. Pending pods of the files are not placed first.
fn on_cluster(args: &CapacityArgs, pod: &PodObject) -> Result<CapacityReport, Failure> {
    let decider = args.node.decider.decider;
    let are_related = capacity::are_related(&pod.constraints);
    check_comparison(args, decider, are_related)?;
    let running = args.start.cluster_pods_without_script()?;
    let mut nodes = ClusterFiles::read(&args.cluster, &args.node)?.nodes(decider)?;
    nodes.place_running(&running)?;
    if !nodes.pending.is_empty() {
        let pending = count(nodes.pending.len(), "pending pod", "pending pods");
        remark(&format!(
            "{pending} of the files hold nothing yet and are not counted"
        ));
    }
    let (ask, request) = (nodes.ask(pod)?, AdmissionRequest::of(pod));
    let excluded = nodes.excluded(&request);
    let all = nodes.cluster.nodes().filter_map(|(name, rules)| {
        let sums = nodes.sums.get(name)?;
        Some(CandidateNode { name, rules, sums })
    });
    let all: Vec<CandidateNode<'_>> = all.collect();
    let candidates = all.iter().copied();
    let candidates = candidates.filter(|node| !excluded.contains_key(node.name));
    let mut counted = capacity::count(candidates.clone(), &ask, &request);
    let policies = match args.compare {
        true => capacity::count_under_policies(candidates, &ask, &request),
        false => Vec::new(),
    };
    let only_sums = all
        .iter()
        .filter(|node| capacity::has_only_sums(node.rules));
    let only_sums = only_sums.map(|node| node.name.clone()).collect();
    let not_simulated = match all.first() {
        Some(node) => node.sums.not_simulated(&request),
        None => Vec::new(),
    };
    if are_related {
        place_in_turn(&mut nodes, pod, &request, &ask, &mut counted);
    }
    counted.extend(excluded.into_iter().map(|(node, reason)| NodeReplicas {
        node,
        promised: 0,
        started: 0,
        limit: limit(reason),
    }));
    counted.sort_by(|one, other| one.node.cmp(&other.node));
    let report = CapacityReport::new(&pod.pod.name, decider.to_string(), &counted);
    Ok(report
        .with_policies(&policies)
        .with_nodes_without_topology(only_sums)
        .with_not_simulated(not_simulated))
}

fn check_comparison(
    args: &CapacityArgs,
    decider: Decider,
    are_related: bool,
) -> Result<(), Failure> {
    if !args.compare {
        return Ok(());
    }
    if !matches!(decider, Decider::Kubelet(_) | Decider::Pinfold) {
        return Err(Failure::BadInput(format!(
            "--as {decider}: --compare changes the policy of kubelets, where a kubelet or pinfold decides"
        )));
    }
    match are_related {
        true => Err(Failure::BadInput(
            "--compare counts each node alone: pods with required pod affinity, pod anti-affinity or hard topology spread \
             depend on other nodes"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

/// Counts replicas with constraints on each other: places one after the other on the whole cluster.
fn place_in_turn(
    nodes: &mut SimulatedCluster,
    pod: &PodObject,
    request: &AdmissionRequest,
    ask: &PodRequest,
    counted: &mut [NodeReplicas],
) {
    let mut rows: BTreeMap<NodeName, &mut NodeReplicas> = counted
        .iter_mut()
        .map(|row| (row.node.clone(), row))
        .collect();
    for row in rows.values_mut() {
        row.started = 0;
    }
    for number in 1..=MOST_IN_TURN {
        match nodes.place(pod, request, &ask.copy(number)) {
            Ok((placement, _)) => {
                if let Some(row) = rows.get_mut(&placement.node) {
                    row.started += 1;
                }
            }
            Err(NotPlaced::NoNode(rejections)) => {
                for (node, reason) in rejections {
                    if let Some(row) = rows.get_mut(&node) {
                        // What a constraint excludes, the sums do not promise.
                        if !matches!(reason, NodeReason::Rules(_)) {
                            row.promised = row.started;
                        }
                        row.limit = limit(reason);
                    }
                }
                return;
            }
            Err(NotPlaced::Already(_) | NotPlaced::Ended) => return,
        }
    }
    remark(&format!(
        "counted the first {} replicas only: they have constraints on each other",
        grouped(MOST_IN_TURN as usize)
    ));
}

/// Why no more replicas start on a node.
fn limit(reason: NodeReason) -> ReplicaLimit {
    let message = reason.to_string();
    match reason {
        NodeReason::Rules(rejection) => ReplicaLimit::Rules(rejection),
        NodeReason::Filter(mismatch) => ReplicaLimit::Constraint {
            summary: mismatch.scheduler_text().to_owned(),
            message,
        },
        NodeReason::Gated(_) | NodeReason::Predicate(_) => ReplicaLimit::Constraint {
            summary: message.clone(),
            message,
        },
    }
}
