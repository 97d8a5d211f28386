//! `kubectl pinfold capacity`: how many replicas of a pod really start on the nodes of the cluster.

use std::path::Path;
use std::process::ExitCode;

use pinfold_kube::admission::AdmissionRequest;
use pinfold_kube::capacity::{self, CandidateNode};
use pinfold_kube::decider::Decider;
use pinfold_kube::pod::{self, PodObject};
use pinfold_terminal::capacity::CapacityReport;
use pinfold_terminal::{Failure, REJECTED, Source, manifest_files, output};

use super::cluster_state::ClusterState;
use crate::args::CapacityArgs;

pub(crate) fn run(args: &CapacityArgs) -> Result<ExitCode, Failure> {
    let decider = args.source.decider.decider;
    if args.compare && !matches!(decider, Decider::Kubelet(_) | Decider::Pinfold) {
        return Err(Failure::BadInput(format!(
            "--as {decider}: --compare changes the policy of kubelets, where a kubelet or pinfold decides"
        )));
    }
    let pod = first_pod(&args.filename)?;
    let state = ClusterState::open(&args.source, None)?;
    for note in &state.notes {
        output::remark(&format!("note: {note}"));
    }
    let report = report(&state, &pod, args.compare)?;
    output::print_as(args.output, &report, || report.text(output::width()))?;
    Ok(match report.started() {
        0 => ExitCode::from(REJECTED),
        _ => ExitCode::SUCCESS,
    })
}

/// How many replicas of a pod start on each node.
pub(super) fn report(
    state: &ClusterState,
    pod: &PodObject,
    compare: bool,
) -> Result<CapacityReport, Failure> {
    let request = AdmissionRequest::of(pod);
    let ask = state.request(pod)?;
    let (sums, _) = state.admission_nodes(None);
    let nodes = state.cluster.nodes().filter_map(|(name, rules)| {
        let sums = sums.get(name)?;
        Some(CandidateNode { name, rules, sums })
    });
    let nodes: Vec<CandidateNode<'_>> = nodes.collect();
    let found = capacity::count(nodes.iter().copied(), &ask, &request);
    let only_sums = nodes
        .iter()
        .filter(|node| capacity::has_only_sums(node.rules));
    let mut report = CapacityReport::new(&pod.pod.name, state.options.decider.to_string(), &found)
        .with_nodes_without_topology(only_sums.map(|node| node.name.clone()).collect())
        .with_not_simulated(match nodes.first() {
            // Every node is counted alone, so that constraints between replicas are not honoured.
            Some(node) => {
                let mut fields = node.sums.not_simulated(&request);
                fields.extend(pod.constraints.pod_terms.fields());
                fields
            }
            None => Vec::new(),
        });
    if compare {
        let policies = capacity::count_under_policies(nodes.iter().copied(), &ask, &request);
        report = report.with_policies(&policies);
    }
    Ok(report)
}

/// The first pod of a file or directory.
fn first_pod(path: &Path) -> Result<PodObject, Failure> {
    for file in manifest_files::find(path, false)? {
        let source = Source::open(&file)?;
        let read = pod::read_file(&source.name, &source.bytes, &[]);
        let read = read.map_err(|findings| source.failure(&findings))?;
        source.warn(&read.warnings);
        if let Some(mut pod) = read.value.pods.into_iter().next() {
            output::drop_default_namespace(&mut pod.pod.name);
            return Ok(pod);
        }
    }
    Err(Failure::BadInput(format!(
        "{}: expected a pod, or a deployment, job or the like; found none",
        pinfold_terminal::source::name(path)
    )))
}
