//! [`RejectionSummary`]: the resource that a kubelet's rejection is due to, as one short line that is equal for equal
//! causes.

use std::fmt;

use pinfold_core::cover::{fewest, largest_sums};
use pinfold_core::cpu::CpuError;
use pinfold_core::decision::Decision;
use pinfold_core::explanation::{Alignment, Cause};
use pinfold_core::name::ResourceName;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;

/// The resource that was missing when a kubelet rejected a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RejectionSummary {
    /// The NUMA nodes that the policy allows do not have enough of one resource.
    Aligned {
        /// The resource.
        resource: ResourceName,
        /// The requested amount: CPUs, bytes or devices.
        requested: u64,
        /// The number of NUMA nodes that it has to fit on.
        nodes: usize,
        /// The largest amount that is free on that many NUMA nodes.
        most: u64,
    },
    /// There is enough of each resource, but not on the same NUMA nodes.
    Together(Vec<ResourceName>),
    /// `full-pcpus-only`: the request is not a multiple of the CPUs of a core. An empty node would reject it too.
    PartOfCore {
        /// The requested CPUs.
        requested: usize,
        /// The number of CPUs of a core.
        per_core: usize,
    },
    /// `full-pcpus-only`: too few whole cores are free.
    WholeCores {
        /// The requested CPUs.
        requested: usize,
        /// The number of CPUs of cores that are free as a whole.
        free: usize,
    },
    /// The node as a whole does not have enough allocatable amounts free.
    Whole {
        /// The resource.
        resource: ResourceName,
        /// The requested amount.
        requested: u64,
        /// The free amount.
        free: u64,
    },
}

impl RejectionSummary {
    /// The cause of a rejection; `None` if the explanation does not say.
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
                return Some(RejectionSummary::PartOfCore {
                    requested,
                    per_core,
                });
            }
            Some(Cause::Cpu(CpuError::TooFewWholeCores {
                requested,
                available,
                ..
            })) => {
                return Some(RejectionSummary::WholeCores {
                    requested,
                    free: available,
                });
            }
            _ => {}
        }
        let short = explanation.shortage.iter();
        let mut short = short.filter(|facts| facts.requested > facts.free);
        let facts = short.next().or_else(|| explanation.shortage.first())?;
        Some(RejectionSummary::Whole {
            resource: facts.resource.clone(),
            requested: facts.requested,
            free: facts.free,
        })
    }

    /// Whether an empty node would reject the pod as well.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, RejectionSummary::PartOfCore { .. })
    }
}

fn aligned(failed: &Alignment, policy: TopologyPolicy) -> Option<RejectionSummary> {
    for facts in &failed.resources {
        // As many NUMA nodes as an empty machine needs, or one under `single-numa-node`.
        let width = match policy {
            TopologyPolicy::SingleNumaNode => 1,
            _ if facts.nodes.is_empty() => return None,
            _ => fewest(facts.nodes.iter().map(|node| node.total), facts.requested),
        };
        let free = largest_sums(facts.nodes.iter().map(|node| node.free));
        let most = free.iter().take(width).next_back().copied().unwrap_or(0);
        let most = most.saturating_add(facts.without_topology.free);
        if facts.requested > most {
            return Some(RejectionSummary::Aligned {
                resource: facts.resource.clone(),
                requested: facts.requested,
                nodes: width,
                most,
            });
        }
    }
    let resources = failed.resources.iter().map(|facts| facts.resource.clone());
    let resources: Vec<ResourceName> = resources.collect();
    (!resources.is_empty()).then_some(RejectionSummary::Together(resources))
}

/// The text of an amount. Free bytes are rounded down to whole GiB, so that nearly equal causes have equal texts.
fn amount(resource: &ResourceName, amount: u64, is_free: bool) -> String {
    const GIB: u64 = 1 << 30;
    let name = resource.as_str();
    if name != "memory" && !name.starts_with("hugepages-") {
        return amount.to_string();
    }
    match is_free {
        true if amount < GIB => "less than 1Gi".to_owned(),
        true => format!("{}Gi", amount / GIB),
        false => Quantity::bytes(i64::try_from(amount).unwrap_or(i64::MAX)).to_string(),
    }
}

impl fmt::Display for RejectionSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RejectionSummary::Aligned {
                resource,
                requested,
                nodes,
                most,
            } => {
                let (requested, most) = (
                    amount(resource, *requested, false),
                    amount(resource, *most, true),
                );
                let places = match nodes {
                    1 => "one NUMA node".to_owned(),
                    more => format!("{more} NUMA nodes"),
                };
                write!(
                    f,
                    "{resource}: {requested} asked, at most {most} free on {places}"
                )
            }
            RejectionSummary::Together(resources) => {
                let names: Vec<&str> = resources.iter().map(ResourceName::as_str).collect();
                write!(f, "{} not free on the same NUMA nodes", names.join(" and "))
            }
            RejectionSummary::PartOfCore {
                requested,
                per_core,
            } => write!(
                f,
                "cpu: {requested} asked, and only whole cores of {per_core} CPUs are assigned"
            ),
            RejectionSummary::WholeCores { requested, free } => {
                write!(f, "cpu: {requested} asked, {free} free on whole cores")
            }
            RejectionSummary::Whole {
                resource,
                requested,
                free,
            } => {
                let (requested, free) = (
                    amount(resource, *requested, false),
                    amount(resource, *free, true),
                );
                write!(f, "{resource}: {requested} asked, {free} free")
            }
        }
    }
}
