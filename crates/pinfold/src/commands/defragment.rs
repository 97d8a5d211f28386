//! `pinfold defragment`: the fewest running pods to move so that a rejected pod fits.

use std::process::ExitCode;

use pinfold_core::device::NoPreference;
use pinfold_core::remedy::{self, Effort};
use pinfold_kube::decider::Decider;
use pinfold_render::explain;

use crate::args::DefragmentArgs;
use crate::as_pinfold::{AsPinfold, PodOutcome};
use crate::commands::explain::{PodAnswer, compare};
use crate::exit::{Failure, REJECTED};
use crate::node::SimulatedNode;
use crate::output::remark;
use crate::progress::Activity;
use crate::running::RunningPods;
use crate::{input, output};

pub(crate) fn run(args: &DefragmentArgs) -> Result<ExitCode, Failure> {
    output::print_rejected(args.output, defragment(args))
}

fn defragment(args: &DefragmentArgs) -> Result<ExitCode, Failure> {
    let decider = args.node.decider.decider;
    if !matches!(decider, Decider::Kubelet(_) | Decider::Pinfold) {
        return Err(Failure::BadInput(format!(
            "--as {decider}: defragment plans for one node, where a kubelet or pinfold decides"
        )));
    }
    let (node, pinfold) = SimulatedNode::open_with_pinfold(&args.node)?;
    let running = RunningPods::read(&args.running)?;
    let ledger = running.ledger(&node, remark)?;
    let (name, pod) = input::first_pod(&args.pod)?;
    let effort = Effort {
        moves: usize::from(args.moves),
        ..Effort::PLAN
    };
    let activity = Activity::on_stderr("searching the fewest moves");
    let found = remedy::defragment(&ledger, &pod, &mut NoPreference, effort)
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    drop(activity);
    let kubelet = PodOutcome::of(&found.decision);
    let as_pinfold = pinfold.and_then(|pinfold| {
        let ledger = running.ledger(&pinfold, |_| {}).ok()?;
        compare(&name, &pod, kubelet, ledger)
    });
    let answer = PodAnswer {
        found: &found,
        cpus: None,
        as_pinfold: as_pinfold.as_ref(),
    };
    output::print_as(args.output, &answer, || {
        let mut text = explain::defragmentation(&name, &found, output::width());
        text.extend(as_pinfold.as_ref().map(AsPinfold::text));
        text
    })?;
    Ok(match found.decision.is_admitted() || found.plan.is_some() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}
