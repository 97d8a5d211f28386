//! Distributes a pod's requests over the NUMA nodes of a hint.
//!
//! Mirrors `tryBestToDistributeEvenly`: each NUMA node in turn provides an equal part of the missing amount, or all
//! that it has free if that is less. The CPU of a pod that binds CPUs is split into whole CPUs, or into whole cores if
//! those are required. The last NUMA node also provides the remainder of rounding.
//!
//! Koordinator intends to start with the NUMA node that has the least free, but its comparison uses positions in the
//! list as NUMA ids and ignores its own swaps; exact mode repeats that (with an insertion sort, as Go sorts up to
//! twelve elements).

use crate::koordinator::KoordinatorDefects;
use smallvec::SmallVec;

use super::{Allocator, MILLI, NodeAmounts};
use crate::koordinator::amounts::{Amounts, ByNode, CPU, ResourceKey};
use crate::koordinator::hints::NumaNeed;
use crate::koordinator::rejection::{FrameworkCode, KoordinatorReason, KoordinatorRejection};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::{NodeId, NodeSet};

/// One requested resource and its free amount on each NUMA node.
#[derive(Debug)]
pub(super) struct ResourceRow<'a> {
    name: &'a ResourceName,
    requested: i64,
    /// Whether any NUMA node reports the resource; other resources are not allocated per NUMA node.
    reported: bool,
    free: ByNode,
}

impl ResourceRow<'_> {
    pub(super) fn is_cpu(&self) -> bool {
        self.name.as_str() == CPU
    }
}

/// The amount of one resource that one NUMA node provides.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumaShare {
    pub(super) row: usize,
    pub(super) node: NodeId,
    pub(super) amount: i64,
}

pub(super) type NumaShares = SmallVec<[NumaShare; 16]>;

/// One row per requested resource.
pub(super) fn rows<'a>(allocator: &Allocator<'a>) -> SmallVec<[ResourceRow<'a>; 4]> {
    let request = allocator.request;
    let requests: &'a Amounts = if request.bind {
        request.plain_requests
    } else {
        request.requests
    };
    let row = |(name, requested): (&'a ResourceName, i64)| {
        let mut row = ResourceRow {
            name,
            requested,
            reported: false,
            free: ByNode::default(),
        };
        let key = ResourceKey::from(name.as_str());
        for part in &allocator.free {
            let amount = part.entry(key);
            row.reported |= amount.is_some();
            row.free.set(part.node, amount.unwrap_or(0));
        }
        row
    };
    requests.iter().map(row).collect()
}

