//! [`LazyHints`]: all hints of a pod as the rule behind them, for rejections that may never be read.
//!
//! Where sums decide ([`Allocator::needs`](crate::koordinator::allocate::Allocator::needs)), a set of NUMA nodes fits if it
//! has enough of everything, and a wider set has no less. So whether a resource has a hint at all shows in the widest
//! set, and the hundreds of sets in a rejection's text need not be listed before somebody reads it.

use smallvec::SmallVec;

use super::node_set_walk::NodeSetWalk;
use crate::koordinator::amounts::ByNode;
use crate::koordinator::rejection::ResourcePreference;
use crate::name::ResourceName;
use crate::node_set::NodeSet;

/// What has to be found on a set of NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNeed {
    /// How much.
    pub asked: i64,
    /// What each NUMA node has left.
    pub free: ByNode,
}

/// One resource that has hints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LazyResource {
    /// Its name.
    pub name: ResourceName,
    /// NUMA nodes that have none of it left.
    pub lacking: NodeSet,
    /// The width that is preferred.
    pub preferred_width: usize,
}

/// All hints of one pod on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LazyHints {
    /// The NUMA nodes.
    pub nodes: NodeSet,
    /// The resources, ascending by name.
    pub resources: SmallVec<[LazyResource; 2]>,
    /// What has to be found.
    pub needs: SmallVec<[NumaNeed; 2]>,
}

impl LazyHints {
    /// The resources that no set of NUMA nodes can serve.
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
            .all(|need| need.free.sum(mask) >= need.asked)
    }

    /// The hints, listed.
    #[must_use]
    pub fn wishes(&self) -> Vec<ResourcePreference> {
        let wish = |resource: &LazyResource| ResourcePreference {
            name: resource.name.clone(),
            possible: Vec::new(),
            preferred: Vec::new(),
        };
        let mut wishes: Vec<ResourcePreference> = self.resources.iter().map(wish).collect();
        let mut walk = NodeSetWalk::over(self.nodes);
        let mut visit = |mask: NodeSet| {
            if !self.suffice(mask) {
                return;
            }
            for (wish, resource) in wishes.iter_mut().zip(&self.resources) {
                if resource.lacking.intersects(mask) {
                    continue;
                }
                wish.possible.push(Some(mask));
                if mask.len() == resource.preferred_width {
                    wish.preferred.push(Some(mask));
                }
            }
        };
        while walk.widen(&mut visit) {}
        wishes
    }
}
