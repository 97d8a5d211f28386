//! The cost of a decision grows linearly with every dimension of the pod and the node, counted by [`crate::steps`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Ledger, Rules};
use crate::device::{Device, NoPreference};
use crate::fidelity::Fidelity;
use crate::machine::{Machine, UniformMachine};
use crate::memory::MemoryReservation;
use crate::pod::{Container, Pod};
use crate::quantity::Quantity;
use crate::settings::CpuManagerPolicy;
use crate::settings::MemoryManagerPolicy;
use crate::settings::Settings;
use crate::steps;

/// The sizes of a node and of the pod that it decides about.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    containers: usize,
    init_containers: usize,
    sidecars: usize,
    resources: usize,
    cpus: u32,
    pods: usize,
    devices: usize,
}

const SMALL: Sizes = Sizes {
    containers: 4,
    init_containers: 0,
    sidecars: 0,
    resources: 1,
    cpus: 256,
    pods: 4,
    devices: 8,
};

#[derive(Clone, Copy, Debug)]
struct Mode {
    policy: &'static str,
    scope: &'static str,
    pod_level: bool,
    fidelity: Fidelity,
}

fn ledger(sizes: Sizes, mode: Mode) -> Ledger {
    let machine = Machine::uniform(UniformMachine {
        sockets: 2,
        nodes_per_socket: 1,
        cores_per_node: sizes.cpus / 4,
        threads_per_core: 2,
        memory_per_node: 1 << 40,
    })
    .unwrap();
    let gi = Quantity::from(1 << 30);
    let settings = Settings {
        fidelity: mode.fidelity,
        topology_policy: mode.policy.parse().expect("a policy"),
        topology_scope: mode.scope.parse().expect("a scope"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(Quantity::from(1)),
        memory_policy: MemoryManagerPolicy::Static,
        reserved_memory: vec![MemoryReservation {
            numa_node: 0,
            limits: [("memory".into(), gi)].into(),
        }],
        node_reservation: [("memory".into(), gi)].into(),
        pod_level_resources: mode.pod_level,
        ..Settings::default()
    };
    let mut ledger = Ledger::new(Arc::new(Rules::new(Arc::new(machine), settings).unwrap()));
    for resource in 0..sizes.resources {
        let device = |id: usize| {
            let numa = Some(vec![i64::from(id % 2 == 1)]);
            let device = Device {
                numa,
                healthy: true,
            };
            (format!("{id:05}").into(), device)
        };
        let devices: BTreeMap<_, _> = (0..sizes.devices).map(device).collect();
        ledger.set_devices(device_name(resource).into(), Some(devices));
    }
    for pod in 0..sizes.pods {
        let pod = Pod::guaranteed(&format!("held-{pod}"), amounts(1, 0));
        admit(&mut ledger, pod);
    }
    ledger
}

fn device_name(resource: usize) -> String {
    format!("example.com/{resource:05}")
}

fn amounts(cpus: i64, mebibytes: i64) -> [(&'static str, Quantity); 2] {
    let memory = Quantity::from((1 + mebibytes) << 20);
    [("cpu", Quantity::from(cpus)), ("memory", memory)]
}

/// The pod whose decision is measured. Its first containers request CPUs of their own; all request memory, and the
/// first one all device resources. Init containers become smaller, so that each leaves memory to the next one.
fn pod(sizes: Sizes, mode: Mode) -> Pod {
    let named = |prefix: &str, at: usize| format!("{prefix}-{at:05}");
    let mut containers: Vec<Container> = (0..sizes.containers)
        .map(|at| {
            let mut one = Container::guaranteed(&named("app", at), amounts(1, 0));
            if at >= 32 {
                let shared: Quantity = "500m".parse().unwrap();
                one.requests.insert("cpu".into(), shared);
                one.limits.insert("cpu".into(), shared);
            }
            one
        })
        .collect();
    for resource in 0..sizes.resources {
        let name = device_name(resource).as_str().into();
        let first = &mut containers[0];
        first.requests.insert(name, Quantity::from(1));
        first.limits = first.requests.clone();
    }
    let init = (0..sizes.init_containers).map(|at| {
        let left = i64::try_from(sizes.init_containers - at).unwrap();
        Container::guaranteed(&named("init", at), amounts(2, left))
    });
    let sidecars = (0..sizes.sidecars).map(|at| {
        let half = ("cpu", "500m".parse().unwrap());
        Container::guaranteed(&named("side", at), [half, amounts(1, 1)[1]]).restartable()
    });
    let mut pod = Pod::new("measured", containers).with_init(init.chain(sidecars));
    if mode.pod_level {
        let most = [
            ("cpu".into(), Quantity::from(64)),
            ("memory".into(), Quantity::from(1 << 36)),
        ];
        pod.pod_requests = Some(most.clone().into());
        pod.pod_limits = Some(most.into());
    }
    pod
}

fn admit(ledger: &mut Ledger, pod: Pod) {
    let decision = ledger
        .admit(&Arc::new(pod), &mut NoPreference)
        .unwrap()
        .decision;
    assert!(decision.is_admitted(), "{:?}", decision.rejection());
}

/// The steps of admitting the pod and of releasing it again.
fn cost(sizes: Sizes, mode: Mode) -> [usize; 2] {
    let mut ledger = ledger(sizes, mode);
    let pod = pod(sizes, mode);
    let uid = pod.uid.clone();
    let admission = steps::of(|| admit(&mut ledger, pod));
    let release = steps::of(|| {
        ledger.release(&uid).unwrap();
    });
    [admission, release]
}

#[test]
fn the_cost_of_a_decision_grows_linearly_with_the_pod_and_the_node() {
    type Grow = fn(&mut Sizes, usize);
    let dimensions: [(&str, usize, Grow); 7] = [
        ("containers", 64, |sizes, to| sizes.containers = to),
        ("init containers", 64, |sizes, to| {
            sizes.init_containers = to;
        }),
        ("sidecars", 64, |sizes, to| sizes.sidecars = to),
        ("device resources", 16, |sizes, to| sizes.resources = to),
        ("CPUs", 512, |sizes, to| {
            sizes.cpus = u32::try_from(to).unwrap();
        }),
        ("pods held", 32, |sizes, to| sizes.pods = to),
        ("devices", 64, |sizes, to| sizes.devices = to),
    ];
    let modes = [Fidelity::Sound, Fidelity::Exact]
        .into_iter()
        .flat_map(|fidelity| {
            [
                ("none", "container", false),
                ("best-effort", "container", false),
                ("restricted", "pod", false),
                ("best-effort", "pod", true),
            ]
            .map(|(policy, scope, pod_level)| Mode {
                policy,
                scope,
                pod_level,
                fidelity,
            })
        });
    for mode in modes {
        for (name, from, grow) in dimensions {
            let costs: Vec<[usize; 2]> = (0..3)
                .map(|doubled| {
                    let mut sizes = SMALL;
                    grow(&mut sizes, from << doubled);
                    cost(sizes, mode)
                })
                .collect();
            for pair in costs.windows(2) {
                for (before, after) in pair[0].into_iter().zip(pair[1]) {
                    // A sorted map compares log n names: a little more than twice the cost.
                    assert!(
                        after <= before * 5 / 2 + 200,
                        "twice the {name} from {from} cost {costs:?} under {mode:?}"
                    );
                }
            }
        }
    }
}
