//! Why NUMA nodes were chosen, and why they are not preferred.

use pinfold_core::decision::ResourceManager;
use pinfold_core::explanation::{Alignment, MemoryGrouping, NodeFacts, ResourceFacts};
use pinfold_core::merge::{HintSummary, MergeRule, NoPreferred};
use pinfold_core::policy::TopologyPolicy;

use super::phrases::{amount_of, bare, nodes, plural};

/// The maximum number of NUMA nodes listed in a sentence.
const LISTED: usize = 8;

/// Why a container or pod was placed on its NUMA nodes.
pub(super) fn placed(policy: TopologyPolicy, alignment: &Alignment) -> String {
    let place = alignment
        .hint
        .mask
        .map_or_else(|| "any NUMA node fits".to_owned(), nodes);
    let merge = &alignment.merge;
    let closest = match merge.distance {
        Some(distance) if distance.sum == distance.at_least => ", the closest such nodes",
        _ => "",
    };
    let best = plural(merge.best_width as u64, "NUMA node", "NUMA nodes");
    let why = match merge.decided_by {
        MergeRule::NoPolicy => return "not aligned: the policy is none".to_owned(),
        MergeRule::Preferred if alignment.hint.mask.is_none() => return place,
        MergeRule::Preferred => return format!("all resources fit {place}{closest}"),
        MergeRule::BestWidth => {
            format!("{place}: {best}, the fewest that fit the most demanding resource{closest}")
        }
        MergeRule::Narrower => {
            format!("{place}: one resource needs {best}, but the resources have no more in common")
        }
        MergeRule::Wider => format!("{place}: no set of {best} or fewer fits all resources"),
        MergeRule::NoCommonNode => {
            "the resources have no NUMA node in common; each is allocated where it fits".to_owned()
        }
    };
    format!("{why}; not preferred: {}", not_preferred(policy, alignment))
}

/// Why no NUMA nodes are preferred by all resources.
pub(super) fn not_preferred(policy: TopologyPolicy, alignment: &Alignment) -> String {
    let named = |index: usize| match facts_of(alignment, index) {
        Some(facts) => facts.resource.to_string(),
        None => manager_of(alignment, index).to_owned(),
    };
    match alignment.merge.no_preferred {
        Some(NoPreferred::Unsatisfiable { resource }) => match facts_of(alignment, resource) {
            Some(facts) => cannot(facts),
            None => format!("{} is not available", named(resource)),
        },
        Some(NoPreferred::PrefersNothing { resource }) => match facts_of(alignment, resource) {
            Some(facts) if policy == TopologyPolicy::SingleNumaNode => lack(alignment, facts, 1),
            Some(facts) => match facts.hints {
                Some(HintSummary::Masks { narrowest, .. }) => format!(
                    "{} needs {} now, more than an empty machine would need",
                    facts.resource,
                    plural(narrowest.at_least as u64, "NUMA node", "NUMA nodes")
                ),
                _ => format!("{} prefers no NUMA node", facts.resource),
            },
            None => format!("{} prefers no NUMA node", named(resource)),
        },
        Some(NoPreferred::TooNarrow { resource }) => match facts_of(alignment, resource) {
            Some(facts) => {
                let width = preferred_width(facts).unwrap_or(1);
                let prefers = plural(width as u64, "NUMA node", "NUMA nodes");
                format!("{} prefers {prefers}, but {}", facts.resource, lack(alignment, facts, width))
            }
            None => format!("{} needs more NUMA nodes than it prefers", named(resource)),
        },
        Some(NoPreferred::DifferentWidths { resource, other }) => {
            let width = |index| facts_of(alignment, index).and_then(preferred_width);
            match (width(resource), width(other)) {
                (Some(one), Some(two)) => format!(
                    "{} prefers {}, but {} prefers {two}",
                    named(resource),
                    plural(one as u64, "NUMA node", "NUMA nodes"),
                    named(other)
                ),
                _ => format!("{} and {} prefer different numbers of NUMA nodes", named(resource), named(other)),
            }
        }
        Some(NoPreferred::NoCommonMask) => no_common(alignment),
        Some(NoPreferred::BudgetExhausted) => {
            "no NUMA nodes that all resources prefer were found within the step budget; some may exist".to_owned()
        }
        None => "the resources cannot be aligned".to_owned(),
    }
}

fn facts_of(alignment: &Alignment, index: usize) -> Option<&ResourceFacts> {
    alignment
        .resources
        .iter()
        .find(|facts| facts.merge_index == Some(index))
}

/// The name of a resource of which only the manager is known.
fn manager_of(alignment: &Alignment, index: usize) -> &'static str {
    let provider = alignment
        .merge
        .resources
        .get(index)
        .map(|resource| resource.provider);
    match provider.and_then(|provider| ResourceManager::ALL.get(provider)) {
        Some(ResourceManager::Device) => "a device",
        Some(ResourceManager::Cpu) => "cpu",
        Some(ResourceManager::Memory) => "memory",
        None => "a resource",
    }
}

fn preferred_width(facts: &ResourceFacts) -> Option<usize> {
    match facts.hints {
        Some(HintSummary::Masks {
            preferred_width, ..
        }) => preferred_width,
        _ => None,
    }
}

