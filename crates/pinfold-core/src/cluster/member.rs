//! [`Member`]: one node of a cluster, which decides by its own dialect.

use std::sync::Arc;

use super::ask::PodAsk;
use super::fit::{self, PODS};
use super::states::States;
use super::verdict::{Decided, Fit, Gauge, Rejection, Verdict};
use crate::cpu_set::CpuSet;
use crate::demand::effective_requests;
use crate::fidelity::Fidelity;
use crate::koordinator::amounts::Amounts;
use crate::koordinator::node::Node;
use crate::koordinator::plugin::Args;
use crate::ledger::{Change, Ledger};
use crate::name::PodUid;
use crate::node_set::NodeSet;
use crate::node_topology::replica::Gaps;
use crate::volcano::amounts::{NumaAmounts, Taken};
use crate::volcano::predicate::NumaInfo;

mod koordinator;
mod kubelet;
mod volcano;

/// One node of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    dialect: Dialect,
    /// What the node offers as a whole.
    allocatable: Amounts,
    /// What its pods request together, and how many they are.
    used: Amounts,
    /// What a rebuilt kubelet was not told; where that matters it rejects.
    gaps: Option<Arc<Gaps>>,
}

/// How a node decides.
#[derive(Clone, Debug)]
pub enum Dialect {
    /// As its kubelet will.
    Kubelet(Box<Ledger>),
    /// As Koordinator's scheduler does.
    Koordinator {
        /// The node.
        node: Box<Node>,
        /// The plugin's configuration.
        args: Arc<Args>,
    },
    /// As Volcano's scheduler does.
    Volcano(Box<VolcanoNode>),
    /// Nothing is known about its NUMA nodes: only the sums count.
    Unknown,
}

/// A node under Volcano, with what is still free on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolcanoNode {
    /// Its Numatopology object, if it has one; what is free is told beside it.
    pub numa: Option<Arc<NumaInfo>>,
    /// The CPUs no container owns by now.
    pub free: Option<CpuSet>,
    /// Its memory and devices per NUMA node, as far as they are known.
    pub amounts: NumaAmounts,
    /// The CPUs kept from pods.
    reserved: CpuSet,
    /// Which of two answers to give.
    fidelity: Fidelity,
}

/// What has to be put back to undo one placement.
#[derive(Clone, Debug)]
pub(super) struct Before {
    used: Amounts,
    dialect: DialectBefore,
}

#[derive(Clone, Debug)]
enum DialectBefore {
    Kubelet(Option<Change>),
    Koordinator {
        ledger: crate::koordinator::ledger::Ledger,
        requested: Amounts,
    },
    Volcano {
        free: Option<CpuSet>,
        amounts: NumaAmounts,
    },
    Unknown,
}

/// What a member gave to a pod.
pub(super) struct Reserved {
    pub(super) cpus: CpuSet,
    pub(super) amounts: Taken,
    pub(super) numa: NodeSet,
    pub(super) decided: Decided,
    pub(super) before: Before,
}

/// What a dialect gave to a pod.
struct Given {
    cpus: CpuSet,
    /// Memory and devices counted per NUMA node.
    amounts: Taken,
    numa: NodeSet,
    decided: Decided,
    before: DialectBefore,
}

impl Member {
    /// A node whose kubelet decides. The pods in the ledger are counted.
    #[must_use]
    pub fn kubelet(ledger: Ledger, allocatable: Amounts) -> Self {
        let mut used = Amounts::new();
        for resident in ledger.state().admitted_pods().values() {
            fit::book(&mut used, &Amounts::of(&effective_requests(&resident.pod)));
        }
        Self {
            dialect: Dialect::Kubelet(Box::new(ledger)),
            allocatable,
            used,
            gaps: None,
        }
    }

    /// The same node rejects pods where its answer would rest on something that its report leaves open.
    #[must_use]
    pub fn with_gaps(self, gaps: Gaps) -> Self {
        let gaps = (gaps != Gaps::default()).then(|| Arc::new(gaps));
        Self { gaps, ..self }
    }

    /// A node under Koordinator; what it offers and what is requested of it are the node's own figures.
    #[must_use]
    pub fn koordinator(node: Node, args: Arc<Args>) -> Self {
        Self {
            allocatable: node.allocatable.clone(),
            used: node.requested.clone(),
            dialect: Dialect::Koordinator {
                node: Box::new(node),
                args,
            },
            gaps: None,
        }
    }

    /// A node under Volcano. `amounts` are its memory and devices per NUMA node, as far as they are known.
    #[must_use]
    pub fn volcano(
        mut numa: Option<NumaInfo>,
        amounts: NumaAmounts,
        allocatable: Amounts,
        fidelity: Fidelity,
    ) -> Self {
        let reserved = numa.as_ref().map(|numa| numa.reserved_cpus(fidelity));
        let node = VolcanoNode {
            free: numa.as_mut().and_then(|numa| numa.free.take()),
            reserved: reserved.unwrap_or_default(),
            amounts,
            fidelity,
            numa: numa.map(Arc::new),
        };
        Self {
            dialect: Dialect::Volcano(Box::new(node)),
            allocatable,
            used: Amounts::new(),
            gaps: None,
        }
    }

    /// A node of which only the sums are known.
    #[must_use]
    pub fn unknown(allocatable: Amounts) -> Self {
        Self {
            dialect: Dialect::Unknown,
            allocatable,
            used: Amounts::new(),
            gaps: None,
        }
    }

    /// The same node with so much in use already; the number of pods is listed as `pods`.
    #[must_use]
    pub fn with_used(self, used: Amounts) -> Self {
        Self { used, ..self }
    }