impl Allocator<'_> {
    /// Whether distributing always succeeds on NUMA nodes with large enough totals, and every NUMA node then has the
    /// CPUs of its share. The shares grow from the NUMA node with the least free, so that nothing remains at the last
    /// one; if the pod binds CPUs, that holds if all amounts are multiples of the same unit.
    pub(super) fn totals_decide(&self) -> bool {
        let fidelity = self.fidelity;
        let is_special =
            !self.request.offered.is_empty() || self.rows.iter().any(|row| row.requested < 0);
        if is_special || fidelity.sorts_numa_nodes_by_position() {
            return false;
        }
        if !self.request.bind {
            return true;
        }
        if fidelity.trusts_numa_totals()
            || fidelity.ignores_amplified_share()
            || fidelity.measures_cores_by_average()
        {
            return false;
        }
        let unit = self.unit().saturating_mul(MILLI);
        let whole = |row: &ResourceRow<'_>| {
            let mut nodes = self.free.iter().map(|part| part.node.index());
            nodes.all(|node| row.free.at(node) % unit == 0)
        };
        let cpu = self.rows.iter().find(|row| row.is_cpu());
        cpu.is_some_and(|cpu| {
            cpu.reported
                && cpu.requested > 0
                && cpu.requested % unit == 0
                && cpu.requested == super::to_milli(self.request.cpus)
                && whole(cpu)
        })
    }

    /// Whether the free totals of these NUMA nodes suffice for every resource.
    pub(super) fn suffice(&self, nodes: NodeSet) -> bool {
        let mut rows = self.rows.iter();
        rows.all(|row| !row.reported || row.free.sum(nodes) >= row.requested)
    }

    /// Whether the free totals of a set of NUMA nodes alone decide whether the pod fits it.
    #[must_use]
    pub(crate) fn only_totals_decide(&self) -> bool {
        let counts = (self.node.topology).is_some_and(|topology| self.can_count(topology));
        self.totals_decide && self.pools.is_none() && counts
    }

    /// The free totals that a set of NUMA nodes must have for the pod to fit; `None` if totals alone do not decide.
    #[must_use]
    pub fn needs(&self) -> Option<SmallVec<[NumaNeed; 2]>> {
        if !self.only_totals_decide() {
            return None;
        }
        let reported = self.rows.iter().filter(|row| row.reported);
        let need = |row: &ResourceRow<'_>| NumaNeed {
            requested: row.requested,
            free: row.free.clone(),
        };
        Some(reported.map(need).collect())
    }

    /// Distributes all requests and fills `shares`; `false` if some amount is missing.
    pub(super) fn distribute(&self, nodes: NodeSet, shares: &mut NumaShares) -> bool {
        self.suffice(nodes) && (0..self.rows.len()).all(|row| self.spread(row, nodes, shares) == 0)
    }

    /// The rejection that lists the resources of which the NUMA nodes do not have enough.
    pub(super) fn shortage(&self, nodes: NodeSet) -> KoordinatorRejection {
        let mut ignored = NumaShares::new();
        let missing =
            (0..self.rows.len()).filter(|&row| self.spread(row, nodes, &mut ignored) != 0);
        let reasons =
            missing.map(|row| KoordinatorReason::InsufficientNuma(self.rows[row].name.clone()));
        KoordinatorRejection {
            code: FrameworkCode::Unschedulable,
            reasons: reasons.collect(),
        }
    }

    /// Distributes one resource; returns the missing amount.
    fn spread(&self, at: usize, nodes: NodeSet, shares: &mut NumaShares) -> i64 {
        let row = &self.rows[at];
        if !row.reported {
            return 0;
        }
        let mut missing = row.requested;
        let order = self.order(row, nodes);
        for (done, &node) in order.iter().enumerate() {
            let part = self.part(row, missing, order.len() - done);
            let amount = part.min(row.free.at(node.index()));
            if amount != 0 {
                shares.push(NumaShare {
                    row: at,
                    node,
                    amount,
                });
                missing = missing.saturating_sub(amount);
            }
        }
        missing
    }

    /// The order in which NUMA nodes provide their shares.
    fn order(&self, row: &ResourceRow<'_>, nodes: NodeSet) -> SmallVec<[NodeId; 8]> {
        let mut order: SmallVec<[NodeId; 8]> = nodes.iter().collect();
        if !self.fidelity.sorts_numa_nodes_by_position() {
            order.sort_by_key(|node| row.free.at(node.index()));
            return order;
        }
        for end in 1..order.len() {
            for at in (1..=end).rev() {
                if row.free.at(at) >= row.free.at(at - 1) {
                    break;
                }
                order.swap(at, at - 1);
            }
        }
        order
    }

    /// An equal part of `missing` for the next of `nodes` remaining NUMA nodes.
    fn part(&self, row: &ResourceRow<'_>, missing: i64, nodes: usize) -> i64 {
        let nodes = i64::try_from(nodes).unwrap_or(i64::MAX).max(1);
        if !row.is_cpu() || !self.request.bind {
            return missing / nodes;
        }
        let (cpus, unit) = (round_up(missing), self.unit());
        (cpus / unit / nodes * unit).saturating_mul(MILLI)
    }

    /// The number of CPUs that a NUMA node assigns at once: those of a core if whole cores are required, else 1.
    fn unit(&self) -> i64 {
        match (self.needs_whole_cores(), self.node.topology) {
            (true, Some(topology)) => i64::try_from(topology.cpus_per_core()).unwrap_or(1).max(1),
            _ => 1,
        }
    }

    /// The shares as amounts per NUMA node.
    pub(super) fn amounts_of(&self, shares: &NumaShares) -> Vec<NodeAmounts> {
        let mut nodes: Vec<NodeAmounts> = Vec::new();
        for share in shares {
            let at = match nodes.binary_search_by_key(&share.node, |part| part.node) {
                Ok(at) => at,
                Err(at) => {
                    let part = NodeAmounts {
                        node: share.node,
                        amounts: Amounts::new(),
                    };
                    nodes.insert(at, part);
                    at
                }
            };
            nodes[at]
                .amounts
                .set(self.rows[share.row].name, share.amount);
        }
        nodes
    }
}

/// Milli-CPUs as whole CPUs, rounded away from zero.
fn round_up(milli: i64) -> i64 {
    let whole = milli / MILLI;
    whole + (milli % MILLI).signum()
}
