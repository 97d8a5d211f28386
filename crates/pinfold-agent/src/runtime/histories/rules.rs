//! The machines and kubelet configurations of the histories.

use std::sync::{Arc, OnceLock};

use pinfold_core::cpu_set::{CpuList, CpuSet};
use pinfold_core::ledger::Rules;
use pinfold_core::memory::MemoryReservation;
use pinfold_core::pod::ResourceList;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, Settings};

const OFFLINE: [&str; 4] = ["", ", offline=3", ", offline=2,10", ", offline=6-7,14-15"];
/// Topology policy and reserved CPUs, and whether there are a CPU manager and a memory manager.
const SETTINGS: [(&str, &str, bool, bool); 6] = [
    ("best-effort", "0,8", true, true),
    ("best-effort", "0,8,12", true, true),
    ("restricted", "0,8", true, true),
    ("single-numa-node", "0,1", true, true),
    ("best-effort", "0,8", false, true),
    ("best-effort", "0,8", true, false),
];
/// Number of kubelet configurations.
pub(super) const CONFIGURATIONS: u8 = 6;
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
    /// Whether the rules are Koordinator's, under which the ledger only records CPUs.
    pub(super) koordinator: bool,
}

fn settings(number: usize, koordinator: bool) -> Settings {
    let (policy, reserved, has_cpu_manager, has_memory_manager) = SETTINGS[number];
    let reserved: CpuSet = reserved.parse().expect("CPUs");
    if koordinator {
        return Settings {
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some(reserved.len().to_string().parse().expect("a quantity")),
            reserved_cpus: Some(CpuList::from(&reserved)),
            ..Settings::default()
        };
    }
    let memory: ResourceList = [("memory".into(), "1Gi".parse().expect("a quantity"))].into();
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: match has_cpu_manager {
            true => CpuManagerPolicy::Static,
            false => CpuManagerPolicy::None,
        },
        reserved_cpu: Some(reserved.len().to_string().parse().expect("a quantity")),
        reserved_cpus: Some(CpuList::from(&reserved)),
        memory_policy: match has_memory_manager {
            true => MemoryManagerPolicy::Static,
            false => MemoryManagerPolicy::None,
        },
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
    static ALL: [OnceLock<Vec<Arc<Rules>>>; 2] = [const { OnceLock::new() }; 2];
    let koordinator = variant.koordinator;
    let all = ALL[usize::from(koordinator)].get_or_init(|| {
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
                Rules::new(Arc::new(machine), settings(settings_at, koordinator))
                    .expect("settings that fit"),
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
