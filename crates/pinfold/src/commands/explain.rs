//! `pinfold explain`: why a pod goes where it goes, or what stands in its way and what would let it in.

use std::process::ExitCode;

use pinfold_core::device::NoPreference;
use pinfold_core::remedy::{self, Effort, Remedies};
use pinfold_render::explain;

use crate::args::ExplainArgs;
use crate::exit::{Failure, REJECTED};
use crate::node::Node;
use crate::{input, output, running};

pub(crate) mod cluster;

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    if args.cluster.is_cluster() {
        return cluster::run(args);
    }
    let node = Node::open(&args.node)?;
    let ledger = running::ledger(&node, &args.running)?;
    let (name, pod) = input::first_pod(&args.pod)?;
    let found = remedy::find(&ledger, &pod, &mut NoPreference, Effort::default())
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    output::print_as(args.output, &found, || text(&name, &found))?;
    Ok(match found.decision.is_admitted() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}

/// The answer for people.
pub(crate) fn text(name: &str, found: &Remedies) -> String {
    match found.decision.is_admitted() {
        true => explain::admission(name, &found.decision),
        false => explain::rejection(name, &found.decision, Some(found)),
    }
}
