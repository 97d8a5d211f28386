//! Memory reserved for the system on each NUMA node, and the resulting table of the empty machine.
//!
//! The kubelet is configured twice: how much of every type the node as a whole reserves (kube and system reservation,
//! eviction threshold), and on which NUMA nodes. Both must add up to the same. Mirrors `getSystemReservedMemory` and
//! `getDefaultMachineState`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::table::{MemoryAmounts, NodeMemory};
use crate::demand::is_memory;
use crate::fidelity::Fidelity;
use crate::machine::{Machine, NumaNode};
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};
use crate::pod::ResourceList;
use crate::quantity::Quantity;

/// The resource name of ordinary memory.
#[must_use]
pub fn memory_resource() -> ResourceName {
    ResourceName::from("memory")
}

/// The resource name of huge pages of one size: `hugepages-2Mi`. Mirrors `HugePageResourceName`.
#[must_use]
pub fn hugepages_resource(size_kib: u64) -> ResourceName {
    let bytes = i64::try_from(size_kib.saturating_mul(1024)).unwrap_or(i64::MAX);
    ResourceName::from(format!("hugepages-{}", Quantity::bytes(bytes)))
}

/// The reservation on one NUMA node: an entry of the kubelet's `reservedMemory`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryReservation {
    /// The NUMA node in the configuration; the machine may not have it.
    pub numa_node: i64,
    /// The amounts by type.
    pub limits: ResourceList,
}

/// Invalid reservations. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReservationError {
    /// A reservation on a NUMA node that the machine does not have.
    #[error(
        "the reserved memory configuration references a NUMA node {0} that does not exist on this machine"
    )]
    NoSuchNode(i64),
    /// The reservations on NUMA nodes do not add up to that of the whole node.
    #[error(
        "the total amount \"{on_numa_nodes}\" of type {resource:?} is not equal to the value \"{on_node}\" determined by Node Allocatable feature"
    )]
    NotEqual {
        /// The type.
        resource: ResourceName,
        /// The sum over NUMA nodes.
        on_numa_nodes: Box<Quantity>,
        /// The reservation of the whole node.
        on_node: Box<Quantity>,
    },
    /// A reservation that is not a whole number of bytes.
    #[error("could not covert a variable of type Quantity to int64")]
    NotWholeBytes(ResourceName),
    /// No memory is reserved.
    #[error("[memorymanager] you should specify the system reserved memory")]
    NoMemory,
}

/// Bytes reserved for the system by NUMA node and type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SystemReserved {
    by_node: BTreeMap<NodeId, BTreeMap<ResourceName, u64>>,
}

impl SystemReserved {
    /// Checks the reservations against the machine and the reservation of the whole node.
    ///
    /// # Errors
    /// If they name an unknown NUMA node, do not add up, or are not whole bytes.
    pub(crate) fn new(
        machine: &Machine,
        node_reservation: &ResourceList,
        reservations: &[MemoryReservation],
    ) -> Result<Self, ReservationError> {
        let mut sums = ResourceList::new();
        for reservation in reservations {
            known_node(machine, reservation.numa_node)?;
            for (resource, &amount) in &reservation.limits {
                let sum = sums.entry(resource.clone()).or_default();
                *sum = amount + *sum;
            }
        }
        check_sums(&sums, node_reservation)?;

        let mut by_node: BTreeMap<NodeId, BTreeMap<ResourceName, u64>> = BTreeMap::new();
        for reservation in reservations {
            let own = by_node
                .entry(known_node(machine, reservation.numa_node)?)
                .or_default();
            for (resource, amount) in &reservation.limits {
                let bytes = amount.as_i64().map(i64::cast_unsigned);
                let bytes =
                    bytes.ok_or_else(|| ReservationError::NotWholeBytes(resource.clone()))?;
                own.insert(resource.clone(), bytes);
            }
        }
        Ok(Self { by_node })
    }

    /// Reservations that were validated before.
    #[must_use]
    pub fn from_bytes(by_node: BTreeMap<NodeId, BTreeMap<ResourceName, u64>>) -> Self {
        Self { by_node }
    }

    /// The reserved bytes of one type on one NUMA node.
    #[must_use]
    pub fn on(&self, node: NodeId, resource: &ResourceName) -> u64 {
        let own = self.by_node.get(&node);
        own.and_then(|own| own.get(resource)).copied().unwrap_or(0)
    }

    /// Rejects reservations without ordinary memory.
    pub(super) fn require_memory(&self) -> Result<(), ReservationError> {
        let memory = memory_resource();
        let mut amounts = self.by_node.values().filter_map(|own| own.get(&memory));
        match amounts.any(|&bytes| bytes > 0) {
            true => Ok(()),
            false => Err(ReservationError::NoMemory),
        }
    }
}

fn known_node(machine: &Machine, id: i64) -> Result<NodeId, ReservationError> {
    let known = NodeId::new(id).ok();
    known
        .filter(|&node| machine.node_ids().contains(node))
        .ok_or(ReservationError::NoSuchNode(id))
}

/// Per type, the sum over NUMA nodes must be the reservation of the whole node. Of several differences the first by
/// name is reported. Mirrors `validateReservedMemory`.
fn check_sums(sums: &ResourceList, node: &ResourceList) -> Result<(), ReservationError> {
    let of_node = node.keys().filter(|resource| is_memory(resource));
    let resources: BTreeSet<&ResourceName> = sums.keys().chain(of_node).collect();
    for resource in resources {
        let on_numa_nodes = sums.get(resource).copied().unwrap_or_default();
        let on_node = node.get(resource).copied().unwrap_or_default();
        if on_numa_nodes != on_node {
            return Err(ReservationError::NotEqual {
                resource: resource.clone(),
                on_numa_nodes: Box::new(on_numa_nodes),
                on_node: Box::new(on_node),
            });
        }
    }
    Ok(())
}

/// The table of the empty machine.
pub(super) fn initial_nodes(
    machine: &Machine,
    reserved: &SystemReserved,
    fidelity: Fidelity,
) -> BTreeMap<NodeId, NodeMemory> {
    let nodes = machine.nodes().iter();
    nodes
        .map(|node| (node.id, initial_node(node, reserved, fidelity)))
        .collect()
}

/// Huge pages are preallocated, so their bytes are not available as ordinary memory.
fn initial_node(node: &NumaNode, reserved: &SystemReserved, fidelity: Fidelity) -> NodeMemory {
    let minus = |a: u64, b: u64| match fidelity.wraps_memory_below_zero() {
        true => a.wrapping_sub(b),
        false => a.saturating_sub(b),
    };
    let amounts = |resource: &ResourceName, total: u64, elsewhere: u64| {
        let system_reserved = reserved.on(node.id, resource);
        let allocatable = minus(minus(total, system_reserved), elsewhere);
        MemoryAmounts {
            total,
            system_reserved,
            allocatable,
            reserved: 0,
            free: allocatable,
        }
    };
    let mut memory = BTreeMap::new();
    let mut in_huge_pages = 0_u64;
    for pages in &node.hugepages {
        let resource = hugepages_resource(pages.size_kib);
        let total = pages
            .count
            .saturating_mul(pages.size_kib)
            .saturating_mul(1024);
        in_huge_pages = in_huge_pages.saturating_add(total);
        let row = amounts(&resource, total, 0);
        memory.insert(resource, row);
    }
    let resource = memory_resource();
    let row = amounts(&resource, node.memory, in_huge_pages);
    memory.insert(resource, row);
    NodeMemory {
        assignments: 0,
        cells: NodeSet::single(node.id),
        memory,
    }
}
