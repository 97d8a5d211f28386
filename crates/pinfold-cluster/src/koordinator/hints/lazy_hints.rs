//! [`LazyHints`]: the rule behind all hints of a pod, for rejections that may never be displayed.
//!
//! If totals alone decide ([`Allocator::needs`](crate::koordinator::allocate::Allocator::needs)), a set of NUMA nodes
//! fits if it has enough of every resource, and a wider set has no less. So a resource has a hint only if the widest
//! set fits, and the hundreds of sets in the message of a rejection need not be generated before the message is
//! displayed.

use smallvec::SmallVec;

use super::node_set_walk::NodeSetWalk;
use crate::koordinator::amounts::ByNode;
use crate::koordinator::rejection::ResourcePreference;
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;

/// A total that a set of NUMA nodes must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNeed {
    /// The requested amount.
    pub requested: i64,
    /// The free amount of each NUMA node.
    pub free: ByNode,
}

/// One resource that has hints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LazyResource {
    /// Its name.
    pub name: ResourceName,
    /// NUMA nodes that have none of it free.
    pub lacking: NodeSet,
    /// The preferred width.
    pub preferred_width: usize,
}

/// The rule behind all hints of one pod on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LazyHints {
    /// The NUMA nodes.
    pub nodes: NodeSet,
    /// The resources, ascending by name.
    pub resources: SmallVec<[LazyResource; 2]>,
    /// The totals that a set of NUMA nodes must have.
    pub needs: SmallVec<[NumaNeed; 2]>,
}

impl LazyHints {
    /// The resources without a hint.
    pub fn impossible(&self) -> impl Iterator<Item = &ResourceName> {
        let widest = |resource: &LazyResource| self.nodes - resource.lacking;
        let cannot = move |resource: &&LazyResource| {
            let widest = widest(resource);
            widest.is_empty() || !self.suffice(widest)
        };
        self.resources
            .iter()
            .filter(cannot)
            .map(|resource| &resource.name)
    }

    fn suffice(&self, mask: NodeSet) -> bool {
        self.needs
            .iter()
            .all(|need| need.free.sum(mask) >= need.requested)
    }

    /// Generates the hints of each resource.
    #[must_use]
    pub fn preferences(&self) -> Vec<ResourcePreference> {
        let preference = |resource: &LazyResource| ResourcePreference {
            name: resource.name.clone(),
            possible: Vec::new(),
            preferred: Vec::new(),
        };
        let mut preferences: Vec<ResourcePreference> =
            self.resources.iter().map(preference).collect();
        let mut walk = NodeSetWalk::over(self.nodes);
        let mut visit = |mask: NodeSet| {
            if !self.suffice(mask) {
                return;
            }
            for (preference, resource) in preferences.iter_mut().zip(&self.resources) {
                if resource.lacking.intersects(mask) {
                    continue;
                }
                preference.possible.push(Some(mask));
                if mask.len() == resource.preferred_width {
                    preference.preferred.push(Some(mask));
                }
            }
        };
        while walk.widen(&mut visit) {}
        preferences
    }
}
