//! The machines and kubelet configurations of the histories.

use std::sync::{Arc, OnceLock};

use pinfold_core::cpu_set::{CpuList, CpuSet};
use pinfold_core::ledger::Rules;
use pinfold_core::memory::MemoryReservation;
use pinfold_core::pod::ResourceList;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, Settings};

const OFFLINE: [&str; 4] = ["", ", offline=3", ", offline=2,10", ", offline=6-7,14-15"];
const SETTINGS: [(&str, &str); 4] = [
    ("best-effort", "0,8"),
    ("best-effort", "0,8,12"),
    ("restricted", "0,8"),
    ("single-numa-node", "0,1"),
];
const MEMORY: [&str; 3] = ["", ", mem=48Gi", ", hugepages-2Mi=512"];

/// The state of the machine and the configuration, each by its number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeVariant {
    /// Which CPUs are offline.
    pub(super) offline: u8,
    /// Topology policy and reserved CPUs.
    pub(super) settings: u8,
    /// Memory and huge pages since the last boot.
    pub(super) memory: u8,
}

fn settings(number: usize) -> Settings {
    let (policy, reserved) = SETTINGS[number];
    let reserved: CpuSet = reserved.parse().expect("CPUs");
    let memory: ResourceList = [("memory".into(), "1Gi".parse().expect("a quantity"))].into();
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(reserved.len().to_string().parse().expect("a quantity")),
        reserved_cpus: Some(CpuList::from(&reserved)),
        memory_policy: MemoryManagerPolicy::Static,
        reserved_memory: vec![MemoryReservation {
            numa_node: 0,
            limits: memory.clone(),
        }],
        node_reservation: memory,
        ..Settings::default()
    }
}

/// The rules of a variant.
pub(super) fn rules(variant: NodeVariant) -> Arc<Rules> {
    static ALL: OnceLock<Vec<Arc<Rules>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let make = |index: usize| {
            let offline = OFFLINE[index / 4 % 4];
            let machine = format!("2 sockets, 4 cores, smt2{offline}{}", MEMORY[index / 16]);
            let hardware = pinfold_hardware::synthetic::read(&machine).expect("a machine");
            let (machine, _) = hardware.machine_within_reach().expect("a machine");
            Arc::new(Rules::new(Arc::new(machine), settings(index % 4)).expect("settings that fit"))
        };
        (0..16 * MEMORY.len()).map(make).collect()
    });
    let index = variant.memory * 16 + variant.offline * 4 + variant.settings;
    all[usize::from(index)].clone()
}
