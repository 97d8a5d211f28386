//! Random machines, settings, pods and events, the same for the same seed on every machine.
//!
//! `PINFOLD_CASES=N` runs more histories than the default, `PINFOLD_SEED=N` others.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuId;
use pinfold_core::device::{Device, NoPreference};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Change, Ledger, Rules};
use pinfold_core::machine::{Core, HugePages, Machine, MachineParts, NumaNode};
use pinfold_core::memory::MemoryReservation;
use pinfold_core::name::{ContainerName, DeviceId, PodUid, ResourceName};
use pinfold_core::node_set::NodeId;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::Settings;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, TopologyScope};

/// A small random number generator: the same seed gives the same history on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("small")]
    }
}

const GIB: u64 = 1 << 30;

/// Up to 8 NUMA nodes with gaps in their IDs, some without CPUs, some cores with a missing thread.
fn machine(random: &mut Random) -> Machine {
    let count = 1 + random.below(8);
    let sparse = random.chance(30);
    let threads = 1 + random.below(2);
    let mut cpu = 0;
    let mut nodes = Vec::new();
    for position in 0..count {
        let id = if sparse { position * 3 + 1 } else { position };
        let mut cores = Vec::new();
        let bare = position > 0 && random.chance(10);
        for core in 0..if bare { 0 } else { 1 + random.below(4) } {
            let own = if random.chance(5) { 1 } else { threads };
            let ids = (0..own).map(|_| {
                cpu += 1;
                CpuId::new(cpu - 1).expect("few CPUs")
            });
            cores.push(Core {
                id: u32::try_from(core).expect("few cores"),
                socket: u32::try_from(position / 2).expect("few sockets"),
                die: None,
                l3: random
                    .chance(50)
                    .then(|| u32::try_from(position).expect("few nodes")),
                threads: ids.collect(),
            });
        }
        nodes.push(NumaNode {
            id: NodeId::new(i64::try_from(id).expect("small")).expect("below 64"),
            memory: (4 + random.below(8)) * GIB,
            hugepages: vec![HugePages {
                size_kib: 2048,
                count: random.below(512),
            }],
            distances: Vec::new(),
            cores,
        });
    }
    let sockets = usize::try_from(count.div_ceil(2)).expect("few");
    let parts = MachineParts {
        num_cpus: usize::try_from(cpu).expect("few").max(1),
        num_sockets: sockets,
        nodes,
        ..MachineParts::default()
    };
    Machine::new(parts).expect("the generator makes machines")
}

fn settings(random: &mut Random, machine: &Machine) -> Settings {
    let mut cpu_options = BTreeMap::new();
    for option in [
        "full-pcpus-only",
        "distribute-cpus-across-numa",
        "strict-cpu-reservation",
        "prefer-align-cpus-by-uncorecache",
    ] {
        if random.chance(20) {
            cpu_options.insert(option.to_owned(), "true".to_owned());
        }
    }
    let first = machine.nodes()[0].id.get();
    let reserved = ResourceList::from([(ResourceName::from("memory"), Quantity::bytes(1 << 29))]);
    Settings {
        fidelity: Fidelity::Sound,
        topology_policy: random.pick(&TopologyPolicy::ALL),
        topology_scope: random.pick(&[TopologyScope::Container, TopologyScope::Pod]),
        cpu_policy: random.pick(&[
            CpuManagerPolicy::Static,
            CpuManagerPolicy::Static,
            CpuManagerPolicy::Static,
            CpuManagerPolicy::None,
        ]),
        reserved_cpu: Some(Quantity::milli(1000)),
        memory_policy: random.pick(&[
            MemoryManagerPolicy::Static,
            MemoryManagerPolicy::Static,
            MemoryManagerPolicy::None,
        ]),
        reserved_memory: vec![MemoryReservation {
            numa_node: first.into(),
            limits: reserved.clone(),
        }],
        node_reservation: reserved,
        pod_level_resources: random.chance(30),
        ..Settings::default()
    }
    .with(|settings| {
        if settings.cpu_policy == CpuManagerPolicy::Static {
            settings.cpu_options = cpu_options;
        }
    })
}

