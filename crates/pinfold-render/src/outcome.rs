//! A decision in one line: where a pod went, or what stood in its way.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::{Assignment, Decision, Manager, RefusalReason, Verdict};
use pinfold_core::explanation::{Alignment, ResourceFacts};
use pinfold_core::merge::NoPreferred;
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;
use pinfold_core::policy::TopologyPolicy;

use crate::amount;

/// Where the pod went, or why it could not.
#[must_use]
pub fn line(decision: &Decision) -> String {
    match &decision.verdict {
        Verdict::Admitted(assignment) => placement(assignment),
        Verdict::Refused(_) => why_refused(decision),
    }
}

/// What a pod got, in one line.
#[must_use]
pub fn placement(assignment: &Assignment) -> String {
    let mut nodes = NodeSet::EMPTY;
    let mut cpus = CpuSet::new();
    let mut memory: Vec<(&ResourceName, u64)> = Vec::new();
    let mut devices: Vec<&str> = Vec::new();
    for container in &assignment.containers {
        nodes = nodes | container.affinity.mask.unwrap_or(NodeSet::EMPTY);
        cpus |= container.cpus.as_ref().unwrap_or(&CpuSet::new());
        for block in container
            .memory
            .iter()
            .flatten()
            .filter(|block| block.size > 0)
        {
            nodes = nodes | block.nodes;
            match memory
                .iter_mut()
                .find(|(resource, _)| **resource == block.resource)
            {
                Some((_, sum)) => *sum += block.size,
                None => memory.push((&block.resource, block.size)),
            }
        }
        let ids = container.devices.values().flatten();
        devices.extend(ids.map(|id| id.as_str()));
    }
    if cpus.is_empty() && memory.is_empty() && devices.is_empty() {
        return "shared pool".to_owned();
    }
    devices.sort_unstable();
    devices.dedup();
    let mut words = Vec::new();
    if !nodes.is_empty() {
        words.push(on_nodes(nodes));
    }
    if !cpus.is_empty() {
        words.push(format!("CPUs {cpus}"));
    }
    memory.sort();
    for (resource, bytes) in memory {
        words.push(format!("{resource} {}", amount::bytes(bytes)));
    }
    words.extend(devices.into_iter().map(str::to_owned));
    words.join(", ")
}

/// `node 0`, `nodes 0-1`.
fn on_nodes(nodes: NodeSet) -> String {
    let many = nodes.iter().nth(1).is_some();
    format!("node{} {nodes}", if many { "s" } else { "" })
}

/// What stood in the pod's way, in one sentence without a full stop. Empty for an admitted pod.
#[must_use]
pub fn why_refused(decision: &Decision) -> String {
    let Some(refusal) = decision.refusal() else {
        return String::new();
    };
    let reason = match (refusal.manager, decision.explanation.alignments.last()) {
        (None, Some(alignment)) => misaligned(alignment, decision.explanation.policy),
        (Some(manager), _) if refusal.reason == RefusalReason::UnexpectedAdmissionError => {
            let facts = &decision.explanation.shortage;
            short(facts).unwrap_or_else(|| refusal_words(manager, &refusal.message))
        }
        _ => refusal.message.clone(),
    };
    match &refusal.container {
        Some(container) if many_containers(decision) => format!("container {container}: {reason}"),
        _ => reason,
    }
}

fn many_containers(decision: &Decision) -> bool {
    decision.explanation.alignments.len() > 1
}

fn refusal_words(manager: Manager, message: &str) -> String {
    let who = match manager {
        Manager::Device => "devices",
        Manager::Cpu => "CPUs",
        Manager::Memory => "memory",
    };
    format!("{who}: {message}")
}

/// The first resource of which the machine as a whole has too little.
fn short(facts: &[ResourceFacts]) -> Option<String> {
    let facts = facts.iter().find(|facts| in_all(facts) < facts.asked)?;
    let free = match in_all(facts) {
        0 => "none is free".to_owned(),
        free => format!("{} free", amount_of(facts, free)),
    };
    Some(format!("asks for {}, {free}", named(facts, facts.asked)))
}

