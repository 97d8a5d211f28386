//! Machines, pods and nodes to measure on.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuId;
use pinfold_core::device::{AdvertisedDevices, Device, NoPreference};
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::{Core, HugePages, Machine, MachineParts, NumaNode};
use pinfold_core::memory::MemoryReservation;
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_core::node_set::NodeId;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::MemoryManagerPolicy;
use pinfold_core::settings::Settings;

use crate::merge_cases::Random;

const GIB: u64 = 1 << 30;

/// A machine of the kubelet's record: two threads per core, the first threads of all cores in NUMA node order, then the
/// second threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineShape {
    /// NUMA nodes, spread over two sockets.
    pub(crate) nodes: usize,
    /// The number of threads of the machine.
    pub(crate) cpus: usize,
    /// L3 caches on each node.
    pub(crate) caches: usize,
    /// 2 MiB pages on each node.
    pub(crate) hugepages: u64,
}

impl MachineShape {
    /// The machine.
    pub(crate) fn machine(self) -> Arc<Machine> {
        let cores = (self.cpus / 2 / self.nodes).max(1);
        let total = cores * self.nodes;
        let sockets = self.nodes.min(2);
        let small = |value: usize| u32::try_from(value).expect("a small machine");
        let cpu = |index: usize| CpuId::new(small(index)).expect("at most 4096 CPUs");
        let node = |index: usize| NumaNode {
            id: node_id(index),
            memory: 64 * GIB,
            hugepages: match self.hugepages {
                0 => Vec::new(),
                count => vec![HugePages {
                    size_kib: 2048,
                    count,
                }],
            },
            distances: (0..self.nodes).map(|to| distance(index, to)).collect(),
            cores: (index * cores..(index + 1) * cores)
                .map(|core| Core {
                    id: small(core),
                    socket: small(index * sockets / self.nodes),
                    die: None,
                    l3: Some(small(
                        index * self.caches + (core - index * cores) * self.caches / cores,
                    )),
                    threads: vec![cpu(core), cpu(total + core)],
                })
                .collect(),
        };
        let parts = MachineParts {
            nodes: (0..self.nodes).map(node).collect(),
            num_cpus: 2 * total,
            num_sockets: sockets,
            ..MachineParts::default()
        };
        Arc::new(Machine::new(parts).expect("a good machine"))
    }
}

/// 10 to itself, 12 inside the pairs (0, 1), (2, 3) and so on, else 32.
pub(crate) fn distance(from: usize, to: usize) -> u32 {
    match (from == to, from / 2 == to / 2) {
        (true, _) => 10,
        (false, true) => 12,
        (false, false) => 32,
    }
}

/// The id of a NUMA node.
pub(crate) fn node_id(index: usize) -> NodeId {
    let id = i64::try_from(index).ok().map(NodeId::new);
    id.and_then(Result::ok).expect("at most 64 nodes")
}

/// A Guaranteed pod of one container.
pub(crate) fn pod(uid: &str, amounts: &[(&str, &str)]) -> Arc<Pod> {
    let amounts: ResourceList = amounts
        .iter()
        .map(|&(name, amount)| (name.into(), quantity(amount)))
        .collect();
    Arc::new(Pod {
        uid: PodUid::from(uid),
        name: format!("bench/{uid}"),
        init_containers: Vec::new(),
        containers: vec![Container {
            name: "main".into(),
            restartable: false,
            requests: amounts.clone(),
            limits: amounts,
        }],
        pod_requests: None,
        pod_limits: None,
    })
}

/// The same pod with more Guaranteed containers, of a hundredth of a CPU and a mebibyte each.
pub(crate) fn with_small_containers(pod: &Pod, count: usize) -> Arc<Pod> {
    let amounts = [("cpu", "10m"), ("memory", "1Mi")];
    let amounts = amounts.map(|(name, amount)| (ResourceName::from(name), quantity(amount)));
    let amounts = ResourceList::from(amounts);
    let mut pod = pod.clone();
    pod.containers.extend((0..count).map(|number| Container {
        name: format!("small-{number}").as_str().into(),
        restartable: false,
        requests: amounts.clone(),
        limits: amounts.clone(),
    }));
    Arc::new(pod)
}

fn quantity(text: &str) -> Quantity {
    text.parse().expect("a quantity")
}

/// Settings as in section (d) of the kubelet's record: static CPUs and memory, 2 CPUs and 1 GiB reserved.
pub(crate) fn settings(policy: &str, scope: &str) -> Settings {
    let reserved = ResourceList::from([("memory".into(), quantity("1Gi"))]);
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        topology_scope: scope.parse().expect("a scope"),
        topology_options: BTreeMap::from([("max-allowable-numa-nodes".into(), "64".into())]),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(quantity("2")),
        memory_policy: MemoryManagerPolicy::Static,
        reserved_memory: vec![MemoryReservation {
            numa_node: 0,
            limits: reserved.clone(),
        }],
        node_reservation: reserved,
        ..Settings::default()
    }
}

/// An empty node.
pub(crate) fn ledger(machine: Arc<Machine>, settings: Settings) -> Ledger {
    Ledger::new(Arc::new(
        Rules::new(machine, settings).expect("good settings"),
    ))
}

/// `count` devices, device i near NUMA node i mod `nodes`.
pub(crate) fn offer(count: usize, nodes: usize) -> AdvertisedDevices {
    let device = |index: usize| {
        let numa = i64::try_from(index % nodes).expect("at most 64 nodes");
        let device = Device {
            numa: Some(vec![numa]),
            healthy: true,
        };
        (format!("g{index}").as_str().into(), device)
    };
    (0..count).map(device).collect()
}

/// The two device resources of crowded nodes.
pub(crate) const DEVICES: [&str; 2] = ["example.com/gpu", "example.com/nic"];

/// A node with two kinds of devices, four of each per NUMA node, and hugepages.
pub(crate) fn rich_node(nodes: usize) -> Ledger {
    let shape = MachineShape {
        nodes,
        cpus: 64 * nodes,
        caches: 2,
        hugepages: 4096,
    };
    let mut ledger = ledger(shape.machine(), settings("best-effort", "container"));
    for name in DEVICES {
        ledger.set_devices(ResourceName::from(name), Some(offer(4 * nodes, nodes)));
    }
    ledger
}

/// The same after random pods of all sizes were added and some of them removed.
pub(crate) fn crowded_node(nodes: usize, seed: u64) -> Ledger {
    let mut random = Random(seed);
    let mut ledger = rich_node(nodes);
    let mut admitted = Vec::new();
    for number in 0..6 * nodes {
        let (cpus, gib) = (1 + random.below(40), 1 + random.below(40));
        let (gpus, nics) = (random.below(3), random.below(3));
        let pod = pod(
            &format!("pod-{number}"),
            &[
                ("cpu", &cpus.to_string()),
                ("memory", &format!("{gib}Gi")),
                (DEVICES[0], &gpus.to_string()),
                (DEVICES[1], &nics.to_string()),
            ],
        );
        let admission = ledger.admit(&pod, &mut NoPreference).expect("a new pod");
        if admission.decision.is_admitted() {
            admitted.push(pod.uid.clone());
        }
        if random.chance(40) && !admitted.is_empty() {
            let removed = usize::try_from(random.below(admitted.len() as u64)).unwrap_or(0);
            ledger
                .release(&admitted.swap_remove(removed))
                .expect("an admitted pod");
        }
    }
    ledger
}
