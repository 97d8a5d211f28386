//! The machine that runs are placed on, as far as its control group allows, and the rules for placing them.

use std::sync::Arc;

use pinfold_core::cpu_set::{CpuList, CpuSet};
use pinfold_core::decision::ContainerAssignment;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Rules, SettingsError};
use pinfold_core::machine::cpus::CpuTopology;
use pinfold_core::machine::{Machine, MachineParts};
use pinfold_core::memory::{MemoryReservation, memory_resource};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::MemoryManagerPolicy;
use pinfold_core::settings::{Settings, TopologyScope};
use pinfold_hardware::Hardware;
use serde::{Deserialize, Serialize};

use crate::error::StandaloneError;

/// The most memory that is reserved for the system on one NUMA node; small nodes reserve a sixteenth.
const MOST_RESERVED: u64 = 256 << 20;

/// The CPUs and NUMA nodes that a run may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPlacement {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Whether they are exclusive. If not, they are the shared pool and change with it.
    pub exclusive_cpus: bool,
    /// The NUMA nodes of its memory; `None` if it requested no memory and may use any node.
    pub nodes: Option<NodeSet>,
}

impl RunPlacement {
    /// The placement of an assignment; a run without exclusive CPUs gets the `shared` pool.
    #[must_use]
    pub fn of(assignment: &ContainerAssignment, shared: &CpuSet) -> Self {
        let blocks = assignment.memory.as_deref().unwrap_or_default();
        let nodes = blocks
            .iter()
            .fold(NodeSet::EMPTY, |nodes, block| nodes | block.nodes);
        let own = assignment.cpus.as_ref().filter(|cpus| !cpus.is_empty());
        Self {
            cpus: own.unwrap_or(shared).clone(),
            exclusive_cpus: own.is_some(),
            nodes: (!nodes.is_empty()).then_some(nodes),
        }
    }
}

/// The part of the machine that this process may use. `partitioned` are the CPUs of runs that are cpuset partitions:
/// the kernel hides them from this process, and they still count.
///
/// # Errors
/// If nothing is left, or a NUMA node with CPUs has an id above 63.
pub fn machine(hardware: &Hardware, partitioned: &CpuSet) -> Result<Machine, StandaloneError> {
    let (whole, _) = hardware.machine_within_reach()?;
    let Some(allowed) = &hardware.allowed else {
        return Ok(whole);
    };
    let nodes = allowed.nodes.iter().filter_map(|node| node.node_id());
    let cpus = &allowed.cpus | partitioned;
    restrict(&whole, &cpus, nodes.collect())
}

/// Removes the CPUs and the memory that the control group does not allow, and nodes that are left with neither.
fn restrict(whole: &Machine, cpus: &CpuSet, memory: NodeSet) -> Result<Machine, StandaloneError> {
    let mut parts: MachineParts = whole.clone().into();
    for node in &mut parts.nodes {
        for core in &mut node.cores {
            core.threads.retain(|&cpu| cpus.contains(cpu));
        }
        node.cores.retain(|core| !core.threads.is_empty());
        if !memory.contains(node.id) {
            node.memory = 0;
            node.hugepages.clear();
        }
    }
    let stays: Vec<bool> = parts
        .nodes
        .iter()
        .map(|node| !node.cores.is_empty() || node.memory > 0)
        .collect();
    for node in &mut parts.nodes {
        let mut column = stays.iter();
        node.distances.retain(|_| *column.next().unwrap_or(&false));
    }
    let mut row = stays.iter();
    parts.nodes.retain(|_| *row.next().unwrap_or(&false));
    let cores = || parts.nodes.iter().flat_map(|node| &node.cores);
    let sockets: std::collections::BTreeSet<u32> = cores().map(|core| core.socket).collect();
    parts.num_sockets = sockets.len().max(1);
    parts.num_cpus = cores().map(|core| core.threads.len()).sum();
    Ok(Machine::new(parts).map_err(pinfold_hardware::kubelet_view::ViewError::from)?)
}

/// Whether two machines have the same CPUs on the same nodes. Memory may differ: it changes on live machines, and the
/// registry keeps the amounts it started with until its last run has ended.
pub(crate) fn same_cpus(one: &Machine, other: &Machine) -> bool {
    let shape = |machine: &Machine| -> Vec<(NodeId, Vec<pinfold_core::machine::Core>)> {
        let nodes = machine.nodes().iter();
        nodes.map(|node| (node.id, node.cores.clone())).collect()
    };
    shape(one) == shape(other)
}

/// The reserved CPUs, which no run gets exclusively: the first core, or only the first CPU of a machine with two.
fn reserved(machine: &Machine) -> CpuSet {
    let topology = CpuTopology::of(machine);
    let Some(first) = topology.all().first() else {
        return CpuSet::new();
    };
    match topology.cpu_info(first) {
        Some(place) if topology.all().len() > 2 => topology.cpus_of_core(place.core),
        _ => CpuSet::single(first),
    }
}

