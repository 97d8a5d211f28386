//! [`NodeIndex`]: the slot of each node, by node name.

use std::collections::{BTreeMap, HashMap};

use pinfold_core::name::NodeName;

/// Maps node names to slots. The ordered map serves iteration by name, the hash map lookups of thousands of names.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeIndex {
    ordered: BTreeMap<NodeName, usize>,
    hashed: HashMap<NodeName, usize>,
}

impl NodeIndex {
    pub(super) fn len(&self) -> usize {
        self.ordered.len()
    }

    pub(super) fn slot(&self, name: &str) -> Option<usize> {
        self.hashed.get(name).copied()
    }

    pub(super) fn insert(&mut self, name: NodeName, slot: usize) {
        self.hashed.insert(name.clone(), slot);
        self.ordered.insert(name, slot);
    }

    pub(super) fn remove(&mut self, name: &NodeName) -> Option<usize> {
        self.hashed.remove(name);
        self.ordered.remove(name)
    }

    /// All nodes with their slots, ascending by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeName, usize)> {
        self.ordered.iter().map(|(name, slot)| (name, *slot))
    }
}
