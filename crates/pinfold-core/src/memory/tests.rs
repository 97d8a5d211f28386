//! Tables for the rules of the memory manager. Amounts are a few bytes.

use std::collections::BTreeMap;

use super::*;
use crate::demand::{NotWholeBytes, PodDemand, PodLevel};
use crate::fidelity::Fidelity;
use crate::hint::{Hint, ResourceHints};
use crate::machine::{HugePages, MachineParts, NumaNode};
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};
use crate::pod::{Container, Pod, ResourceList};
use crate::quantity::Quantity;

mod init_containers;
mod placement;
mod pod_level;
mod restored;
mod settings;

pub(super) fn node(id: usize) -> NodeId {
    NodeId::new(i64::try_from(id).expect("small")).expect("below 64")
}

pub(super) fn set(ids: &[usize]) -> NodeSet {
    ids.iter().map(|&id| node(id)).collect()
}

/// A machine from the memory of its nodes in bytes, and the number of huge pages of 1 KiB of each.
pub(super) fn machine(nodes: &[(usize, u64, Option<u64>)]) -> Machine {
    let node = |&(id, memory, pages): &(usize, u64, Option<u64>)| NumaNode {
        id: node(id),
        memory,
        hugepages: pages
            .map(|count| HugePages { size_kib: 1, count })
            .into_iter()
            .collect(),
        distances: Vec::new(),
        cores: Vec::new(),
    };
    Machine::new(MachineParts {
        nodes: nodes.iter().map(node).collect(),
        num_cpus: 1,
        num_sockets: 1,
        ..MachineParts::default()
    })
    .expect("a machine")
}

/// The policy for a machine that reserves one byte on `reserved_on`.
pub(super) fn policy(
    machine: &Machine,
    reserved_on: usize,
    pod_level: PodLevel,
    fidelity: Fidelity,
) -> StaticMemory {
    let one = BTreeMap::from([(memory_resource(), 1)]);
    let reserved = SystemReserved::from_bytes(BTreeMap::from([(node(reserved_on), one)]));
    StaticMemory::new(machine, &reserved, pod_level, fidelity).expect("some memory is reserved")
}

fn amounts(memory: u64, pages: Option<u64>) -> ResourceList {
    let quantity = |value: u64| Quantity::from(i64::try_from(value).expect("small"));
    let mut list = ResourceList::from([
        ("cpu".into(), Quantity::from(1)),
        ("memory".into(), quantity(memory)),
    ]);
    if let Some(pages) = pages {
        list.insert(hugepages_resource(1), quantity(pages));
    }
    list
}

/// A container of a Guaranteed pod.
pub(super) fn container(name: &str, memory: u64, pages: Option<u64>) -> Container {
    Container::guaranteed(name, amounts(memory, pages))
}

pub(super) fn pod(uid: &str, init: Vec<Container>, containers: Vec<Container>) -> Pod {
    Pod::new(uid, containers).with_init(init)
}

pub(super) fn demand<'p>(policy: &StaticMemory, pod: &'p Pod) -> PodDemand<'p> {
    PodDemand::new(pod, policy.pod_level)
}

/// Allocates the memory of one container of a pod whose other containers are as in `state`.
pub(super) fn allocate(
    policy: &StaticMemory,
    state: &MemoryState,
    affinity: Hint,
    pod: &Pod,
    container: &Container,
) -> Result<MemoryGrant, MemoryError> {
    let demand = demand(policy, pod);
    let mut own = PodMemory::before(state, &demand, &container.name);
    policy.allocate(state, &mut own, affinity, &demand, container)
}

/// The hints of one container of a pod whose other containers are as in `state`.
pub(super) fn hints(
    policy: &StaticMemory,
    state: &MemoryState,
    pod: &Pod,
    container: &Container,
) -> MemoryHints {
    let demand = demand(policy, pod);
    let own = PodMemory::before(state, &demand, &container.name);
    policy.container_hints(state, &own, &demand, container)
}

const FREE_CHOICE: Hint = Hint {
    mask: None,
    preferred: false,
};

/// A policy and its table.
struct Bench {
    policy: StaticMemory,
    state: MemoryState,
}

impl Bench {
    /// Nodes with this much memory each; node 0 has one byte more, which is reserved for the system.
    fn new(memory: &[u64], fidelity: Fidelity) -> Self {
        let size = |(id, &memory): (usize, &u64)| (id, memory + u64::from(id == 0), None);
        let nodes: Vec<_> = memory.iter().enumerate().map(size).collect();
        Self::on(&machine(&nodes), PodLevel::Ignored, fidelity)
    }

    fn on(machine: &Machine, pod_level: PodLevel, fidelity: Fidelity) -> Self {
        let policy = policy(machine, 0, pod_level, fidelity);
        let state = policy.initial_state();
        Self { policy, state }
    }

    fn allocate(&mut self, pod: &Pod, name: &str, affinity: Hint) -> Result<NodeSet, MemoryError> {
        let container = pod.container(&name.into()).expect("a container of the pod");
        let grant = allocate(&self.policy, &self.state, affinity, pod, container)?;
        self.state.apply(&grant.edits).expect("made for this table");
        Ok(self.state.nodes_of(&pod.uid, &name.into()))
    }

    fn on_nodes(&mut self, pod: &Pod, name: &str, ids: &[usize]) -> Result<NodeSet, MemoryError> {
        self.allocate(pod, name, Hint::on(set(ids), false))
    }

    /// Allocates memory for a pod of one container on exactly these nodes.
    fn fill(&mut self, uid: &str, memory: u64, ids: &[usize]) {
        let pod = pod(uid, vec![], vec![container("c", memory, None)]);
        assert_eq!(self.on_nodes(&pod, "c", ids), Ok(set(ids)));
    }

    fn remove(&mut self, pod: &str, name: &str) {
        let edits = self
            .policy
            .remove_container(&self.state, &pod.into(), &name.into());
        self.state.apply(&edits).expect("made for this table");
    }

    fn reserved(&self) -> Vec<u64> {
        let nodes = self.state.nodes().values();
        nodes
            .map(|node| node.amounts(&memory_resource()).reserved)
            .collect()
    }

    fn size(&self, pod: &str, name: &str) -> u64 {
        let blocks = self.state.blocks(&pod.into(), &name.into());
        blocks
            .unwrap_or_default()
            .iter()
            .map(|block| block.size)
            .sum()
    }
}

fn masks(hints: &MemoryHints) -> Vec<(Vec<u32>, bool)> {
    let [(_, ResourceHints::Family(family))] = hints.hints.rows.as_slice() else {
        return Vec::new();
    };
    let list = family.list().into_iter();
    list.map(|hint| {
        let mask = hint.mask.expect("members have masks");
        (mask.iter().map(NodeId::get).collect(), hint.preferred)
    })
    .collect()
}