trait With: Sized {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl With for Settings {}

fn container(random: &mut Random, name: String) -> Container {
    let mut limits = ResourceList::new();
    let cpus = random.pick(&[500, 1000, 1000, 2000, 2000, 3000, 4000, 6000]);
    limits.insert("cpu".into(), Quantity::milli(cpus));
    let memory = (1 + random.below(40)) << 27;
    limits.insert(
        "memory".into(),
        Quantity::bytes(i64::try_from(memory).expect("small")),
    );
    if random.chance(20) {
        let pages = (1 + random.below(64)) << 21;
        limits.insert(
            "hugepages-2Mi".into(),
            Quantity::bytes(i64::try_from(pages).expect("small")),
        );
    }
    if random.chance(30) {
        limits.insert("example.com/gpu".into(), Quantity::from(1));
    }
    let requests = match random.chance(85) {
        true => limits.clone(),
        false => ResourceList::from([("cpu".into(), Quantity::milli(cpus / 2))]),
    };
    Container {
        name: ContainerName::from(name),
        restartable: false,
        requests,
        limits,
    }
}

/// A pod of one or two app containers and up to two init containers, some of them sidecars.
pub(crate) fn pod(random: &mut Random, number: u64) -> Arc<Pod> {
    let mut init_containers = Vec::new();
    for index in 0..random.below(3) {
        let mut init = container(random, format!("init{index}"));
        init.restartable = random.chance(30);
        init_containers.push(init);
    }
    let apps = 1 + random.below(2);
    let containers = (0..apps)
        .map(|index| container(random, format!("c{index}")))
        .collect();
    let mut pod = Pod {
        uid: PodUid::from(format!("p{number}")),
        name: String::new(),
        init_containers,
        containers,
        pod_requests: None,
        pod_limits: None,
    };
    if random.chance(15) {
        let whole = ResourceList::from([
            ("cpu".into(), Quantity::from(4)),
            ("memory".into(), Quantity::bytes(4 << 30)),
        ]);
        pod.pod_requests = Some(whole.clone());
        pod.pod_limits = Some(whole);
    }
    Arc::new(pod)
}

fn plug_in(random: &mut Random, ledger: &mut Ledger) -> Option<Change> {
    let nodes: Vec<i64> = ledger
        .rules()
        .machine()
        .nodes()
        .iter()
        .map(|node| node.id.get().into())
        .collect();
    let devices = (0..random.below(6)).map(|index| {
        let numa = random.chance(80).then(|| vec![random.pick(&nodes)]);
        (
            DeviceId::from(format!("g{index}")),
            Device {
                numa,
                healthy: random.chance(90),
            },
        )
    });
    let devices = devices.collect();
    ledger.set_devices("example.com/gpu".into(), Some(devices))
}

/// Runs one random history and calls `check` after every event with the ledger before and after it.
pub(crate) fn play(seed: u64, mut check: impl FnMut(&Ledger, &Ledger, Option<&Change>)) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let machine = Arc::new(machine(&mut random));
    let Ok(rules) = Rules::new(machine.clone(), settings(&mut random, &machine)) else {
        return;
    };
    let mut ledger = Ledger::new(Arc::new(rules));
    let before = ledger.clone();
    let change = plug_in(&mut random, &mut ledger);
    check(&before, &ledger, change.as_ref());
    for number in 0..40 {
        let before = ledger.clone();
        let admitted: Vec<Arc<Pod>> = ledger
            .admitted_pods()
            .iter()
            .map(|one| one.pod.clone())
            .collect();
        let change = match random.below(10) {
            0..6 => {
                ledger
                    .admit(&pod(&mut random, number), &mut NoPreference)
                    .expect("a new pod")
                    .change
            }
            6..8 if !admitted.is_empty() => {
                let released =
                    &admitted[usize::try_from(random.below(admitted.len() as u64)).expect("small")];
                Some(ledger.release(&released.uid).expect("an admitted pod"))
            }
            8 if !admitted.is_empty() => {
                let starting =
                    &admitted[usize::try_from(random.below(admitted.len() as u64)).expect("small")];
                ledger
                    .start(&starting.uid, &starting.containers[0].name)
                    .expect("an admitted pod")
            }
            _ => {
                ledger
                    .restart(&mut NoPreference)
                    .expect("a sound node always comes back");
                None
            }
        };
        check(&before, &ledger, change.as_ref());
    }
}

/// The seeds to run: `PINFOLD_CASES` of them from `PINFOLD_SEED` on.
pub(crate) fn histories() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("PINFOLD_SEED").unwrap_or(0);
    first..first + number("PINFOLD_CASES").unwrap_or(400)
}
