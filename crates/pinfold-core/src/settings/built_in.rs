//! Default settings for a machine without a kubelet configuration.

use super::{CpuManagerPolicy, MemoryManagerPolicy, Settings};
use crate::fidelity::Fidelity;
use crate::machine::Machine;
use crate::memory::{MemoryReservation, memory_resource};
use crate::pod::ResourceList;
use crate::policy::TopologyPolicy;
use crate::quantity::Quantity;

/// Bytes reserved for the system.
const RESERVED_MEMORY: u64 = 1 << 30;

impl Settings {
    /// The settings without a configuration: everything is managed and aligned; the first core and 1 GiB (less on small
    /// machines) are reserved for the system.
    #[must_use]
    pub fn built_in(machine: &Machine, fidelity: Fidelity) -> Self {
        let threads = machine
            .nodes()
            .iter()
            .find_map(|node| node.cores.first())
            .map_or(1, |core| core.threads.len());
        let mut settings = Settings {
            fidelity,
            topology_policy: TopologyPolicy::SingleNumaNode,
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some(Quantity::from(i64::try_from(threads).unwrap_or(1))),
            ..Settings::default()
        };
        if let Some(node) = machine.nodes().iter().find(|node| node.memory > 0) {
            let bytes = RESERVED_MEMORY.min(node.memory / 16).max(1);
            let bytes = Quantity::bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
            let limits: ResourceList = [(memory_resource(), bytes)].into();
            settings.memory_policy = MemoryManagerPolicy::Static;
            settings.node_reservation = limits.clone();
            settings.reserved_memory = vec![MemoryReservation {
                numa_node: i64::from(node.id.get()),
                limits,
            }];
        }
        settings
    }
}