/// A resource that fits on no set of NUMA nodes.
pub(super) fn cannot(facts: &ResourceFacts) -> String {
    let (requested, manager) = (amount_of(facts.manager, facts.requested), facts.manager);
    if facts.free >= facts.requested {
        return format!(
            "no set of NUMA nodes fits {requested} of {}",
            facts.resource
        );
    }
    let there = match (facts.free, facts.total) {
        (_, 0) => "the machine has none".to_owned(),
        (0, total) => format!("none of {} is free", bare(manager, total)),
        (free, total) if free == total => format!("the machine has only {}", bare(manager, total)),
        (free, total) => format!(
            "only {} of {} {} free",
            bare(manager, free),
            bare(manager, total),
            match (manager, free) {
                (ResourceManager::Memory, _) | (_, 1) => "is",
                _ => "are",
            }
        ),
    };
    format!("{}: {requested} requested, but {there}", facts.resource)
}

/// Why no `width` NUMA nodes fit a resource.
fn lack(alignment: &Alignment, facts: &ResourceFacts, width: usize) -> String {
    let subject = match width {
        1 => "no single NUMA node".to_owned(),
        more => format!("no {more} NUMA nodes together"),
    };
    let unit = match facts.manager {
        ResourceManager::Cpu if facts.requested == 1 => "1 free CPU".to_owned(),
        ResourceManager::Cpu => format!("{} free CPUs", facts.requested),
        ResourceManager::Memory => format!(
            "{} free {}",
            amount_of(facts.manager, facts.requested),
            facts.resource
        ),
        ResourceManager::Device => format!("{} free {}", facts.requested, facts.resource),
    };
    let has = if width == 1 { "has" } else { "have" };
    let mut amounts: Vec<u64> = facts.nodes.iter().map(|node| node.free).collect();
    amounts.sort_unstable_by(|a, b| b.cmp(a));
    let best = amounts
        .iter()
        .take(width)
        .fold(0, |sum: u64, &free| sum.saturating_add(free));
    if best < facts.requested {
        return format!("{subject} {has} {unit}: {}", each(facts));
    }
    // There is enough, but memory groups prevent its use.
    let bound = facts
        .nodes
        .iter()
        .filter(|node| node.grouping != MemoryGrouping::Unrestricted);
    let bound: Vec<String> = bound.take(LISTED).map(binding).collect();
    if !bound.is_empty() {
        return format!("{subject} can be used for {unit}: {}", bound.join(", "));
    }
    let others: Vec<&ResourceFacts> = alignment
        .resources
        .iter()
        .filter(|other| {
            other.manager == ResourceManager::Memory && facts.manager == ResourceManager::Memory
        })
        .collect();
    match others.len() {
        0 | 1 => format!("{subject} fits {unit}: {}", each(facts)),
        _ => {
            let all: Vec<String> = others
                .iter()
                .map(|other| {
                    format!(
                        "{} {}",
                        amount_of(other.manager, other.requested),
                        other.resource
                    )
                })
                .collect();
            format!("{subject} {has} {} together", all.join(" and "))
        }
    }
}

/// How allocated memory restricts the use of a node.
pub(super) fn binding(node: &NodeFacts) -> String {
    match node.grouping {
        MemoryGrouping::Unrestricted => format!("node {} is unrestricted", node.node),
        MemoryGrouping::SingleNodeOnly => {
            format!(
                "node {} has single-node assignments and can only be used alone",
                node.node
            )
        }
        MemoryGrouping::Group(group) => format!(
            "node {} can only be used as part of {}",
            node.node,
            nodes(group)
        ),
    }
}

/// `node 0 has 3, node 1 has 5`.
pub(super) fn each(facts: &ResourceFacts) -> String {
    let with = facts.nodes.iter().filter(|node| node.total > 0);
    let shown = with.clone().take(LISTED);
    let mut parts: Vec<String> = shown
        .map(|node| format!("node {} has {}", node.node, bare(facts.manager, node.free)))
        .collect();
    let more = with.count().saturating_sub(LISTED);
    if more > 0 {
        parts.push(format!("{more} more nodes"));
    }
    if facts.without_topology.total > 0 {
        parts.push(format!(
            "{} without a NUMA node",
            facts.without_topology.free
        ));
    }
    match parts.is_empty() {
        true => "no node has any".to_owned(),
        false => parts.join(", "),
    }
}

/// All resources prefer some NUMA nodes, but not the same ones.
fn no_common(alignment: &Alignment) -> String {
    let fitting = alignment
        .resources
        .iter()
        .filter(|facts| preferred_width(facts) == Some(1));
    let hints = |facts: &ResourceFacts| {
        let enough = facts
            .nodes
            .iter()
            .filter(|node| node.free >= facts.requested);
        let usable = enough.filter(|node| !matches!(node.grouping, MemoryGrouping::Group(_)));
        format!(
            "{} fits on {}",
            facts.resource,
            nodes(usable.map(|node| node.node).collect())
        )
    };
    let fitting: Vec<String> = fitting.map(hints).collect();
    match fitting.len() {
        0 | 1 => "no set of NUMA nodes is preferred by all resources".to_owned(),
        _ => format!("no NUMA node fits all resources: {}", fitting.join(", ")),
    }
}