    /// How the node decides, and in what state it is.
    #[must_use]
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    pub(super) fn dialect_mut(&mut self) -> &mut Dialect {
        &mut self.dialect
    }

    /// What the node offers as a whole.
    #[must_use]
    pub fn allocatable(&self) -> &Amounts {
        &self.allocatable
    }

    /// What its pods request together; their number under `pods`.
    #[must_use]
    pub fn used(&self) -> &Amounts {
        &self.used
    }

    /// How many pods it counts.
    #[must_use]
    pub fn pods(&self) -> i64 {
        self.used.get(PODS)
    }

    /// What the node says about a pod. The node is the same afterwards.
    #[must_use]
    pub fn ask(&mut self, ask: &PodAsk) -> Verdict {
        self.decide(ask, &mut States::of(ask))
    }

    pub(super) fn decide(&mut self, ask: &PodAsk, states: &mut States<'_>) -> Verdict {
        let short = fit::shortages(ask.requests(), &self.used, &self.allocatable);
        if !short.is_empty() {
            return Verdict::Rejected(Rejection::Room(short));
        }
        match &mut self.dialect {
            Dialect::Kubelet(ledger) => kubelet::decide(ledger, self.gaps.as_deref(), ask),
            Dialect::Koordinator { node, args } => koordinator::decide(node, args, states),
            Dialect::Volcano(node) => volcano::decide(node, ask),
            Dialect::Unknown => Verdict::NoOpinion,
        }
    }

    /// Gives the pod what it needs. A node that rejects is the same afterwards.
    pub(super) fn reserve(
        &mut self,
        ask: &PodAsk,
        states: &mut States<'_>,
    ) -> Result<Reserved, Rejection> {
        let short = fit::shortages(ask.requests(), &self.used, &self.allocatable);
        if !short.is_empty() {
            return Err(Rejection::Room(short));
        }
        let given = match &mut self.dialect {
            Dialect::Kubelet(ledger) => kubelet::reserve(ledger, ask)?,
            Dialect::Koordinator { node, args } => koordinator::reserve(node, args, ask, states)?,
            Dialect::Volcano(node) => volcano::reserve(node, ask)?,
            Dialect::Unknown => Given {
                cpus: CpuSet::new(),
                amounts: Taken::new(),
                numa: NodeSet::EMPTY,
                decided: Decided::Nothing,
                before: DialectBefore::Unknown,
            },
        };
        let before = Before {
            used: self.used.clone(),
            dialect: given.before,
        };
        fit::book(&mut self.used, ask.requests());
        Ok(Reserved {
            cpus: given.cpus,
            amounts: given.amounts,
            numa: given.numa,
            decided: given.decided,
            before,
        })
    }

    /// Takes the last placement back.
    pub(super) fn undo(&mut self, before: Before) {
        self.used = before.used;
        match (&mut self.dialect, before.dialect) {
            (Dialect::Kubelet(ledger), DialectBefore::Kubelet(Some(change))) => ledger
                .undo(&change)
                .expect("placements are undone in reverse order, so this was the last change"),
            (
                Dialect::Koordinator { node, .. },
                DialectBefore::Koordinator { ledger, requested },
            ) => {
                node.ledger = ledger;
                node.requested = requested;
            }
            (Dialect::Volcano(node), DialectBefore::Volcano { free, amounts }) => {
                node.free = free;
                node.amounts = amounts;
            }
            _ => {}
        }
    }

    /// Takes back what a pod holds that asked for `requests` and got `cpus`.
    pub(super) fn release(&mut self, pod: &PodUid, held: &Held) {
        fit::unbook(&mut self.used, &held.requests);
        match &mut self.dialect {
            Dialect::Kubelet(ledger) => kubelet::release(ledger, pod),
            Dialect::Koordinator { node, .. } => node.forget(pod, &held.koordinator),
            Dialect::Volcano(node) => {
                if let Some(free) = &mut node.free {
                    *free |= &held.cpus;
                }
                node.amounts.add(&held.amounts);
            }
            Dialect::Unknown => {}
        }
    }

    /// Whether what the node says about a pod could depend on the pod's uid. `is_here` says whether it is on any node.
    pub(super) fn minds_uid(&self, pod: &PodUid, is_here: bool) -> bool {
        match &self.dialect {
            Dialect::Kubelet(ledger) => {
                let state = ledger.state();
                // What init containers of a pod of this id left is only its own to take over.
                is_here && state.admitted_pods().contains_key(pod)
                    || state.has_reusable_cpus_of(pod)
            }
            Dialect::Koordinator { .. } | Dialect::Volcano(_) | Dialect::Unknown => false,
        }
    }
}

/// What has to be known to release a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) requests: Amounts,
    pub(super) koordinator: Amounts,
    pub(super) cpus: CpuSet,
    pub(super) amounts: Taken,
}

/// Nodes in the same state under the same rules. Kubelets compare by their state: their rules are theirs.
impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Dialect::Kubelet(mine), Dialect::Kubelet(theirs)) => {
                Arc::ptr_eq(mine.rules(), theirs.rules()) && mine.state() == theirs.state()
            }
            (
                Dialect::Koordinator { node, args },
                Dialect::Koordinator {
                    node: other_node,
                    args: other_args,
                },
            ) => node == other_node && args == other_args,
            (Dialect::Volcano(mine), Dialect::Volcano(theirs)) => mine == theirs,
            (Dialect::Unknown, Dialect::Unknown) => true,
            _ => false,
        }
    }
}
