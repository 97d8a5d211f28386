//! [`ByAffinity`]: free devices sorted by whether they are close to the chosen NUMA nodes.

use super::{Device, DevicePool, DeviceSet};
use crate::name::ResourceName;
use crate::node_set::NodeSet;

/// Free devices in three classes. Mirrors `filterByAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByAffinity {
    /// Close to at least one of the chosen nodes.
    pub aligned: DeviceSet,
    /// Close to other nodes only.
    pub unaligned: DeviceSet,
    /// Close to no existing node; all of them if no nodes were chosen or the resource has no topology information.
    pub no_affinity: DeviceSet,
}

impl ByAffinity {
    /// Sorts `available` devices of a resource by the chosen nodes.
    #[must_use]
    pub fn sort(
        pool: &DevicePool,
        resource: &ResourceName,
        available: DeviceSet,
        affinity: Option<NodeSet>,
    ) -> Self {
        let mut sorted = Self::default();
        let Some(affinity) = affinity.filter(|_| pool.is_aligned(resource)) else {
            sorted.no_affinity = available;
            return sorted;
        };
        for id in available {
            let class = match pool.device(resource, &id) {
                Some(device) if device.nodes().intersects(affinity) => &mut sorted.aligned,
                Some(device) if reports_a_node(device) => &mut sorted.unaligned,
                _ => &mut sorted.no_affinity,
            };
            class.insert(id);
        }
        sorted
    }
}

/// Whether the plugin reports a NUMA node, existing or not, other than -1.
fn reports_a_node(device: &Device) -> bool {
    let mut ids = device.numa.iter().flatten();
    ids.any(|&id| id != Device::NO_NODE)
}
