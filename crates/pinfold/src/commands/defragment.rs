//! `pinfold defragment`: the fewest running pods to move so that a rejected pod fits.

use std::process::ExitCode;
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_core::device::NoPreference;
use pinfold_core::remedy::{self, Effort};
use pinfold_kube::admission::AdmissionRequest;
use pinfold_kube::decider::Decider;
use pinfold_render::explain;
use pinfold_render::text::paragraph;

use crate::admission;
use crate::args::DefragmentArgs;
use crate::as_pinfold::{AsPinfold, PodOutcome};
use crate::commands::explain::{PodAnswer, compare, predicates, rejection_text};
use crate::exit::{Failure, REJECTED};
use crate::progress::Activity;
use crate::starting_state::StartedNode;
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
    let opened = args.start.open(&args.node)?;
    let StartedNode { ledger, sums, .. } = opened.started(&args.start, args.bound)?;
    let object = input::first_object(&args.pod)?;
    let request = AdmissionRequest::of(&object);
    let (name, pod) = (object.pod.name.clone(), Arc::new(object.pod));
    let effort = Effort {
        moves: usize::from(args.moves),
        ..Effort::PLAN
    };
    let activity = Activity::on_stderr("searching the fewest moves");
    let found = remedy::defragment(&ledger, &pod, &mut NoPreference, effort)
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    drop(activity);
    // Pods that move on the node stay in its sums, so that no plan helps a pod that they leave no room for.
    let unschedulable = admission::schedule(&sums, &request, args.bound).err();
    let rejection = unschedulable.or_else(|| match found.decision.is_admitted() {
        true => predicates(&ledger, &sums, &pod, &request, &found.decision),
        false => sums
            .predicates(&request, &Amounts::new())
            .err()
            .map(Into::into),
    });
    let as_pinfold = match &rejection {
        None => {
            let kubelet = PodOutcome::of(&found.decision);
            let started = opened.started_as_pinfold(&args.start, args.bound);
            started.and_then(|started| compare(&name, &pod, kubelet, started.ledger))
        }
        Some(_) => None,
    };
    let answer = PodAnswer {
        found: &found,
        rejection: rejection.as_ref(),
        as_pinfold: as_pinfold.as_ref(),
    };
    output::print_as(args.output, &answer, || match &rejection {
        Some(rejection) => {
            let line = "no move of pods on the node changes that";
            rejection_text(&name, rejection) + &paragraph("  ", line, 2, output::width())
        }
        None => {
            let mut text = explain::defragmentation(&name, &found, output::width());
            text.extend(as_pinfold.as_ref().map(AsPinfold::text));
            text
        }
    })?;
    let fits = found.decision.is_admitted() || found.plan.is_some();
    Ok(match rejection.is_none() && fits {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}
