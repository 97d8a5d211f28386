//! The machines and kubelet configurations of the histories.

use std::sync::{Arc, OnceLock};

use pinfold_core::cpu_set::{CpuList, CpuSet};
use pinfold_core::ledger::Rules;
use pinfold_core::memory::MemoryReservation;
use pinfold_core::pod::ResourceList;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, Settings};

const OFFLINE: [&str; 4] = ["", ", offline=3", ", offline=2,10", ", offline=6-7,14-15"];
/// Topology policy and reserved CPUs, with the CPU manager policy.
const SETTINGS: [(&str, &str, CpuManagerPolicy); 5] = [
    ("best-effort", "0,8", CpuManagerPolicy::Static),
    ("best-effort", "0,8,12", CpuManagerPolicy::Static),
    ("restricted", "0,8", CpuManagerPolicy::Static),
    ("single-numa-node", "0,1", CpuManagerPolicy::Static),
    ("best-effort", "0,8", CpuManagerPolicy::None),
];
const MEMORY: [&str; 3] = ["", ", mem=48Gi", ", hugepages-2Mi=512"];

/// The state of the machine and the configuration, each by its number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeVariant {
    /// Which CPUs are offline.
    pub(super) offline: u8,
    /// Policies and reserved CPUs.
    pub(super) settings: u8,
    /// Memory and huge pages since the last boot.
    pub(super) memory: u8,
}

fn settings(number: usize) -> Settings {
    let (policy, reserved, cpu_policy) = SETTINGS[number];
    let reserved: CpuSet = reserved.parse().expect("CPUs");
    let memory: ResourceList = [("memory".into(), "1Gi".parse().expect("a quantity"))].into();
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy,
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
            let (settings_at, index) = (index % SETTINGS.len(), index / SETTINGS.len());
            let (offline, memory) = (
                OFFLINE[index % OFFLINE.len()],
                MEMORY[index / OFFLINE.len()],
            );
            let machine = format!("2 sockets, 4 cores, smt2{offline}{memory}");
            let hardware = pinfold_hardware::synthetic::read(&machine).expect("a machine");
            let (machine, _) = hardware.machine_within_reach().expect("a machine");
            Arc::new(
                Rules::new(Arc::new(machine), settings(settings_at)).expect("settings that fit"),
            )
        };
        (0..SETTINGS.len() * OFFLINE.len() * MEMORY.len())
            .map(make)
            .collect()
    });
    let [memory, offline, settings] =
        [variant.memory, variant.offline, variant.settings].map(usize::from);
    all[(memory * OFFLINE.len() + offline) * SETTINGS.len() + settings].clone()
}
