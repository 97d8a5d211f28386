//! One pod and thousands of nodes in random states: every node is evaluated and the candidates are ranked.
//!
//! Cold: no pod of the shape was evaluated before. Warm: one was, and a few pods were added or removed since.

use std::hint::black_box;
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::plugin::KoordinatorArgs;
use pinfold_cluster::{Cluster, ClusterNode, MAX_SHAPES, PodRequest};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::NodeName;
use pinfold_core::pod::Pod;

use super::koordinator::{self, BenchMachine};
use super::volcano;
use crate::case::{BenchCase, Group};
use crate::fixture;
use crate::merge_cases::Random;

const NODES: usize = 5000;
/// The number of nodes that change between two pods.
const CHANGED: usize = 10;

pub(super) fn cases() -> Vec<BenchCase> {
    let mut cases = Vec::new();
    for kind in [SchedulerKind::Koordinator, SchedulerKind::Volcano] {
        for (cpus, nodes) in [(128, 2), (256, 8)] {
            let machine = BenchMachine { cpus, nodes };
            let name = |heat: &str| {
                format!("{NODES} {kind:?} nodes, {cpus} CPUs on {nodes} NUMA nodes, {heat}")
            };
            let cold = BenchCase::new(Group::Cluster, name("cold"), move || {
                let mut cluster = kind.cluster(machine);
                // More shapes than the cache holds, so that none is cached when its turn comes again.
                let sizes = (0..).take(MAX_SHAPES + 4);
                let requests: Vec<PodRequest> =
                    sizes.map(|size| kind.request("cold", size)).collect();
                let mut turn = 0;
                move || {
                    turn = (turn + 1) % requests.len();
                    assert!(!black_box(cluster.rank(&requests[turn])).is_empty());
                }
            });
            cases.push(cold.within_us(20_000.0));
            let warm = BenchCase::new(Group::Cluster, name("warm"), move || {
                let mut cluster = kind.cluster(machine);
                let request = kind.request("next", 0);
                let added: Vec<PodRequest> = (0..CHANGED)
                    .map(|at| kind.request(&format!("pod-{at}"), 1))
                    .collect();
                let best: Vec<NodeName> = (cluster.rank(&added[0]).iter())
                    .map(|ranked| ranked.node.clone())
                    .take(CHANGED)
                    .collect();
                let mut adds = true;
                move || {
                    for (pod, node) in added.iter().zip(&best) {
                        match adds {
                            true => drop(cluster.place_on(pod, node)),
                            false => drop(cluster.remove(pod.uid())),
                        }
                    }
                    adds = !adds;
                    assert!(!black_box(cluster.rank(&request)).is_empty());
                }
            });
            cases.push(warm.within_us(2000.0));
        }
    }
    cases
}

#[derive(Clone, Copy, Debug)]
enum SchedulerKind {
    Koordinator,
    Volcano,
}

impl SchedulerKind {
    /// A cluster of nodes between empty and full, all different.
    fn cluster(self, machine: BenchMachine) -> Cluster {
        let mut cluster = Cluster::new();
        let args = Arc::new(KoordinatorArgs::default());
        for at in 0..NODES {
            let mut random = Random(at as u64);
            let percent = random.below(101);
            let node = match self {
                SchedulerKind::Koordinator => {
                    let mut node = machine.node("SingleNUMANode");
                    let half = machine.cpus / 2;
                    let held = (0..half).filter(|_| random.chance(percent));
                    let held: Vec<usize> = held.flat_map(|core| [core, core + half]).collect();
                    for (pod, cpus) in held.chunks(8).enumerate() {
                        machine.hold(&mut node, &format!("pod-{pod}"), cpus);
                    }
                    ClusterNode::koordinator(node, args.clone())
                }
                SchedulerKind::Volcano => {
                    let is_free = |_| !random.chance(percent);
                    let numa = volcano::numa(machine, "single-numa-node", is_free);
                    let cpus = i64::try_from(machine.cpus).expect("a small machine");
                    let allocatable =
                        Amounts::from([("cpu", cpus * 1000), ("memory", 1 << 40), ("pods", 110)]);
                    ClusterNode::volcano(
                        Some(numa),
                        pinfold_cluster::volcano::numa_amounts::NumaAmounts::default(),
                        allocatable,
                        Fidelity::Sound,
                    )
                }
            };
            cluster.insert(format!("node-{at:04}").into(), node);
        }
        cluster
    }

    /// The pod of the records, with `size` MiB more memory.
    fn request(self, uid: &str, size: i64) -> PodRequest {
        let memory = format!("{}Mi", 16 * 1024 + size);
        let pod = fixture::pod(uid, &[("cpu", "8"), ("memory", &memory)]);
        let mut demand = koordinator::pod();
        demand
            .requests
            .set(&"memory".into(), (16 * 1024 + size) << 20);
        let request = PodRequest::new(Arc::new(Pod::clone(&pod)));
        match self {
            SchedulerKind::Koordinator => request.with_koordinator(demand),
            SchedulerKind::Volcano => request.with_volcano_policy("single-numa-node"),
        }
    }
}