fn misaligned(alignment: &Alignment, policy: TopologyPolicy) -> String {
    let facts = alignment.resources.as_slice();
    if let Some(words) = short(facts) {
        return words;
    }
    let alone: Vec<(&ResourceFacts, NodeSet)> = facts
        .iter()
        .filter(|facts| facts.asked > 0)
        .map(|facts| (facts, fits_alone(facts)))
        .collect();
    let one_node = policy == TopologyPolicy::SingleNumaNode;
    let culprit = match alignment.merge.no_preferred {
        Some(
            NoPreferred::Cannot { resource }
            | NoPreferred::PrefersNothing { resource }
            | NoPreferred::TooNarrow { resource },
        ) => wish_of(alignment, resource),
        _ => None,
    };
    let starved = alone.iter().find(|(_, nodes)| nodes.is_empty());
    if let Some((facts, _)) = starved.filter(|_| one_node || culprit.is_some()) {
        let facts = culprit.filter(|_| !one_node).unwrap_or(facts);
        return too_scattered(facts);
    }
    if let Some(facts) = culprit {
        return too_scattered(facts);
    }
    let common = alone
        .iter()
        .fold(NodeSet::FULL, |common, (_, nodes)| common & *nodes);
    if common.is_empty() && alone.iter().all(|(_, nodes)| !nodes.is_empty()) {
        let places: Vec<String> = alone
            .iter()
            .map(|(facts, nodes)| {
                format!("{} fits {}", named(facts, facts.asked), on_nodes(*nodes))
            })
            .collect();
        return format!("no NUMA node has everything: {}", places.join(", "));
    }
    let wanted: Vec<String> = alone
        .iter()
        .map(|(facts, _)| named(facts, facts.asked))
        .collect();
    format!("{} cannot come from the same NUMA nodes", wanted.join(", "))
}

/// The resource at that position of the merge, by its facts.
fn wish_of(alignment: &Alignment, position: usize) -> Option<&ResourceFacts> {
    let wish = alignment.merge.resources.get(position)?.wish;
    let mut same = alignment
        .resources
        .iter()
        .filter(|facts| facts.wish == Some(wish));
    same.next().filter(|_| same.next().is_none())
}

fn too_scattered(facts: &ResourceFacts) -> String {
    let most = facts.nodes.iter().max_by_key(|node| node.free);
    let empty = facts.nodes.iter().filter(|node| node.total >= facts.asked);
    let asked = named(facts, facts.asked);
    let all = amount_of(facts, in_all(facts));
    match most {
        Some(most) if empty.count() > 0 || facts.nodes.len() < 2 => {
            let (free, node) = (amount_of(facts, most.free), most.node);
            format!("no NUMA node has {asked} free: at most {free} on node {node}, {all} in all")
        }
        Some(_) => format!("{asked} are more than one NUMA node has; {all} free in all"),
        None => format!("{asked} cannot be had"),
    }
}

/// What is free on all nodes; devices near several are counted once per node, so this is an upper bound for them.
fn in_all(facts: &ResourceFacts) -> u64 {
    facts.free()
}

fn fits_alone(facts: &ResourceFacts) -> NodeSet {
    let enough = |node: &&pinfold_core::explanation::NodeFacts| {
        node.free.saturating_add(facts.elsewhere) >= facts.asked
    };
    let nodes = facts.nodes.iter().filter(enough);
    nodes.map(|node| node.node).collect()
}

/// `16 CPUs`, `64 GiB of memory`, `2 nvidia.com/gpu`.
fn named(facts: &ResourceFacts, amount: u64) -> String {
    match facts.manager {
        Manager::Cpu if amount == 1 => "1 CPU".to_owned(),
        Manager::Cpu => format!("{amount} CPUs"),
        Manager::Memory => format!("{} of {}", amount::bytes(amount), facts.resource),
        Manager::Device => format!("{amount} {}", facts.resource),
    }
}

fn amount_of(facts: &ResourceFacts, amount: u64) -> String {
    match facts.manager {
        Manager::Memory => amount::bytes(amount),
        Manager::Cpu | Manager::Device => amount.to_string(),
    }
}
