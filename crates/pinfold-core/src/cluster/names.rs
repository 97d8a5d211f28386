//! [`Names`]: where each node sits, by its name.

use std::collections::{BTreeMap, HashMap};

use crate::name::NodeName;

/// In order for those who ask all nodes, and hashed for those who ask for thousands by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    ordered: BTreeMap<NodeName, usize>,
    hashed: HashMap<NodeName, usize>,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.ordered.len()
    }

    pub(super) fn seat(&self, name: &str) -> Option<usize> {
        self.hashed.get(name).copied()
    }

    pub(super) fn insert(&mut self, name: NodeName, seat: usize) {
        self.hashed.insert(name.clone(), seat);
        self.ordered.insert(name, seat);
    }

    pub(super) fn remove(&mut self, name: &NodeName) -> Option<usize> {
        self.hashed.remove(name);
        self.ordered.remove(name)
    }

    /// All nodes with their seats, ascending by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeName, usize)> {
        self.ordered.iter().map(|(name, seat)| (name, *seat))
    }
}
