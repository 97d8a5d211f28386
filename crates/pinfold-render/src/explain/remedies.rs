//! Remedies as a numbered list, one line each.

use pinfold_core::decision::{Assignment, ResourceManager};
use pinfold_core::node_set::NodeSet;
use pinfold_core::remedy::{Alteration, OnEmptyNode, OptionOwner, Remedies, Remedy, RequestChange};

use super::moves::{self, called};
use super::phrases::{self, amount_of, bare, wrap};
use crate::text::paragraph;

/// The remedies, and what would fit the empty machine; empty for an admitted pod.
pub(super) fn list(remedies: &Remedies, width: usize) -> String {
    if remedies.decision.is_admitted() {
        return String::new();
    }
    let mut text = String::new();
    if let OnEmptyNode::Never { largest } = &remedies.on_empty_node {
        text.push_str("\nDoes not fit this machine, even without other pods.\n");
        if largest
            .iter()
            .map(|remedy| &remedy.alteration)
            .ne(pod_changes(remedies))
        {
            text.push_str(&numbered(
                "Largest amounts that fit the empty machine",
                largest,
                width,
            ));
        }
    }
    if remedies.fitting.is_empty() {
        let nothing = match remedies.complete {
            true => {
                "No remedy was found: no other amount of one resource, no move or eviction of running pods, no weaker policy."
            }
            false => "No remedy was found, but not all were tried.",
        };
        text.push('\n');
        text.push_str(&wrap(nothing, 0, width));
        return text;
    }
    text.push_str(&numbered("What would fit", &remedies.fitting, width));
    if !remedies.complete {
        text.push_str("Not all changes were tried; smaller ones may fit.\n");
    }
    text
}

fn pod_changes(remedies: &Remedies) -> impl Iterator<Item = &Alteration> {
    let changes = remedies.fitting.iter().map(|remedy| &remedy.alteration);
    changes.filter(|change| matches!(change, Alteration::Request(_)))
}

fn numbered(title: &str, remedies: &[Remedy], width: usize) -> String {
    let mut text = format!("\n{title}\n");
    for (index, remedy) in remedies.iter().enumerate() {
        let line = line(remedy);
        let lead = format!("{:>2}. ", index + 1);
        text.push_str(&paragraph(&lead, &line, lead.len(), width));
    }
    text
}

/// A remedy in one line: the change, and the NUMA nodes that the pod gets with it.
#[must_use]
pub fn line(remedy: &Remedy) -> String {
    format!("{}{}", what(&remedy.alteration), place(&remedy.assignment))
}

fn what(alteration: &Alteration) -> String {
    match alteration {
        Alteration::Request(changes) => match &changes[..] {
            [change] => one(change),
            changes => {
                let parts = changes.iter().map(|change| {
                    let container = change
                        .container
                        .as_ref()
                        .map_or("pod", |name| name.as_str());
                    format!("{container} {}", change.to)
                });
                format!(
                    "CPUs of all containers: {}",
                    parts.collect::<Vec<_>>().join(", ")
                )
            }
        },
        Alteration::Move(plan) => moves::what(plan),
        Alteration::Evict(pods) => {
            let names: Vec<&str> = pods.iter().map(called).collect();
            format!(
                "evict {} {}",
                if pods.len() == 1 { "pod" } else { "pods" },
                names.join(", ")
            )
        }
        Alteration::Policy { from, to } => format!("policy {to} instead of {from}"),
        Alteration::Scope { from, to } => format!("scope {to} instead of {from}"),
        Alteration::OptionOff { of, name } => {
            let of = match of {
                OptionOwner::CpuManager => "CPU manager",
                OptionOwner::TopologyManager => "topology manager",
            };
            format!("without the {of} option {name}")
        }
    }
}

fn one(change: &RequestChange) -> String {
    let whose = match &change.container {
        Some(name) => format!("container {name}"),
        None => "the pod".to_owned(),
    };
    let from = match change.manager {
        ResourceManager::Device => change.from.to_string(),
        ResourceManager::Cpu | ResourceManager::Memory => amount_of(change.manager, change.from),
    };
    if change.to == 0 {
        return format!("{whose} without {} (requests {from})", change.resource);
    }
    let to = bare(change.manager, change.to);
    format!("{} of {whose}: {to} instead of {from}", change.resource)
}

/// The NUMA nodes of an assignment in parentheses; empty without an affinity.
fn place(assignment: &Assignment) -> String {
    let aligned = || {
        let hints = assignment.containers.iter().map(|one| one.affinity);
        hints.filter_map(|hint| Some((hint.mask?, hint.preferred)))
    };
    let nodes = aligned().fold(NodeSet::EMPTY, |all, (mask, _)| all | mask);
    let preferred = aligned().all(|(_, preferred)| preferred);
    match nodes.is_empty() {
        true => String::new(),
        false => format!(" ({})", phrases::aligned(nodes, preferred)),
    }
}
