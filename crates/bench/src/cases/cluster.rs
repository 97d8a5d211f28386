//! One pod and thousands of nodes in random states: every node is asked and the candidates are ranked.
//!
//! Cold: a shape that nobody asked about before. Warm: one of its kind was asked before, and a few pods came or went.

use std::hint::black_box;
use std::sync::Arc;

use pinfold_core::cluster::{Cluster, ClusterNode, MAX_SHAPES, PodRequest};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::koordinator::amounts::Amounts;
use pinfold_core::koordinator::plugin::KoordinatorArgs;
use pinfold_core::name::NodeName;
use pinfold_core::pod::Pod;

use super::koordinator::{self, Machine};
use super::volcano;
use crate::case::{Case, Group};
use crate::fixture;
use crate::merge_cases::Random;

const NODES: usize = 5000;
/// So many nodes change between two pods.
const CHANGED: usize = 10;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in [Kind::Koordinator, Kind::Volcano] {
        for (cpus, nodes) in [(128, 2), (256, 8)] {
            let machine = Machine { cpus, nodes };
            let name = |heat: &str| {
                format!("{NODES} {kind:?} nodes, {cpus} CPUs on {nodes} NUMA nodes, {heat}")
            };
            let cold = Case::new(Group::Cluster, name("cold"), move || {
                let mut cluster = kind.cluster(machine);
                // More shapes than are remembered, so that each comes back forgotten.
                let sizes = (0..).take(MAX_SHAPES + 4);
                let asks: Vec<PodRequest> = sizes.map(|size| kind.ask("cold", size)).collect();
                let mut turn = 0;
                move || {
                    turn = (turn + 1) % asks.len();
                    assert!(!black_box(cluster.rank(&asks[turn])).is_empty());
                }
            });
            cases.push(cold.within_us(20_000.0));
            let warm = Case::new(Group::Cluster, name("warm"), move || {
                let mut cluster = kind.cluster(machine);
                let ask = kind.ask("next", 0);
                let comers: Vec<PodRequest> = (0..CHANGED)
                    .map(|at| kind.ask(&format!("comer-{at}"), 1))
                    .collect();
                let best: Vec<NodeName> = (cluster.rank(&comers[0]).iter())
                    .map(|ranked| ranked.node.clone())
                    .take(CHANGED)
                    .collect();
                let mut come = true;
                move || {
                    for (comer, node) in comers.iter().zip(&best) {
                        match come {
                            true => drop(cluster.place_on(comer, node)),
                            false => drop(cluster.remove(comer.uid())),
                        }
                    }
                    come = !come;
                    assert!(!black_box(cluster.rank(&ask)).is_empty());
                }
            });
            cases.push(warm.within_us(2000.0));
        }
    }
    cases
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Koordinator,
    Volcano,
}

impl Kind {
    /// Nodes between empty and full, no two alike.
    fn cluster(self, machine: Machine) -> Cluster {
        let mut cluster = Cluster::new();
        let args = Arc::new(KoordinatorArgs::default());
        for at in 0..NODES {
            let mut random = Random(at as u64);
            let percent = random.below(101);
            let member = match self {
                Kind::Koordinator => {
                    let mut node = machine.node("SingleNUMANode");
                    let half = machine.cpus / 2;
                    let held = (0..half).filter(|_| random.chance(percent));
                    let held: Vec<usize> = held.flat_map(|core| [core, core + half]).collect();
                    for (pod, cpus) in held.chunks(8).enumerate() {
                        machine.hold(&mut node, &format!("resident-{pod}"), cpus);
                    }
                    ClusterNode::koordinator(node, args.clone())
                }
                Kind::Volcano => {
                    let is_free = |_| !random.chance(percent);
                    let numa = volcano::numa(machine, "single-numa-node", is_free);
                    let cpus = i64::try_from(machine.cpus).expect("a small machine");
                    let allocatable =
                        Amounts::from([("cpu", cpus * 1000), ("memory", 1 << 40), ("pods", 110)]);
                    ClusterNode::volcano(
                        Some(numa),
                        pinfold_core::volcano::numa_amounts::NumaAmounts::default(),
                        allocatable,
                        Fidelity::Sound,
                    )
                }
            };
            cluster.insert(format!("node-{at:04}").into(), member);
        }
        cluster
    }

    /// A pod of the originals' figures, with a little more memory for each `size`.
    fn ask(self, uid: &str, size: i64) -> PodRequest {
        let memory = format!("{}Mi", 16 * 1024 + size);
        let pod = fixture::pod(uid, &[("cpu", "8"), ("memory", &memory)]);
        let mut demand = koordinator::pod();
        demand
            .requests
            .set(&"memory".into(), (16 * 1024 + size) << 20);
        let ask = PodRequest::new(Arc::new(Pod::clone(&pod)));
        match self {
            Kind::Koordinator => ask.with_koordinator(demand),
            Kind::Volcano => ask.with_volcano_policy("single-numa-node"),
        }
    }
}
