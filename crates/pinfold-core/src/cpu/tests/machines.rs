//! Machines and pods for the tests.

use std::sync::Arc;

use crate::cpu::{CpuOptions, CpuReservation, CpuState, StaticCpus, StaticSettings};
use crate::cpu_set::{CpuId, CpuList, CpuSet};
use crate::demand::{PodDemand, PodLevel};
use crate::fidelity::Fidelity;
use crate::machine::cpus::CpuTopology;
use crate::machine::{Core, Machine, MachineParts, NumaNode};
use crate::node_set::{NodeId, NodeSet};
use crate::pod::{Container, Pod, ResourceList};
use crate::policy::TopologyPolicy;

/// One core: its socket, its L3 cache and its number of threads.
pub(super) type CoreShape = (u32, Option<u32>, u32);

pub(super) fn cpus(text: &str) -> CpuSet {
    CpuSet::parse(text).unwrap()
}

pub(super) fn nodes(ids: &[i64]) -> NodeSet {
    NodeSet::from_ids(ids.iter().copied()).unwrap()
}

/// A machine of the given cores, node by node; CPUs are numbered in that order.
pub(super) fn topology(shape: &[Vec<CoreShape>]) -> CpuTopology {
    CpuTopology::of(&Machine::new(parts(shape)).unwrap())
}

/// The same machine, but it reports another number of CPUs than it has.
pub(super) fn misreported(shape: &[Vec<CoreShape>], num_cpus: usize) -> CpuTopology {
    let parts = MachineParts {
        num_cpus,
        ..parts(shape)
    };
    CpuTopology::of(&Machine::new(parts).unwrap())
}

fn parts(shape: &[Vec<CoreShape>]) -> MachineParts {
    let mut next = 0..;
    let mut sockets = std::collections::BTreeSet::new();
    let mut nodes = Vec::new();
    for (id, cores) in shape.iter().enumerate() {
        let core = |(id, &(socket, l3, threads)): (usize, &CoreShape)| Core {
            id: u32::try_from(id).unwrap(),
            socket,
            die: None,
            l3,
            threads: next
                .by_ref()
                .take(threads as usize)
                .map(|id| CpuId::new(id).unwrap())
                .collect(),
        };
        nodes.push(NumaNode {
            id: NodeId::new(i64::try_from(id).unwrap()).unwrap(),
            memory: 0,
            hugepages: Vec::new(),
            distances: Vec::new(),
            cores: cores.iter().enumerate().map(core).collect(),
        });
        sockets.extend(cores.iter().map(|core| core.0));
    }
    MachineParts {
        nodes,
        num_cpus: next.start as usize,
        num_sockets: sockets.len(),
        offline: CpuSet::new(),
    }
}

/// Nodes of equal cores, the sockets dividing the nodes evenly.
pub(super) fn even(sockets: u32, nodes: u32, cores: usize, threads: u32) -> CpuTopology {
    let node = |id: u32| vec![(id * sockets / nodes, None, threads); cores];
    topology(&(0..nodes).map(node).collect::<Vec<_>>())
}

pub(super) fn policy(
    topology: CpuTopology,
    options: CpuOptions,
    reserved: &str,
    fidelity: Fidelity,
) -> StaticCpus {
    let reserved = CpuList::parse(reserved).unwrap();
    let settings = StaticSettings {
        options,
        reservation: CpuReservation {
            count: usize::try_from(reserved.len()).unwrap(),
            cpus: reserved,
        },
        topology_policy: TopologyPolicy::Restricted,
        pod_level: PodLevel::Managed,
        fidelity,
    };
    StaticCpus::new(Arc::new(topology), settings).unwrap()
}

/// The demand of a pod under the gate that [`policy`] has on.
pub(super) fn demand(pod: &Pod) -> PodDemand<'_> {
    PodDemand::new(pod, PodLevel::Managed)
}

/// The state of a machine without pods.
pub(super) fn fresh(policy: &StaticCpus) -> CpuState {
    let mut state = CpuState::default();
    for edit in &policy.start(&state).unwrap() {
        state.apply(edit).unwrap();
    }
    state
}

pub(super) fn resources(cpu: &str) -> ResourceList {
    let row = |(name, amount): (&str, &str)| (name.into(), amount.parse().unwrap());
    [("cpu", cpu), ("memory", "1Gi")]
        .into_iter()
        .map(row)
        .collect()
}

/// A container whose requests are its limits.
pub(super) fn container(name: &str, cpu: &str) -> Container {
    Container::guaranteed(name, resources(cpu))
}

pub(super) fn sidecar(name: &str, cpu: &str) -> Container {
    container(name, cpu).restartable()
}

pub(super) fn pod(uid: &str, init: Vec<Container>, containers: Vec<Container>) -> Pod {
    Pod::new(uid, containers).with_init(init)
}
