//! [`Kinds`]: what nodes of one kind have in common, kept once.
//!
//! Most nodes of a cluster are of a few kinds. The tables of a machine's CPUs are far larger than what changes on a
//! node; thousands of copies would not fit into any cache, and fetching them would take longer than deciding.

use std::sync::Arc;

use super::member::{Dialect, Member};
use crate::koordinator::amounts::NodeAmounts;
use crate::koordinator::cpus::Topology;
use crate::volcano::predicate::NumaInfo;

/// So many kinds are shared; nodes of further kinds keep their own tables.
const MOST_KINDS: usize = 64;

/// The kinds met so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    koordinator: Vec<Arc<Topology>>,
    zones: Vec<Arc<Vec<NodeAmounts>>>,
    volcano: Vec<Arc<NumaInfo>>,
}

impl Kinds {
    /// Lets a member share what others of its kind have.
    pub(super) fn share(&mut self, member: &mut Member) {
        match member.dialect_mut() {
            Dialect::Koordinator { node, .. } => {
                if let Some(report) = &mut node.report {
                    share(&mut self.koordinator, &mut report.topology);
                    share(&mut self.zones, &mut report.zones);
                }
            }
            Dialect::Volcano(node) => {
                if let Some(numa) = &mut node.numa {
                    share(&mut self.volcano, numa);
                }
            }
            Dialect::Kubelet(_) | Dialect::SchedulerPlugins(_) | Dialect::Unknown => {}
        }
    }
}

fn share<T: PartialEq>(kinds: &mut Vec<Arc<T>>, own: &mut Arc<T>) {
    match kinds.iter().find(|kind| *kind == own) {
        Some(kind) => *own = kind.clone(),
        None if kinds.len() < MOST_KINDS => kinds.push(own.clone()),
        None => {}
    }
}
