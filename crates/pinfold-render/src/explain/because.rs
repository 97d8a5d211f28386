//! Why a placement is what it is, and why it is not a preferred one.

use pinfold_core::decision::Manager;
use pinfold_core::explanation::{Alignment, Bound, NodeFacts, ResourceFacts};
use pinfold_core::merge::{NoPreferred, Rule, Wish};
use pinfold_core::policy::TopologyPolicy;

use super::words::{amount_of, bare, nodes, plural};

/// How many NUMA nodes a sentence lists.
const LISTED: usize = 8;

/// Why a container or pod went where it went.
pub(super) fn placed(policy: TopologyPolicy, alignment: &Alignment) -> String {
    let place = alignment
        .hint
        .mask
        .map_or_else(|| "any NUMA node will do".to_owned(), nodes);
    let merge = &alignment.merge;
    let closest = match merge.distance {
        Some(distance) if distance.sum == distance.at_least => ", the closest such nodes",
        _ => "",
    };
    let best = plural(merge.best_width as u64, "NUMA node", "NUMA nodes");
    let why = match merge.decided_by {
        Rule::NoPolicy => return "not aligned: the policy is none".to_owned(),
        Rule::Preferred if alignment.hint.mask.is_none() => return place,
        Rule::Preferred => return format!("{place}: every resource prefers that{closest}"),
        Rule::BestWidth => {
            format!("{place}: {best}, as few as the neediest resource can do with{closest}")
        }
        Rule::Narrower => format!(
            "{place}: the neediest resource needs {best}, but all have no more than this in common"
        ),
        Rule::Wider => format!("{place}: nothing of {best} or fewer suits all"),
        Rule::NothingLeft => {
            "the resources have no NUMA node in common; they go wherever they fit".to_owned()
        }
    };
    format!("{why}; not preferred: {}", not_preferred(policy, alignment))
}

