//! Spreading a pod's requests over the NUMA nodes of a hint.
//!
//! Mirrors `tryBestToDistributeEvenly`: each NUMA node in turn gets an equal part of what is still missing, or
//! all it has if that is less. CPU of a pod that binds CPUs is split in whole CPUs, in whole cores where those are
//! required. The last node gets what rounding left over.
//!
//! The original means to start with the node that has the least, but its comparison takes positions in the list for
//! NUMA ids and never follows its own swaps; exact mode repeats that (an insertion sort, as Go sorts
//! up to twelve elements).

use smallvec::SmallVec;

use super::{Allocator, MILLI, NodeAmounts};
use crate::koordinator::amounts::{Amounts, ByNode, CPU, ResourceKey};
use crate::koordinator::hints::NumaNeed;
use crate::koordinator::rejection::{FrameworkCode, KoordinatorReason, KoordinatorRejection};
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};

/// One requested resource and what each NUMA node has left of it, by NUMA id.
#[derive(Debug)]
pub(super) struct ResourceRow<'a> {
    name: &'a ResourceName,
    asked: i64,
    /// Whether any NUMA node knows the resource; the others are not NUMA's business.
    reported: bool,
    free: ByNode,
}

impl ResourceRow<'_> {
    pub(super) fn is_cpu(&self) -> bool {
        self.name.as_str() == CPU
    }
}

/// The part of one resource that one NUMA node gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumaShare {
    pub(super) row: usize,
    pub(super) node: NodeId,
    pub(super) amount: i64,
}

pub(super) type NumaShares = SmallVec<[NumaShare; 16]>;

/// One row per requested resource.
pub(super) fn rows<'a>(allocator: &Allocator<'a>) -> SmallVec<[ResourceRow<'a>; 4]> {
    let ask = allocator.ask;
    let requests: &'a Amounts = if ask.bind {
        ask.plain_requests
    } else {
        ask.requests
    };
    let row = |(name, asked): (&'a ResourceName, i64)| {
        let mut row = ResourceRow {
            name,
            asked,
            reported: false,
            free: ByNode::default(),
        };
        let key = ResourceKey::from(name.as_str());
        for part in &allocator.left {
            let amount = part.entry(key);
            row.reported |= amount.is_some();
            row.free.set(part.node, amount.unwrap_or(0));
        }
        row
    };
    requests.iter().map(row).collect()
}

impl Allocator<'_> {
    /// Whether spreading always succeeds where there is enough in sum, and every NUMA node then has the CPUs of its
    /// share. The parts grow from the NUMA node with the least on, so that nothing is left over at the last; with CPUs of
    /// the pod's own that holds if everything is counted in the same unit.
    pub(super) fn sums_decide(&self) -> bool {
        let fidelity = self.fidelity;
        let odd = !self.ask.offered.is_empty() || self.rows.iter().any(|row| row.asked < 0);
        if odd || fidelity.sorts_numa_nodes_by_position() {
            return false;
        }
        if !self.ask.bind {
            return true;
        }
        if fidelity.trusts_numa_sums()
            || fidelity.forgets_amplified_share()
            || fidelity.measures_cores_by_average()
        {
            return false;
        }
        let unit = self.unit().saturating_mul(MILLI);
        let whole = |row: &ResourceRow<'_>| {
            let mut nodes = self.left.iter().map(|part| part.node.index());
            nodes.all(|node| row.free.at(node) % unit == 0)
        };
        let cpu = self.rows.iter().find(|row| row.is_cpu());
        cpu.is_some_and(|cpu| {
            cpu.reported
                && cpu.asked > 0
                && cpu.asked % unit == 0
                && cpu.asked == super::whole(self.ask.cpus)
                && whole(cpu)
        })
    }

    /// Whether these NUMA nodes have enough of everything in sum.
    pub(super) fn suffice(&self, nodes: NodeSet) -> bool {
        let mut rows = self.rows.iter();
        rows.all(|row| !row.reported || row.free.sum(nodes) >= row.asked)
    }

    /// Whether nothing but what a set of NUMA nodes has in sum decides whether it takes the pod.
    #[must_use]
    pub fn only_sums_decide(&self) -> bool {
        let counts = (self.view.topology).is_some_and(|topology| self.can_count(topology));
        self.sums_decide && counts
    }

    /// What a set of NUMA nodes has to have to take the pod; `None` if more than that decides.
    #[must_use]
    pub fn needs(&self) -> Option<SmallVec<[NumaNeed; 2]>> {
        if !self.only_sums_decide() {
            return None;
        }
        let reported = self.rows.iter().filter(|row| row.reported);
        let need = |row: &ResourceRow<'_>| NumaNeed {
            asked: row.asked,
            free: row.free.clone(),
        };
        Some(reported.map(need).collect())
    }

    /// Fills `shares`; tells whether nothing is missing.
    pub(super) fn distribute(&self, nodes: NodeSet, shares: &mut NumaShares) -> bool {
        self.suffice(nodes) && (0..self.rows.len()).all(|row| self.spread(row, nodes, shares) == 0)
    }

    /// The resources that the NUMA nodes do not hold enough of.
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

    /// Spreads one resource; returns what is missing.
    fn spread(&self, at: usize, nodes: NodeSet, shares: &mut NumaShares) -> i64 {
        let row = &self.rows[at];
        if !row.reported {
            return 0;
        }
        let mut missing = row.asked;
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

    /// The NUMA nodes in the order they are asked.
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

    /// An equal part of `missing` for the next of `nodes` NUMA nodes.
    fn part(&self, row: &ResourceRow<'_>, missing: i64, nodes: usize) -> i64 {
        let nodes = i64::try_from(nodes).unwrap_or(i64::MAX).max(1);
        if !row.is_cpu() || !self.ask.bind {
            return missing / nodes;
        }
        let (cpus, unit) = (round_up(missing), self.unit());
        (cpus / unit / nodes * unit).saturating_mul(MILLI)
    }

    /// How many CPUs of its own a pod gets at once on a NUMA node.
    fn unit(&self) -> i64 {
        match (self.needs_whole_cores(), self.view.topology) {
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

/// Thousandths as whole CPUs, away from zero.
fn round_up(milli: i64) -> i64 {
    let whole = milli / MILLI;
    whole + (milli % MILLI).signum()
}
