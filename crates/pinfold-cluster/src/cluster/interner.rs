//! [`Interner`]: one copy of each machine description, shared by all nodes with equal hardware.
//!
//! Most nodes of a cluster have one of a few machine types. The tables of a machine's CPUs are much larger than the
//! state that changes on a node: thousands of copies would not fit into the CPU caches, and loading them would take
//! longer than the decisions.

use std::sync::Arc;

use super::node::{ClusterNode, Dialect};
use crate::koordinator::amounts::NodeAmounts;
use crate::koordinator::cpu_topology::KoordinatorTopology;
use crate::volcano::predicate::NumaInfo;

/// The most different tables of each type that are shared; nodes with further ones keep their own.
const MAX_SHARED: usize = 64;

/// The tables that nodes share.
#[derive(Clone, Debug, Default)]
pub(super) struct Interner {
    koordinator: Vec<Arc<KoordinatorTopology>>,
    zones: Vec<Arc<Vec<NodeAmounts>>>,
    volcano: Vec<Arc<NumaInfo>>,
}

impl Interner {
    /// Replaces the tables of a node by equal ones of other nodes.
    pub(super) fn intern(&mut self, node: &mut ClusterNode) {
        match node.dialect_mut() {
            Dialect::Koordinator { node, .. } => {
                if let Some(report) = &mut node.report {
                    intern(&mut self.koordinator, &mut report.topology);
                    intern(&mut self.zones, &mut report.zones);
                }
            }
            Dialect::Volcano(node) => {
                if let Some(numa) = &mut node.numa {
                    intern(&mut self.volcano, numa);
                }
            }
            Dialect::Kubelet(_) | Dialect::SchedulerPlugins(_) | Dialect::Unknown => {}
        }
    }
}

fn intern<T: PartialEq>(shared: &mut Vec<Arc<T>>, own: &mut Arc<T>) {
    match shared.iter().find(|other| *other == own) {
        Some(other) => *own = other.clone(),
        None if shared.len() < MAX_SHARED => shared.push(own.clone()),
        None => {}
    }
}
