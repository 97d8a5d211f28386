//! One pod on one node under Koordinator: filter with a trial allocation.

use std::hint::black_box;

use pinfold_cluster::koordinator::amounts::{Amounts, NodeAmounts};
use pinfold_cluster::koordinator::cpu_topology::{KoordinatorTopology, ReportedCpu};
use pinfold_cluster::koordinator::ledger::Allocation;
use pinfold_cluster::koordinator::node::{KoordinatorNode, KoordinatorReport};
use pinfold_cluster::koordinator::plugin::{KoordinatorArgs, PodDemand, filter, pre_filter};
use pinfold_cluster::koordinator::policy_values::{
    BindPolicy, ExclusiveLevel, NumaPolicy, ResourceSpec,
};
use pinfold_cluster::koordinator::qos::KoordinatorQos;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;

use crate::case::{BenchCase, Group};
use crate::fixture::node_id;
use crate::reference::koordinator_filter;

const GIB: i64 = 1 << 30;

/// Every shape of Koordinator's record on the empty node, and on a node that is too fragmented for the pod.
pub(super) fn cases() -> Vec<BenchCase> {
    let mut cases = Vec::new();
    for shape in koordinator_filter() {
        let (cpus, nodes) = (shape.number("CPUs"), shape.number("NUMA"));
        let text = shape.text("NUMA policy");
        let name = |end: &str| format!("filter, {cpus} CPUs on {nodes} NUMA nodes, {text}, {end}");
        let machine = BenchMachine { cpus, nodes };
        let empty = BenchCase::new(Group::Koordinator, name("admitted"), move || {
            let node = machine.node(text);
            assert!(filtered(&node), "the pod fits an empty node");
            move || assert!(filtered(&node))
        });
        cases.push(empty.beside(shape.plugin_reference()).within_us(10.0));
        let crowded = BenchCase::new(Group::Koordinator, name("rejected"), move || {
            let mut node = machine.node(text);
            machine.leave(&mut node, if text == "(none)" { 0 } else { 6 });
            assert!(
                text == "Restricted" || !filtered(&node),
                "too few on each NUMA node"
            );
            move || _ = black_box(filtered(&node))
        });
        cases.push(crowded.within_us(10.0));
    }
    cases
}

fn filtered(node: &KoordinatorNode) -> bool {
    let args = KoordinatorArgs::default();
    let state = pre_filter(&pod(), &args, Fidelity::Sound).ok().flatten();
    state.is_some_and(|state| black_box(filter(&state, node, &args)).is_ok())
}

/// The pod of the record: 8 CPUs in whole cores and 16 GiB.
pub(super) fn pod() -> PodDemand {
    let amounts = Amounts::from([("cpu", 8000), ("memory", 16 * GIB)]);
    PodDemand {
        requests: amounts.clone(),
        limits: amounts,
        qos: Some(KoordinatorQos::Lsr),
        priority: None,
        spec: ResourceSpec {
            required_bind: Some(BindPolicy::FullPcpus),
            ..ResourceSpec::default()
        },
        ..PodDemand::default()
    }
}

/// The machine of the records: two sockets, two threads per core, CPU i and i + n/2 siblings.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchMachine {
    pub(super) cpus: usize,
    pub(super) nodes: usize,
}

impl BenchMachine {
    /// An empty node with 64 GiB on each NUMA node.
    pub(super) fn node(self, policy: &str) -> KoordinatorNode {
        let topology = KoordinatorTopology::from_report(
            (0..self.cpus).map(|at| self.row(at)),
            Fidelity::Sound,
        );
        let milli = |cpus: usize| i64::try_from(cpus * 1000).expect("a small machine");
        let zone = |node: usize| NodeAmounts {
            node: node_id(node),
            amounts: Amounts::from([("cpu", milli(self.cpus / self.nodes)), ("memory", 64 * GIB)]),
        };
        let zones: Vec<NodeAmounts> = (0..self.nodes).map(zone).collect();
        let memory = 64 * GIB * i64::try_from(self.nodes).expect("a small machine");
        let none = CpuSet::new();
        KoordinatorNode {
            numa_policy: match policy {
                "SingleNUMANode" => Some(NumaPolicy::SingleNumaNode),
                "Restricted" => Some(NumaPolicy::Restricted),
                _ => None,
            },
            allocatable: Amounts::from([
                ("cpu", milli(self.cpus)),
                ("memory", memory),
                ("pods", 110),
            ]),
            report: Some(KoordinatorReport::new(topology, &none, none.clone(), zones)),
            ..KoordinatorNode::default()
        }
    }

    /// A CPU of the machine.
    pub(super) fn cpu(at: usize) -> CpuId {
        let id = u32::try_from(at).ok().and_then(CpuId::new);
        id.expect("at most 4096 CPUs")
    }

    /// The NUMA node of a CPU.
    pub(super) fn node_of(self, cpu: usize) -> usize {
        cpu % (self.cpus / 2) * self.nodes / (self.cpus / 2)
    }

    fn row(self, at: usize) -> ReportedCpu {
        let core = at % (self.cpus / 2);
        let id = |value: usize| i64::try_from(value).expect("a small machine");
        ReportedCpu {
            cpu: Self::cpu(at),
            core: id(core % (self.cpus / 4)),
            node: id(self.node_of(at)),
            socket: id(core / (self.cpus / 4)),
        }
    }

    /// Adds pods that hold all CPUs of each NUMA node except `free` of them.
    fn leave(self, node: &mut KoordinatorNode, free: usize) {
        for numa in 0..self.nodes {
            let mut cpus: Vec<usize> = (0..self.cpus / 2)
                .filter(|&core| self.node_of(core) == numa)
                .flat_map(|core| [core, core + self.cpus / 2])
                .collect();
            cpus.truncate(cpus.len() - free);
            self.hold(node, &format!("pod-{numa}"), &cpus);
        }
    }

    /// Adds a pod that holds these CPUs and memory for each of them.
    pub(super) fn hold(self, node: &mut KoordinatorNode, pod: &str, cpus: &[usize]) {
        let amounts = |count: usize| {
            let count = i64::try_from(count).expect("a small machine");
            Amounts::from([("cpu", count * 1000), ("memory", count * GIB / 4)])
        };
        let on = |numa: usize| {
            cpus.iter()
                .filter(|&&cpu| self.node_of(cpu) == numa)
                .count()
        };
        let parts = (0..self.nodes).filter(|&numa| on(numa) > 0);
        let allocation = Allocation {
            cpus: cpus.iter().map(|&cpu| Self::cpu(cpu)).collect(),
            exclusive: ExclusiveLevel::Nothing,
            numa: parts
                .map(|numa| NodeAmounts {
                    node: node_id(numa),
                    amounts: amounts(on(numa)),
                })
                .collect(),
        };
        node.assume(pod.into(), &amounts(cpus.len()), Some(allocation));
    }
}
