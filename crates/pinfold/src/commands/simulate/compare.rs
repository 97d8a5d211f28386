//! `pinfold simulate --compare`: the same steps under every topology policy and scope.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use pinfold_core::node_set::NodeSet;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::TopologyScope;
use pinfold_render::table::{Align, Table};
use pinfold_render::text::{count, paragraph};
use serde::Serialize;

use crate::args::Format;
use crate::exit::Failure;
use crate::node::SimulatedNode;
use crate::output::{self, width};
use crate::simulation::{PodCounts, Simulation, SimulationPlan};
use crate::usage;

/// The most pods that are listed; further ones are counted.
const LISTED: usize = 20;

/// The simulation under one policy and scope.
#[derive(Serialize)]
struct PolicyVariant {
    policy: TopologyPolicy,
    scope: TopologyScope,
    /// The kubelet's error, if it does not start with this policy and scope.
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    impossible: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<PolicyResult>,
}

/// The result of a simulation, as far as it is compared.
#[derive(Serialize)]
struct PolicyResult {
    counts: PodCounts,
    /// Admitted pods whose CPUs or memory lie on more than one NUMA node.
    #[serde(rename = "on_several_nodes")]
    scattered: usize,
    used_cpus_percent: Option<u64>,
    /// Why pods were rejected, by pod.
    rejected: BTreeMap<String, String>,
}

/// All simulations, and the pods that some of them reject and others admit.
#[derive(Serialize)]
struct PolicyComparison {
    variants: Vec<PolicyVariant>,
    differing: Vec<String>,
}

pub(super) fn run(
    node: &SimulatedNode,
    plan: &SimulationPlan<'_>,
    format: Format,
) -> Result<ExitCode, Failure> {
    let mut variants = Vec::new();
    for policy in TopologyPolicy::ALL {
        for scope in [TopologyScope::Container, TopologyScope::Pod] {
            // Without a policy there is nothing to align, whatever the scope.
            if policy == TopologyPolicy::None && scope == TopologyScope::Pod {
                continue;
            }
            let (mut impossible, mut outcome) = (None, None);
            match node.under(policy, scope) {
                Ok(node) => outcome = Some(PolicyResult::of(&plan.run_on(&node)?, &node)),
                Err(error) => impossible = Some(error.to_string()),
            }
            variants.push(PolicyVariant {
                policy,
                scope,
                impossible,
                outcome,
            });
        }
    }
    let differing = differing(&variants);
    let comparison = PolicyComparison {
        variants,
        differing,
    };
    output::print_as(format, &comparison, || text(node, &comparison))?;
    Ok(ExitCode::SUCCESS)
}

impl PolicyResult {
    fn of(simulation: &Simulation, node: &SimulatedNode) -> Self {
        let mut scattered = 0;
        let mut rejected = BTreeMap::new();
        for event in &simulation.events {
            let pod = event.pod.clone().unwrap_or_default();
            if let Some(assignment) = &event.assignment {
                let mut nodes = NodeSet::EMPTY;
                for container in &assignment.containers {
                    for cpu in container.cpus.iter().flat_map(|cpus| cpus.iter()) {
                        let place = node.rules.topology().cpu_info(cpu);
                        nodes = nodes
                            | place.map_or(NodeSet::EMPTY, |place| NodeSet::single(place.node));
                    }
                    for block in container.memory.iter().flatten() {
                        nodes = nodes | block.nodes;
                    }
                }
                scattered += usize::from(nodes.iter().nth(1).is_some());
            }
            if event.rejection.is_some() {
                rejected.insert(pod, event.message.clone());
            }
        }
        let usages = usage::of(&simulation.ledger);
        let cpus = usages.iter().find(|usage| usage.resource.as_str() == "cpu");
        Self {
            counts: simulation.counts,
            scattered,
            used_cpus_percent: cpus.map(usage::ResourceUsage::used_percent),
            rejected,
        }
    }
}

/// The pods that are rejected under some variants only.
fn differing(variants: &[PolicyVariant]) -> Vec<String> {
    let possible = variants
        .iter()
        .filter_map(|variant| variant.outcome.as_ref());
    let possible: Vec<&PolicyResult> = possible.collect();
    let mut times: BTreeMap<&String, usize> = BTreeMap::new();
    for outcome in &possible {
        for pod in outcome.rejected.keys() {
            *times.entry(pod).or_default() += 1;
        }
    }
    let some = times
        .into_iter()
        .filter(|(_, times)| *times < possible.len());
    some.map(|(pod, _)| pod.clone()).collect()
}

fn text(node: &SimulatedNode, comparison: &PolicyComparison) -> String {
    let mut text = match node.name.as_str() {
        "" => String::new(),
        name => format!("{}\n", paragraph("", name, 2, width())),
    };
    let mut table = Table::new([
        ("", Align::Right),
        ("policy", Align::Left),
        ("scope", Align::Left),
        ("admitted", Align::Right),
        ("rejected", Align::Right),
        ("on several nodes", Align::Right),
        ("CPUs used", Align::Right),
    ]);
    for (number, variant) in comparison.variants.iter().enumerate() {
        let scope = match variant.policy {
            TopologyPolicy::None => "-",
            _ => variant.scope.name(),
        };
        let mut cells = vec![
            (number + 1).to_string(),
            variant.policy.to_string(),
            scope.to_owned(),
        ];
        match &variant.outcome {
            None => cells.push("impossible".to_owned()),
            Some(outcome) => cells.extend([
                outcome.counts.admitted.to_string(),
                outcome.counts.rejected.to_string(),
                outcome.scattered.to_string(),
                outcome
                    .used_cpus_percent
                    .map_or_else(|| "-".to_owned(), |percent| format!("{percent}%")),
            ]),
        }
        table.row(cells);
    }
    text.push_str(&table.draw());
    for (number, variant) in comparison.variants.iter().enumerate() {
        if let Some(words) = &variant.impossible {
            text.push_str(&paragraph(&format!("{}: ", number + 1), words, 3, width()));
        }
    }
    text.push_str(&differences(comparison));
    text
}

/// Which pods differ, where, and why.
fn differences(comparison: &PolicyComparison) -> String {
    if comparison.differing.is_empty() {
        return "\nno pod differs: each is admitted everywhere or rejected everywhere\n".to_owned();
    }
    let mut text = "\npods that differ\n".to_owned();
    for pod in comparison.differing.iter().take(LISTED) {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        let mut admitted = Vec::new();
        for (number, variant) in comparison.variants.iter().enumerate() {
            let Some(outcome) = &variant.outcome else {
                continue;
            };
            let number = (number + 1).to_string();
            match outcome.rejected.get(pod) {
                Some(why) => match reasons.iter_mut().find(|(known, _)| known == why) {
                    Some((_, numbers)) => numbers.push(number),
                    None => reasons.push((why, vec![number])),
                },
                None => admitted.push(number),
            }
        }
        let _ = writeln!(text, "  {pod}: admitted under {}", admitted.join(", "));
        for (why, numbers) in reasons {
            let lead = format!("    rejected under {}: ", numbers.join(", "));
            text.push_str(&paragraph(&lead, why, 6, width()));
        }
    }
    if comparison.differing.len() > LISTED {
        let more = comparison.differing.len() - LISTED;
        let _ = writeln!(text, "  ... and {}", count(more, "more pod", "more pods"));
    }
    text
}