/// Why no placement is preferred by all resources.
pub(super) fn not_preferred(policy: TopologyPolicy, alignment: &Alignment) -> String {
    let named = |place: usize| match facts_of(alignment, place) {
        Some(facts) => facts.resource.to_string(),
        None => manager_of(alignment, place).to_owned(),
    };
    match alignment.merge.no_preferred {
        Some(NoPreferred::Cannot { resource }) => match facts_of(alignment, resource) {
            Some(facts) => cannot(facts),
            None => format!("{} cannot be had", named(resource)),
        },
        Some(NoPreferred::PrefersNothing { resource }) => match facts_of(alignment, resource) {
            Some(facts) if policy == TopologyPolicy::SingleNumaNode => lack(alignment, facts, 1),
            Some(facts) => match facts.wish {
                Some(Wish::Masks { narrowest, .. }) => format!(
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
            let width = |place| facts_of(alignment, place).and_then(preferred_width);
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
        Some(NoPreferred::GaveUp) => {
            "no NUMA nodes that all resources prefer were found within the step budget; there may be some".to_owned()
        }
        None => "the resources cannot be aligned".to_owned(),
    }
}

fn facts_of(alignment: &Alignment, place: usize) -> Option<&ResourceFacts> {
    alignment
        .resources
        .iter()
        .find(|facts| facts.place == Some(place))
}

/// What is said of a resource that is known only by its manager.
fn manager_of(alignment: &Alignment, place: usize) -> &'static str {
    let provider = alignment
        .merge
        .resources
        .get(place)
        .map(|brought| brought.provider);
    match provider.and_then(|provider| Manager::ALL.get(provider)) {
        Some(Manager::Device) => "a device",
        Some(Manager::Cpu) => "cpu",
        Some(Manager::Memory) => "memory",
        None => "a resource",
    }
}

fn preferred_width(facts: &ResourceFacts) -> Option<usize> {
    match facts.wish {
        Some(Wish::Masks {
            preferred_width, ..
        }) => preferred_width,
        _ => None,
    }
}

/// A resource that no set of NUMA nodes has.
pub(super) fn cannot(facts: &ResourceFacts) -> String {
    let (asked, manager) = (amount_of(facts.manager, facts.asked), facts.manager);
    if facts.free >= facts.asked {
        return format!(
            "no set of NUMA nodes can serve {asked} of {}",
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
                (Manager::Memory, _) | (_, 1) => "is",
                _ => "are",
            }
        ),
    };
    format!("{}: {asked} asked, but {there}", facts.resource)
}

/// Why no `width` NUMA nodes can serve a resource.
fn lack(alignment: &Alignment, facts: &ResourceFacts, width: usize) -> String {
    let who = match width {
        1 => "no single NUMA node".to_owned(),
        more => format!("no {more} NUMA nodes together"),
    };
    let unit = match facts.manager {
        Manager::Cpu if facts.asked == 1 => "1 free CPU".to_owned(),
        Manager::Cpu => format!("{} free CPUs", facts.asked),
        Manager::Memory => format!(
            "{} free {}",
            amount_of(facts.manager, facts.asked),
            facts.resource
        ),
        Manager::Device => format!("{} free {}", facts.asked, facts.resource),
    };
    let has = if width == 1 { "has" } else { "have" };
    let mut amounts: Vec<u64> = facts.nodes.iter().map(|node| node.free).collect();
    amounts.sort_unstable_by(|a, b| b.cmp(a));
    let best = amounts
        .iter()
        .take(width)
        .fold(0, |sum: u64, &free| sum.saturating_add(free));
    if best < facts.asked {
        return format!("{who} {has} {unit}: {}", each(facts));
    }
    // There is enough, but not where it can be used.
    let bound = facts.nodes.iter().filter(|node| node.bound != Bound::Free);
    let bound: Vec<String> = bound.take(LISTED).map(binding).collect();
    if !bound.is_empty() {
        return format!("{who} can be used for {unit}: {}", bound.join(", "));
    }
    let others: Vec<&ResourceFacts> = alignment
        .resources
        .iter()
        .filter(|other| other.manager == Manager::Memory && facts.manager == Manager::Memory)
        .collect();
    match others.len() {
        0 | 1 => format!("{who} can serve {unit}: {}", each(facts)),
        _ => {
            let all: Vec<String> = others
                .iter()
                .map(|other| {
                    format!(
                        "{} {}",
                        amount_of(other.manager, other.asked),
                        other.resource
                    )
                })
                .collect();
            format!("{who} {has} {} together", all.join(" and "))
        }
    }
}

/// How memory of running pods binds a node.
pub(super) fn binding(node: &NodeFacts) -> String {
    match node.bound {
        Bound::Free => format!("node {} can be used freely", node.node),
        Bound::Alone => format!("node {} is in use and can only be used alone", node.node),
        Bound::Group(group) => format!(
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
    if facts.elsewhere.total > 0 {
        parts.push(format!("{} without a NUMA node", facts.elsewhere.free));
    }
    match parts.is_empty() {
        true => "no node has any".to_owned(),
        false => parts.join(", "),
    }
}

/// Every resource prefers something, but not the same.
fn no_common(alignment: &Alignment) -> String {
    let wishes = alignment
        .resources
        .iter()
        .filter(|facts| preferred_width(facts) == Some(1));
    let wish = |facts: &ResourceFacts| {
        let enough = facts.nodes.iter().filter(|node| node.free >= facts.asked);
        let usable = enough.filter(|node| !matches!(node.bound, Bound::Group(_)));
        format!(
            "{} fits on {}",
            facts.resource,
            nodes(usable.map(|node| node.node).collect())
        )
    };
    let wishes: Vec<String> = wishes.map(wish).collect();
    match wishes.len() {
        0 | 1 => "no set of NUMA nodes is preferred by all resources".to_owned(),
        _ => format!("no NUMA node suits all resources: {}", wishes.join(", ")),
    }
}
