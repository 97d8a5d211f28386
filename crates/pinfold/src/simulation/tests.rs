//! The cost of a pod does not grow with the number of pods.

use std::time::Duration;

use pinfold_core::name::PodUid;
use pinfold_core::pod::Container;
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
