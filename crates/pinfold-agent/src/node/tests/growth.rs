//! How the cost of a decision grows with the pod and the node: at a size, and at four times of it.
//!
//! The cost is CPU time, and where valgrind can count them, instructions: a program cannot count its own on most virtual
//! machines. Counting takes a minute, so that only `.ci/run` and `make soak` do it.

use std::io::Write;
use std::process::Command;

use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_core::memory::MemoryReservation;
use pinfold_core::name::ResourceName;
use pinfold_core::pod::{Container, ResourceList};
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::MemoryManagerPolicy;
use rustix::time::{ClockId, clock_gettime};

use super::*;

/// How often a decision is measured: the least time counts.
const ROUNDS: usize = 3;

/// The dimensions of a pod and of a node.
#[derive(Clone, Copy, Debug)]
struct Size {
    containers: usize,
    inits: usize,
    /// Resources of device plugins that the first container requests.
    resources: usize,
    /// Devices of each of these resources.
    devices: usize,
    numa_nodes: usize,
    cpus: usize,
    /// Pods on the node, each with a container that runs.
    pods: usize,
}

const SMALL: Size = Size {
    containers: 4,
    inits: 0,
    resources: 1,
    devices: 8,
    numa_nodes: 8,
    cpus: 256,
    pods: 8,
};

fn quantity(text: &str) -> Quantity {
    text.parse().expect("a quantity")
}

fn list(amounts: &[(&str, &str)]) -> ResourceList {
    let amounts = amounts.iter();
    amounts
        .map(|&(name, amount)| (name.into(), quantity(amount)))
        .collect()
}

fn resource(number: usize) -> ResourceName {
    format!("example.com/r{number}").as_str().into()
}

impl Size {
    fn node(self, folder: &Path) -> ManagedNode {
        let cores = self.cpus / 2 / self.numa_nodes;
        let machine = format!("{} sockets, 1 numa, {cores} cores, smt2", self.numa_nodes);
        let hardware = pinfold_hardware::synthetic::read(&machine).expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("a machine");
        let reserved = list(&[("memory", "1Gi")]);
        let settings = Settings {
            topology_policy: "best-effort".parse().expect("a policy"),
            topology_options: [("max-allowable-numa-nodes".into(), "64".into())].into(),
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some(quantity("2")),
            memory_policy: MemoryManagerPolicy::Static,
            reserved_memory: vec![MemoryReservation {
                numa_node: 0,
                limits: reserved.clone(),
            }],
            node_reservation: reserved,
            ..Settings::default()
        };
        let rules = Arc::new(Rules::new(Arc::new(machine), settings).expect("settings that fit"));
        let journaled = JournaledLedger::open(folder, rules, JournalLimits::default());
        let mut node = ManagedNode::new(
            journaled.expect("a journal"),
            Rulebook::Kubelet,
            UnknownContainers::Adopt,
            KubeletPins::default(),
        );
        for number in 0..self.resources {
            let offered = (0..self.devices).map(|device| {
                let numa_node = i64::try_from(device % self.numa_nodes).expect("few");
                let name = format!("device-{device}").as_str().into();
                let device = Device {
                    numa: Some(vec![numa_node]),
                    healthy: true,
                };
                (name, device)
            });
            let offered: AdvertisedDevices = offered.collect();
            let set = node
                .journaled_mut()
                .set_devices(&resource(number), Some(offered), NOW);
            set.expect("journaled");
        }
        for number in 0..self.pods {
            let uid = format!("before-{number}");
            let pod = pod_of(&uid, vec![container("main", &list(&[("memory", "1Mi")]))]);
            let sandbox = sandbox(&uid, &pod);
            let id = sandbox.id.clone();
            let added = node.add_pod(sandbox, Some(&pod), &mut NoPreference, NOW);
            added.expect("admitted");
            let running = ManagedContainer::new(uid, node.sandbox(&id).expect("it"), "main".into());
            let added = node.add_container(running, &mut NoPreference, NOW);
            added.expect("admitted");
        }
        node
    }

    fn pod(self) -> PodObject {
        let small = list(&[("cpu", "10m"), ("memory", "1Mi")]);
        let mut first = list(&[("cpu", "2"), ("memory", "1Mi")]);
        for number in 0..self.resources {
            first.insert(resource(number), quantity("1"));
        }
        let named = |prefix: &str, count: usize, amounts: &ResourceList| {
            let names = (0..count).map(|number| format!("{prefix}-{number}"));
            let all = names.map(|name| container(&name, amounts));
            all.collect::<Vec<Container>>()
        };
        let mut pod = pod_of("new", named("app", self.containers - 1, &small));
        pod.pod.containers.push(container("first", &first));
        pod.pod.init_containers = named("init", self.inits, &small);
        pod
    }

