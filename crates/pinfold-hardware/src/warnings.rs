//! [`HardwareWarning`]: what a machine's firmware should have told and did not, or told wrongly.
//!
//! Placement is only as good as two firmware tables: which CPUs and memory belong together (SRAT) and how far apart
//! they are (SLIT). A board with node interleaving switched on, or an incomplete table, gives a machine that works and
//! is slow; these are the signs.

use serde::Serialize;

use crate::hardware::{Hardware, HardwareNode};
use crate::numa_id::NumaId;
use crate::pci::PciKind;

/// The distance of a node to itself, by definition.
const LOCAL: u32 = 10;

/// One sign of a missing or wrong table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HardwareWarning {
    /// The kernel knows no NUMA nodes.
    #[error(
        "the kernel was built or started without NUMA: every socket counts as one node without memory"
    )]
    NoNuma,
    /// Several sockets share one node.
    #[error(
        "{sockets} sockets but {nodes} NUMA node with CPUs: node interleaving is on in the firmware, or its table of nodes (SRAT) is missing"
    )]
    FewerNodesThanSockets {
        /// How many sockets there are.
        sockets: usize,
        /// How many nodes with CPUs.
        nodes: usize,
    },
    /// No distances at all.
    #[error(
        "no distances between NUMA nodes: the firmware's table (SLIT) is missing, so near and far look the same"
    )]
    NoDistances,
    /// A node whose distance to itself is not 10.
    #[error(
        "NUMA node {node} is {found} from itself, not 10: the firmware's distances (SLIT) are wrong"
    )]
    NotLocal {
        /// Which.
        node: NumaId,
        /// What the table says.
        found: u32,
    },
    /// A node that is as near as the own one.
    #[error(
        "NUMA node {to} is {found} from node {from}, as near as itself: the firmware's distances (SLIT) are wrong"
    )]
    TooNear {
        /// Where from.
        from: NumaId,
        /// Where to.
        to: NumaId,
        /// What the table says.
        found: u32,
    },
    /// There and back differ.
    #[error("NUMA node {from} is {there} from node {to}, but {back} on the way back")]
    Asymmetric {
        /// Where from.
        from: NumaId,
        /// Where to.
        to: NumaId,
        /// That way.
        there: u32,
        /// The other way.
        back: u32,
    },
    /// Devices that could be aligned if the firmware said where they are.
    #[error(
        "{count} GPUs, network cards and the like have no NUMA node: the firmware does not say where they are, so they align with everything"
    )]
    DevicesWithoutNode {
        /// How many.
        count: usize,
    },
}

impl Hardware {
    /// The signs that a firmware table is missing or wrong; of each kind the first.
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
    fn a_machine_that_tells_everything_leaves_no_doubt() {
        for preset in crate::presets::PRESETS {
            let hardware = crate::presets::read(preset.name).expect(preset.name);
            assert_eq!(hardware.warnings(), [], "{}", preset.name);
        }
    }

    #[test]
    fn missing_and_wrong_distances_are_noticed() {
        let mut silent = machine("2 sockets, 2 cores");
        for node in &mut silent.nodes {
            node.distances.clear();
        }
        assert_eq!(silent.warnings(), [HardwareWarning::NoDistances]);

        let wrong = machine("2 sockets, 2 cores, distances=10,9/21,11");
        let words: Vec<String> = wrong
            .warnings()
            .iter()
            .map(HardwareWarning::to_string)
            .collect();
        assert_eq!(
            words,
            [
                "NUMA node 1 is 11 from itself, not 10: the firmware's distances (SLIT) are wrong",
                "NUMA node 1 is 9 from node 0, as near as itself: the firmware's distances (SLIT) are wrong",
                "NUMA node 0 is 9 from node 1, but 21 on the way back",
            ]
        );
    }

    #[test]
    fn sockets_that_share_one_node_and_devices_without_one_are_noticed() {
        let mut interleaved = machine("2 sockets, 2 cores, gpu=1");
        let second = interleaved.nodes.remove(1);
        interleaved.nodes[0].cpus |= &second.cpus;
        interleaved.nodes[0].distances.truncate(1);
        let (sockets, nodes) = (2, 1);
        let doubt = HardwareWarning::FewerNodesThanSockets { sockets, nodes };
        assert_eq!(interleaved.warnings(), [doubt]);

        let mut homeless = machine("2 sockets, 2 cores, gpu=1");
        homeless.devices[0].node = None;
        assert_eq!(
            homeless.warnings(),
            [HardwareWarning::DevicesWithoutNode { count: 1 }]
        );
    }

    #[test]
    fn a_kernel_without_nodes_is_noticed() {
        let mut hardware = machine("2 sockets, 2 cores");
        hardware.kernel_has_nodes = false;
        assert_eq!(hardware.warnings(), [HardwareWarning::NoNuma]);
    }
}