/// The topology settings a run is placed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPolicy {
    /// The topology manager policy.
    pub topology: TopologyPolicy,
    /// The topology manager scope.
    pub scope: TopologyScope,
    /// Whether memory is assigned. A run that requests no memory must not be bound to NUMA nodes by it.
    pub memory: bool,
}

impl RunPolicy {
    /// For rebuilding the ledger without a decision: an assignment is valid under every policy.
    pub(crate) const ACCOUNTING: RunPolicy = RunPolicy {
        topology: TopologyPolicy::None,
        scope: TopologyScope::Container,
        memory: true,
    };
}

/// The rules for this machine and policy.
///
/// # Errors
/// If they do not fit the machine.
pub fn rules(machine: &Arc<Machine>, policy: RunPolicy) -> Result<Arc<Rules>, SettingsError> {
    let cpus = reserved(machine);
    let count = i64::try_from(cpus.len()).unwrap_or(i64::MAX);
    let mut settings = Settings {
        fidelity: Fidelity::Sound,
        topology_policy: policy.topology,
        topology_scope: policy.scope,
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(Quantity::from(count)),
        reserved_cpus: Some(CpuList::from(&cpus)),
        ..Settings::default()
    };
    settings
        .topology_options
        .insert("prefer-closest-numa-nodes".into(), "true".into());
    if policy.memory && reports_memory(machine) {
        settings.memory_policy = MemoryManagerPolicy::Static;
        reserve_memory(machine, &mut settings);
    }
    Ok(Arc::new(Rules::new(machine.clone(), settings)?))
}

/// Whether the kernel reports the memory of any NUMA node.
pub(crate) fn reports_memory(machine: &Machine) -> bool {
    machine.nodes().iter().any(|node| node.memory / 16 > 0)
}

fn reserve_memory(machine: &Machine, settings: &mut Settings) {
    let mut total = Quantity::bytes(0);
    for node in machine.nodes() {
        let bytes = (node.memory / 16).min(MOST_RESERVED);
        if bytes == 0 {
            continue;
        }
        let bytes = Quantity::bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
        total += bytes;
        settings.reserved_memory.push(MemoryReservation {
            numa_node: i64::from(node.id.get()),
            limits: [(memory_resource(), bytes)].into(),
        });
    }
    settings.node_reservation.insert(memory_resource(), total);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> Machine {
        let hardware = pinfold_hardware::open(text).expect("a description");
        hardware.machine().expect("a machine")
    }

    fn cpus(text: &str) -> CpuSet {
        text.parse().expect("a list of CPUs")
    }

    #[test]
    fn one_core_is_reserved_and_one_cpu_of_a_machine_with_two() {
        for (machine, kept) in [
            ("1 socket, 1 core", "0"),
            ("1 socket, 2 cores", "0"),
            ("1 socket, 1 core, smt2", "0"),
            ("1 socket, 3 cores", "0"),
            ("1 socket, 4 cores, smt2", "0,4"),
        ] {
            assert_eq!(reserved(&described(machine)), cpus(kept), "{machine}");
        }
    }

    #[test]
    fn every_described_machine_has_rules() {
        for machine in ["1 socket, 1 core", "2 sockets, 8 cores, smt2"] {
            let machine = Arc::new(described(machine));
            for topology in TopologyPolicy::ALL {
                let policy = RunPolicy {
                    topology,
                    ..RunPolicy::ACCOUNTING
                };
                rules(&machine, policy).expect("rules");
            }
        }
    }

    #[test]
    fn cpus_and_memory_that_the_control_group_does_not_allow_are_left_out() {
        let whole = described("2 sockets, 2 cores, smt2");
        let nodes = NodeSet::from_ids([1]).expect("a node");
        let all = whole.online().clone();
        let second = whole.nodes()[1].cores[0].threads.clone();
        let allowed: CpuSet = second.iter().copied().collect();
        let part = restrict(&whole, &allowed, nodes).expect("a machine");
        assert_eq!(part.online(), &allowed);
        assert_eq!(part.node_ids(), nodes);
        assert_eq!(part.nodes()[0].distances.len(), 1);
        assert_eq!(part.parts().num_cpus, allowed.len());
        assert_eq!(part.parts().num_sockets, 1);
        // A node may keep its CPUs and lose its memory.
        let part = restrict(&whole, &all, nodes).expect("a machine");
        assert_eq!(part.online(), &all);
        assert_eq!(part.nodes()[0].memory, 0);
        assert!(restrict(&whole, &CpuSet::new(), nodes).is_err());
    }
}
