//! `kubectl pinfold upgrade`: what changes on the nodes when their kubelets move to another version.

use std::process::ExitCode;

use pinfold_cluster::node_topology::replica::RulesCache;
use pinfold_kube::upgrade::{self, NodeUpgrade};
use pinfold_terminal::upgrade::{UpgradeReport, read_config};
use pinfold_terminal::{DeciderArg, Failure, REJECTED, output};

use super::cluster_state;
use crate::args::{SourceArgs, UpgradeArgs};

pub(crate) fn run(args: &UpgradeArgs) -> Result<ExitCode, Failure> {
    let config = match &args.config {
        Some(path) => Some(read_config(path)?),
        None => None,
    };
    let source = SourceArgs {
        objects: args.objects.clone(),
        decider: DeciderArg::default(),
        scheduler_config: None,
    };
    let listed = cluster_state::listed(&source, None)?;
    for note in &listed.notes {
        output::remark(&format!("note: {note}"));
    }
    let mut cache = RulesCache::default();
    let sources = listed.objects.nodes_with_sources();
    if sources.is_empty() {
        return Err(Failure::BadInput(
            "no nodes: expected Node or NodeResourceTopology objects".to_owned(),
        ));
    }
    let nodes = sources.iter().map(|found| {
        let from = args.from.as_ref();
        let read =
            upgrade::of_cluster_node(found, from, args.to.rules, config.as_ref(), &mut cache);
        // One node with an invalid report does not hide the others.
        read.unwrap_or_else(|findings| {
            let why = findings.0.first().map(ToString::to_string);
            NodeUpgrade {
                node: Some(found.node.name()),
                from: upgrade::version_of(found.node, from).ok(),
                findings: Vec::new(),
                not_known: vec![format!(
                    "its report, which cannot be read: {}",
                    why.unwrap_or_default()
                )],
            }
        })
    });
    let nodes: Vec<NodeUpgrade> = nodes.collect();
    let report = UpgradeReport::new(&args.to, &nodes);
    output::print_as(args.output, &report, || report.text(output::width()))?;
    Ok(match report.needs_work() {
        true => ExitCode::from(REJECTED),
        false => ExitCode::SUCCESS,
    })
}
