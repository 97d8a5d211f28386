//! The order of admission on one node, and the cost of a pod, which does not grow with the number of pods.

use std::time::Duration;

use pinfold_core::name::PodUid;
use pinfold_core::pod::Container;
use pinfold_kube::admission::AdmissionRequest;
use pinfold_terminal::DeciderArg;
use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::args::{MachineArg, NodeArgs};

/// The CPU time of this thread.
fn computed() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("time goes forward")
}

fn node(machine: &str) -> SimulatedNode {
    let args = NodeArgs {
        machine: MachineArg {
            machine: machine.to_owned(),
        },
        config: None,
        policy: None,
        scope: None,
        devices: Vec::new(),
        devices_file: None,
        decider: DeciderArg::default(),
    };
    SimulatedNode::open(&args).expect("a node")
}

/// A pod with exclusive CPUs, or in the shared pool if `cpus` is `None`.
fn pod(number: usize, cpus: Option<&str>) -> Arc<Pod> {
    let resource = |name: &str, amount: &str| (name.into(), amount.parse().expect("a quantity"));
    let list = cpus.map(|cpus| [resource("cpu", cpus), resource("memory", "16Mi")]);
    let uid = PodUid::from(format!("pod-{number}"));
    Arc::new(Pod {
        name: uid.to_string(),
        uid,
        init_containers: Vec::new(),
        containers: vec![Container {
            name: "main".into(),
            restartable: false,
            requests: list.clone().into_iter().flatten().collect(),
            limits: list.into_iter().flatten().collect(),
        }],
        pod_requests: None,
        pod_limits: None,
    })
}

/// 100,000 pods on 256 CPUs: nine of ten are in the shared pool and stay, every tenth has exclusive CPUs and is removed
/// 500 pods later. The number of pods grows while the number of exclusive CPUs stays the same.
#[test]
fn a_pod_costs_no_more_after_a_hundred_thousand_others() {
    const PODS: usize = 100_000;
    const TENTH: usize = PODS / 10;
    let node = node("2 sockets, 4 numa, 16 cores, smt2");
    let mut simulation = Simulation::new(node.ledger());
    let own = |number: usize| number.is_multiple_of(10);
    let mut costs = Vec::new();
    for tenth in 0..PODS / TENTH {
        let begun = computed();
        for number in tenth * TENTH..(tenth + 1) * TENTH {
            let cpus = own(number).then_some(["1", "2", "3"][number / 10 % 3]);
            let step = simulation.take(SimulationStep::Add(0), |_| pod(number, cpus));
            step.expect("a step");
            if let Some(old) = number.checked_sub(500).filter(|_| own(number)) {
                let step = simulation.take(SimulationStep::Remove(0), |_| pod(old, None));
                step.expect("a step");
            }
        }
        costs.push(computed() - begun);
    }
    assert_eq!(simulation.counts.admitted, PODS, "no pod is rejected");
    // A cost that grows with the number of pods would be nineteen times as large at the end; a map's grows a little.
    let (first, last) = (costs[0], costs[costs.len() - 1]);
    assert!(last < first * 3, "{costs:?}");
}

/// Adds the pods one after the other on a node with room for `most` pods.
fn added(machine: &str, most: i64, pods: &[Arc<Pod>], bound: bool) -> Simulation {
    let mut node = node(machine);
    node.allocatable.set(&"pods".into(), most);
    let requests = pods.iter().map(|pod| AdmissionRequest::of_resources(pod));
    let steps: Vec<SimulationStep> = (0..pods.len()).map(SimulationStep::Add).collect();
    let plan = SimulationPlan {
        admission: Some(NodeAdmission::new(&node, requests.collect(), bound)),
        ..SimulationPlan::new(pods, &steps)
    };
    plan.run_on(&node).expect("steps")
}

fn messages(simulation: &Simulation) -> Vec<&str> {
    let messages = simulation.events.iter();
    messages.map(|event| event.message.as_str()).collect()
}

#[test]
fn a_pod_that_the_predicates_reject_gives_back_what_the_managers_assigned() {
    let pods = [pod(0, Some("1")), pod(1, Some("1"))];
    let simulation = added("4 cores", 1, &pods, true);
    let text =
        "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1";
    assert_eq!(messages(&simulation)[1], text);
    assert_eq!(
        (simulation.counts.admitted, simulation.counts.rejected),
        (1, 1)
    );
    assert!(simulation.ledger.exclusive_cpus(&pods[1].uid).is_empty());
    assert!(!simulation.ledger.exclusive_cpus(&pods[0].uid).is_empty());
}

#[test]
fn the_managers_of_a_bound_pod_reject_before_the_sums() {
    let pods = [pod(0, Some("9"))];
    let bound = added("4 cores", 110, &pods, true);
    let message = messages(&bound)[0];
    assert!(message.starts_with("TopologyAffinityError"), "{message}");
    let scheduled = added("4 cores", 110, &pods, false);
    let text = "Pending: 0/1 nodes are available: 1 Insufficient cpu. (cpu: 9 asked, 3 left)";
    assert_eq!(messages(&scheduled), [text]);
    assert_eq!(scheduled.counts.rejected, 1);
}

#[test]
fn a_pod_whose_sums_fit_is_left_to_the_managers() {
    // Three free CPUs on each of two NUMA nodes: the sum fits, no NUMA node does.
    let simulation = added("2 sockets, 4 cores", 110, &[pod(0, Some("5"))], false);
    let message = messages(&simulation)[0];
    assert!(message.starts_with("TopologyAffinityError"), "{message}");
}
