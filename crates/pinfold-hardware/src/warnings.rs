//! [`HardwareWarning`]: signs of a missing or wrong firmware table.
//!
//! Placement depends on two firmware tables: the NUMA nodes of CPUs and memory (SRAT) and the distances between nodes
//! (SLIT). A board with node interleaving enabled, or with an incomplete table, runs, but pods on it are placed badly.

use serde::Serialize;

use crate::hardware::{Hardware, HardwareNode};
use crate::numa_id::NumaId;
use crate::pci::PciKind;

/// The distance of a node to itself, by the SLIT's definition.
const LOCAL: u32 = 10;

/// One sign of a missing or wrong firmware table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HardwareWarning {
    /// The kernel has no NUMA support.
    #[error(
        "the kernel was built or started without NUMA: every socket counts as one node without memory"
    )]
    NoNuma,
    /// Several sockets share one NUMA node.
    #[error(
        "{sockets} sockets but {nodes} NUMA node with CPUs: node interleaving is on in the firmware, or its table of nodes (SRAT) is missing"
    )]
    FewerNodesThanSockets {
        /// The number of sockets.
        sockets: usize,
        /// The number of nodes with CPUs.
        nodes: usize,
    },
    /// No node has distances.
    #[error(
        "no distances between NUMA nodes: the firmware's table (SLIT) is missing, so near and far look the same"
    )]
    NoDistances,
    /// A node whose distance to itself is not 10.
    #[error(
        "NUMA node {node} is {found} from itself, not 10: the firmware's distances (SLIT) are wrong"
    )]
    NotLocal {
        /// The node.
        node: NumaId,
        /// Its distance to itself.
        found: u32,
    },
    /// A remote node that is as near as the local one.
    #[error(
        "NUMA node {to} is {found} from node {from}, as near as itself: the firmware's distances (SLIT) are wrong"
    )]
    TooNear {
        /// The local node.
        from: NumaId,
        /// The remote node.
        to: NumaId,
        /// The distance.
        found: u32,
    },
    /// The distances of two nodes to each other differ.
    #[error("NUMA node {from} is {there} from node {to}, but {back} on the way back")]
    Asymmetric {
        /// The first node.
        from: NumaId,
        /// The second node.
        to: NumaId,
        /// The distance from the first to the second.
        there: u32,
        /// The distance from the second to the first.
        back: u32,
    },
    /// Devices without a NUMA node, on a machine with several.
    #[error(
        "{count} GPUs, network cards and the like have no NUMA node: the firmware does not report it, so they align with every node"
    )]
    DevicesWithoutNode {
        /// The number of devices.
        count: usize,
    },
}

impl Hardware {
    /// Checks the firmware's tables. Reports only the first warning of each kind.
    #[must_use]
    pub fn warnings(&self) -> Vec<HardwareWarning> {
        let mut warnings = Vec::new();
        if !self.kernel_has_nodes {
            warnings.push(HardwareWarning::NoNuma);
            return warnings;
        }
        let with_cpus = self.nodes.iter().filter(|node| !node.cpus.is_empty());
        let (sockets, nodes) = (self.sockets.len(), with_cpus.count());
        if sockets > 1 && nodes == 1 {
            warnings.push(HardwareWarning::FewerNodesThanSockets { sockets, nodes });
        }
        if self.nodes.len() > 1 {
            warnings.extend(self.distance_warnings());
            let count = self.devices_without_node();
            if count > 0 {
                warnings.push(HardwareWarning::DevicesWithoutNode { count });
            }
        }
        warnings
    }

    fn distance_warnings(&self) -> Vec<HardwareWarning> {
        let distance = |from: &HardwareNode, to: usize| from.distances.get(to).copied();
        if self.nodes.iter().all(|node| node.distances.is_empty()) {
            return vec![HardwareWarning::NoDistances];
        }
        let (mut local, mut near, mut uneven) = (None, None, None);
        for (i, from) in self.nodes.iter().enumerate() {
            for (j, to) in self.nodes.iter().enumerate() {
                let Some(there) = distance(from, j) else {
                    continue;
                };
                if i == j {
                    if there != LOCAL {
                        local.get_or_insert(HardwareWarning::NotLocal {
                            node: from.id,
                            found: there,
                        });
                    }
                    continue;
                }
                if there <= LOCAL {
                    near.get_or_insert(HardwareWarning::TooNear {
                        from: from.id,
                        to: to.id,
                        found: there,
                    });
                }
                if let Some(back) = distance(to, i).filter(|&back| i < j && back != there) {
                    uneven.get_or_insert(HardwareWarning::Asymmetric {
                        from: from.id,
                        to: to.id,
                        there,
                        back,
                    });
                }
            }
        }
        local.into_iter().chain(near).chain(uneven).collect()
    }

    fn devices_without_node(&self) -> usize {
        let aligned = |kind| !matches!(kind, PciKind::Bridge | PciKind::Other | PciKind::Display);
        let devices = self.devices.iter();
        devices
            .filter(|device| aligned(device.kind) && device.node.is_none())
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn machine(text: &str) -> Hardware {
        synthetic::read(text).expect(text)
    }

    #[test]
    fn the_presets_have_no_warnings() {
        for preset in crate::presets::PRESETS {
            let hardware = crate::presets::read(preset.name).expect(preset.name);
            assert_eq!(hardware.warnings(), [], "{}", preset.name);
        }
    }

    #[test]
    fn missing_and_wrong_distances_are_reported() {
        let mut without_distances = machine("2 sockets, 2 cores");
        for node in &mut without_distances.nodes {
            node.distances.clear();
        }
        assert_eq!(without_distances.warnings(), [HardwareWarning::NoDistances]);

        let wrong = machine("2 sockets, 2 cores, distances=10,9/21,11");
        let messages: Vec<String> = wrong
            .warnings()
            .iter()
            .map(HardwareWarning::to_string)
            .collect();
        assert_eq!(
            messages,
            [
                "NUMA node 1 is 11 from itself, not 10: the firmware's distances (SLIT) are wrong",
                "NUMA node 1 is 9 from node 0, as near as itself: the firmware's distances (SLIT) are wrong",
                "NUMA node 0 is 9 from node 1, but 21 on the way back",
            ]
        );
    }

    #[test]
    fn sockets_that_share_one_node_and_devices_without_one_are_reported() {
        let mut interleaved = machine("2 sockets, 2 cores, gpu=1");
        let second = interleaved.nodes.remove(1);
        interleaved.nodes[0].cpus |= &second.cpus;
        interleaved.nodes[0].distances.truncate(1);
        let (sockets, nodes) = (2, 1);
        let warning = HardwareWarning::FewerNodesThanSockets { sockets, nodes };
        assert_eq!(interleaved.warnings(), [warning]);

        let mut without_node = machine("2 sockets, 2 cores, gpu=1");
        without_node.devices[0].node = None;
        assert_eq!(
            without_node.warnings(),
            [HardwareWarning::DevicesWithoutNode { count: 1 }]
        );
    }

    #[test]
    fn a_kernel_without_numa_is_reported() {
        let mut hardware = machine("2 sockets, 2 cores");
        hardware.kernel_has_nodes = false;
        assert_eq!(hardware.warnings(), [HardwareWarning::NoNuma]);
    }
}
