//! [`Blame`]: what a kubelet's rejection comes down to, in a few words that are the same for equal troubles.

use std::fmt;

use crate::cpu::CpuError;
use crate::decision::Decision;
use crate::explanation::{Alignment, Cause, ResourceFacts};
use crate::name::ResourceName;
use crate::policy::TopologyPolicy;
use crate::quantity::Quantity;

/// What was missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blame {
    /// So few NUMA nodes do not have enough of one resource.
    Aligned {
        /// The resource.
        resource: ResourceName,
        /// How much was asked for: CPUs, bytes or devices.
        asked: u64,
        /// On how many NUMA nodes it has to fit.
        nodes: usize,
        /// The most that so many of them have free.
        most: u64,
    },
    /// Each resource is there, but not on the same NUMA nodes.
    Together(Vec<ResourceName>),
    /// Only whole cores are handed out, and the request ends inside one. No other pod is to blame.
    PartOfCore {
        /// CPUs asked for.
        asked: usize,
        /// CPUs of a core.
        per_core: usize,
    },
    /// Only whole cores are handed out, and too few are.
    WholeCores {
        /// CPUs asked for.
        asked: usize,
        /// CPUs of cores that are free as a whole.
        free: usize,
    },
    /// The node as a whole does not have enough that can be handed out.
    Whole {
        /// The resource.
        resource: ResourceName,
        /// How much was asked for.
        asked: u64,
        /// How much could be handed out.
        free: u64,
    },
}

impl Blame {
    /// What is to blame for a rejection; `None` if the facts do not tell.
    #[must_use]
    pub fn of(decision: &Decision) -> Option<Self> {
        let explanation = &decision.explanation;
        if let Some(failed) = explanation.alignments.last().filter(|last| !last.admitted) {
            return aligned(failed, explanation.policy);
        }
        match explanation.cause {
            Some(Cause::Cpu(CpuError::NotWholeCores {
                requested,
                per_core,
            })) => {
                return Some(Blame::PartOfCore {
                    asked: requested,
                    per_core,
                });
            }
            Some(Cause::Cpu(CpuError::TooFewWholeCores {
                requested,
                available,
                ..
            })) => {
                return Some(Blame::WholeCores {
                    asked: requested,
                    free: available,
                });
            }
            _ => {}
        }
        let short = explanation.shortage.iter();
        let mut short = short.filter(|facts| facts.requested > facts.free);
        let facts = short.next().or_else(|| explanation.shortage.first())?;
        Some(Blame::Whole {
            resource: facts.resource.clone(),
            asked: facts.requested,
            free: facts.free,
        })
    }

    /// Whether the pod would be rejected by an empty node as well.
    #[must_use]
    pub fn is_for_good(&self) -> bool {
        matches!(self, Blame::PartOfCore { .. })
    }
}

fn aligned(failed: &Alignment, policy: TopologyPolicy) -> Option<Blame> {
    for facts in &failed.resources {
        // As few NUMA nodes as an empty machine needs, or one where the policy says so.
        let width = match policy {
            TopologyPolicy::SingleNumaNode => 1,
            _ => width(facts)?,
        };
        let most = of_best(facts.nodes.iter().map(|node| node.free), width)
            .saturating_add(facts.without_topology.free);
        if facts.requested > most {
            return Some(Blame::Aligned {
                resource: facts.resource.clone(),
                asked: facts.requested,
                nodes: width,
                most,
            });
        }
    }
    let resources = failed.resources.iter().map(|facts| facts.resource.clone());
    let resources: Vec<ResourceName> = resources.collect();
    (!resources.is_empty()).then_some(Blame::Together(resources))
}

/// The fewest NUMA nodes that could have so much on an empty machine; all if none could.
fn width(facts: &ResourceFacts) -> Option<usize> {
    let most = facts.nodes.len();
    let enough = |width: &usize| {
        of_best(facts.nodes.iter().map(|node| node.total), *width) >= facts.requested
    };
    (1..=most).find(enough).or((most > 0).then_some(most))
}

fn of_best(amounts: impl Iterator<Item = u64>, width: usize) -> u64 {
    let mut amounts: Vec<u64> = amounts.collect();
    amounts.sort_unstable_by(|one, other| other.cmp(one));
    amounts
        .iter()
        .take(width)
        .fold(0, |sum, more| sum.saturating_add(*more))
}

/// Bytes are rounded down to whole GiB, so that nearly equal troubles have equal words.
fn amount(resource: &ResourceName, amount: u64, is_left: bool) -> String {
    const GIB: u64 = 1 << 30;
    let name = resource.as_str();
    if name != "memory" && !name.starts_with("hugepages-") {
        return amount.to_string();
    }
    match is_left {
        true if amount < GIB => "less than 1Gi".to_owned(),
        true => format!("{}Gi", amount / GIB),
        false => Quantity::bytes(i64::try_from(amount).unwrap_or(i64::MAX)).to_string(),
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blame::Aligned {
                resource,
                asked,
                nodes,
                most,
            } => {
                let (asked, most) = (
                    amount(resource, *asked, false),
                    amount(resource, *most, true),
                );
                let places = match nodes {
                    1 => "one NUMA node".to_owned(),
                    more => format!("{more} NUMA nodes"),
                };
                write!(
                    f,
                    "{resource}: {asked} asked, at most {most} free on {places}"
                )
            }
            Blame::Together(resources) => {
                let names: Vec<&str> = resources.iter().map(ResourceName::as_str).collect();
                write!(f, "{} not free on the same NUMA nodes", names.join(" and "))
            }
            Blame::PartOfCore { asked, per_core } => write!(
                f,
                "cpu: {asked} asked, and only whole cores of {per_core} CPUs are handed out"
            ),
            Blame::WholeCores { asked, free } => {
                write!(f, "cpu: {asked} asked, {free} free on whole cores")
            }
            Blame::Whole {
                resource,
                asked,
                free,
            } => {
                let (asked, free) = (
                    amount(resource, *asked, false),
                    amount(resource, *free, true),
                );
                write!(f, "{resource}: {asked} asked, {free} can be handed out")
            }
        }
    }
}
