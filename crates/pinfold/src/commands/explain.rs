//! `pinfold explain`: why one node admits or rejects a pod, and what would let it fit.

use std::process::ExitCode;
use std::sync::Arc;

use pinfold_core::device::NoPreference;
use pinfold_core::exclusive_cpus::{self, ContainerCpus, CpuReasons};
use pinfold_core::pod::Pod;
use pinfold_core::remedy::{self, Effort, Remedies};
use pinfold_render::{cpu_reasons, explain};
use serde::Serialize;

use crate::args::ExplainArgs;
use crate::as_pinfold::{AsPinfold, PodOutcome};
use crate::exit::{Failure, REJECTED};
use crate::node::SimulatedNode;
use crate::output::remark;
use crate::running::RunningPods;
use crate::{input, output};

pub(crate) mod cluster;

/// An answer about one pod as JSON and YAML.
#[derive(Serialize)]
pub(crate) struct PodAnswer<'a, T> {
    /// The answer.
    #[serde(flatten)]
    pub(crate) found: &'a T,
    /// Why its containers have exclusive or shared CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpus: Option<&'a CpuReasons>,
    /// Whether Pinfold would decide otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) as_pinfold: Option<&'a AsPinfold>,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    output::print_rejected(args.output, explain(args))
}

fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    if args.cluster.is_cluster(args.node.decider.decider) {
        return cluster::run(args);
    }
    let (node, pinfold) = SimulatedNode::open_with_pinfold(&args.node)?;
    let running = RunningPods::read(&args.running)?;
    let ledger = running.ledger(&node, remark)?;
    let (name, pod) = input::first_pod(&args.pod)?;
    let found = remedy::find(&ledger, &pod, &mut NoPreference, Effort::default())
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    let kubelet = PodOutcome::of(&found.decision);
    let as_pinfold = pinfold.and_then(|pinfold| compare(&name, &pod, kubelet, &running, &pinfold));
    let rules = &node.rules;
    let cpus = exclusive_cpus::reasons(&pod, rules.has_exclusive_cpus(), rules.pod_level());
    let answer = PodAnswer {
        found: &found,
        cpus: Some(&cpus),
        as_pinfold: as_pinfold.as_ref(),
    };
    output::print_as(args.output, &answer, || {
        let mut text = text(&name, &found);
        let check = |container: &ContainerCpus| {
            let changed = exclusive_cpus::with_changes(&pod, &container.change);
            let admission = ledger.clone().admit(&Arc::new(changed), &mut NoPreference);
            Some(admission.ok()?.decision.is_admitted())
        };
        text.push_str(&cpu_reasons::text(&cpus, output::width(), check));
        text.extend(as_pinfold.as_ref().map(AsPinfold::text));
        text
    })?;
    Ok(match found.decision.is_admitted() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}

/// Compares the kubelet's decision about a pod with that of Pinfold's agent; `None` if the agent cannot take over the
/// running pods.
pub(crate) fn compare(
    name: &str,
    pod: &Arc<Pod>,
    kubelet: PodOutcome,
    running: &RunningPods<'_>,
    pinfold: &SimulatedNode,
) -> Option<AsPinfold> {
    let mut ledger = running.ledger(pinfold, |_| {}).ok()?;
    let admission = ledger.admit(pod, &mut NoPreference).ok()?;
    let pinfold = PodOutcome::of(&admission.decision);
    Some(AsPinfold::compare([(name, kubelet)], [(name, pinfold)]))
}

/// The answer as text.
pub(crate) fn text(name: &str, found: &Remedies) -> String {
    match found.decision.is_admitted() {
        true => explain::admission(name, &found.decision),
        false => explain::rejection(name, &found.decision, Some(found)),
    }
}
