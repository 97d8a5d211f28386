//! [`ByAffinity`]: free devices sorted by whether they are close to the chosen NUMA nodes.

use smallvec::SmallVec;

use super::{Device, DevicePool};
use crate::name::{DeviceId, ResourceName};
use crate::node_set::NodeSet;

/// Free devices in three classes, each ascending. Mirrors `filterByAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByAffinity<'d> {
    /// Close to at least one of the chosen nodes.
    pub aligned: SmallVec<[&'d DeviceId; 16]>,
    /// Close to other nodes only.
    pub unaligned: SmallVec<[&'d DeviceId; 16]>,
    /// Close to no existing node; all of them if no nodes were chosen or the resource has no topology information.
    pub no_affinity: SmallVec<[&'d DeviceId; 16]>,
}

impl<'d> ByAffinity<'d> {
    /// Sorts `available` devices of a resource, ascending, by the chosen nodes.
    #[must_use]
    pub fn sort(
        pool: &DevicePool,
        resource: &ResourceName,
        available: &[(&'d DeviceId, &Device)],
        affinity: Option<NodeSet>,
    ) -> Self {
        let mut sorted = Self::default();
        let affinity = affinity.filter(|_| pool.is_aligned(resource));
        for &(id, device) in available {
            let class = match affinity {
                Some(affinity) if device.nodes().intersects(affinity) => &mut sorted.aligned,
                Some(_) if reports_a_node(device) => &mut sorted.unaligned,
                _ => &mut sorted.no_affinity,
            };
            class.push(id);
        }
        sorted
    }
}

/// Whether the plugin reports a NUMA node, existing or not, other than -1.
fn reports_a_node(device: &Device) -> bool {
    let mut ids = device.numa.iter().flatten();
    ids.any(|&id| id != Device::NO_NODE)
}