    /// CPU time of this thread for deciding about the pod and journaling it, in nanoseconds, the least of some rounds.
    fn cpu_time(self) -> f64 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut node = self.node(folder.path());
        let pod = self.pod();
        let rounds = (0..ROUNDS).map(|_| {
            let sandbox = sandbox("new", &pod);
            let id = sandbox.id.clone();
            let start = thread_time();
            decide_on_new_pod(&mut node, sandbox, &pod);
            let took = thread_time() - start;
            node.stop_pod(&id, NOW).expect("released");
            took
        });
        rounds.fold(f64::INFINITY, f64::min)
    }
}

/// What is measured. Valgrind finds it by its name.
#[inline(never)]
fn decide_on_new_pod(node: &mut ManagedNode, sandbox: Sandbox, pod: &PodObject) {
    let added = node.add_pod(sandbox, Some(pod), &mut NoPreference, NOW);
    added.expect("admitted");
}

/// A dimension, its smallest size, and the power of it with which a decision may grow.
type Dimension = (&'static str, usize, f64, fn(&mut Size, usize));

const DIMENSIONS: [Dimension; 7] = [
    ("containers", 250, 1.0, |size, n| size.containers = n),
    ("init containers", 250, 1.0, |size, n| size.inits = n),
    ("resources", 32, 1.0, |size, n| size.resources = n),
    ("devices", 1000, 1.0, |size, n| size.devices = n),
    ("NUMA nodes", 16, 1.0, |size, n| size.numa_nodes = n),
    ("CPUs", 1024, 1.0, |size, n| size.cpus = n),
    ("pods", 64, 1.0, |size, n| size.pods = n),
];

fn with((_, smallest, _, set): Dimension, times: usize) -> Size {
    let mut size = SMALL;
    set(&mut size, smallest * times);
    size
}

/// The instructions of a decision, in a process of its own.
fn instructions(dimension: Dimension, times: usize) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*decide_on_new_pod*")
        .arg(program)
        .args(["--ignored", "--exact", "node::tests::growth::one_decision"])
        .env(ONE_DECISION, format!("{times} {}", dimension.0))
        .output();
    let output = output.expect("valgrind");
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text
        .lines()
        .filter_map(|line| line.split_once("Collected :"));
    let mut counts = collected.filter_map(|(_, count)| count.trim().parse().ok());
    let count = counts.next_back().filter(|count| *count > 0.0);
    count.unwrap_or_else(|| panic!("valgrind counted nothing: {text}"))
}

/// How many times its smallest size a dimension has, and its name.
const ONE_DECISION: &str = "PINFOLD_ONE_DECISION";

#[test]
#[ignore = "valgrind counts its instructions"]
fn one_decision() {
    let asked = std::env::var(ONE_DECISION).unwrap_or_default();
    let Some((times, name)) = asked.split_once(' ') else {
        return;
    };
    let dimension = DIMENSIONS.into_iter().find(|(own, ..)| *own == name);
    let size = with(
        dimension.expect("a dimension"),
        times.parse().expect("a number"),
    );
    let folder = tempfile::tempdir().expect("a folder");
    let (mut node, pod) = (size.node(folder.path()), size.pod());
    decide_on_new_pod(&mut node, sandbox("new", &pod), &pod);
}

fn container(name: &str, amounts: &ResourceList) -> Container {
    Container {
        name: name.into(),
        restartable: false,
        requests: amounts.clone(),
        limits: amounts.clone(),
    }
}

fn pod_of(uid: &str, containers: Vec<Container>) -> PodObject {
    let mut pod = pod_spec(uid, "spec: {containers: [{name: main}]}");
    pod.pod.containers = containers;
    pod
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
fn thread_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The dimensions with which the cost grows faster than stated, or almost so.
fn faster(unit: &str, tolerance: f64, cost: impl Fn(Dimension, usize) -> f64) -> Vec<String> {
    let mut faster = Vec::new();
    for dimension in DIMENSIONS {
        let (name, _, power, _) = dimension;
        let [small, large] = [1, 4].map(|times| cost(dimension, times));
        let found = (large / small).log2() / 2.0;
        let row = format!("{name}: from {small:.0} to {large:.0} {unit}, power {found:.2}");
        // `cargo test -- --nocapture growth` shows it.
        writeln!(std::io::stdout(), "{row} of {power}").expect("standard output");
        if found > power + tolerance {
            faster.push(row);
        }
    }
    faster
}

#[test]
fn no_dimension_of_a_pod_or_node_makes_a_decision_grow_faster_than_stated() {
    // Half of a power is much more than the noise of a busy machine, and not the next power.
    let faster = faster("ns", 0.5, |dimension, times| {
        with(dimension, times).cpu_time()
    });
    assert!(faster.is_empty(), "{faster:#?}");
}

#[test]
#[ignore = "needs valgrind and a minute, and starts processes: .ci/run and make soak run it alone"]
fn no_dimension_makes_the_instructions_of_a_decision_grow_faster_than_stated() {
    let faster = faster("instructions", 0.1, instructions);
    assert!(faster.is_empty(), "{faster:#?}");
}
