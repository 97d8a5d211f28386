//! `pinfold defragment`: the fewest pods that have to change places so that a rejected pod fits.

use std::process::ExitCode;

use pinfold_core::device::NoPreference;
use pinfold_core::remedy::{self, Effort};
use pinfold_render::explain;

use crate::args::DefragmentArgs;
use crate::exit::{Failure, REJECTED};
use crate::node::Node;
use crate::{input, output, running};

pub(crate) fn run(args: &DefragmentArgs) -> Result<ExitCode, Failure> {
    let node = Node::open(&args.node)?;
    let ledger = running::ledger(&node, &args.running)?;
    let (name, pod) = input::first_pod(&args.pod)?;
    let effort = Effort {
        moves: usize::from(args.moves),
        ..Effort::PLAN
    };
    let found = remedy::defragment(&ledger, &pod, &mut NoPreference, effort)
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    output::print_as(args.output, &found, || {
        explain::defragmentation(&name, &found)
    })?;
    Ok(match found.decision.is_admitted() || found.plan.is_some() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}
