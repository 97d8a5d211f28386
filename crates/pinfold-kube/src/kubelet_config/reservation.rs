//! What the reservations come to on a machine.
//!
//! Mirrors `GetNodeAllocatableReservation` (kubelet's share, plus system's share, plus what must stay free
//! before eviction), the CPU manager's rounding up to whole CPUs, and the memory manager's
//! `getSystemReservedMemory`: what is reserved per NUMA node must add up to what is reserved for the node.

use std::collections::BTreeMap;

use pinfold_core::name::ResourceName;
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;

use super::{EvictionThreshold, KubeletSettings};

/// Bytes by NUMA node and kind of memory that no container may get.
pub type ReservedMemory = BTreeMap<NodeId, BTreeMap<ResourceName, u64>>;

/// Reservations under which the kubelet would not start. The messages are its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReservationError {
    /// The static CPU policy without a reserved CPU.
    #[error("[cpumanager] unable to determine reserved CPU resources for static policy")]
    NoCpu,
    /// Memory of a node that is not there.
    #[error(
        "the reserved memory configuration references a NUMA node {0} that does not exist on this machine"
    )]
    NoSuchNode(NodeId),
    /// The nodes' reservations do not add up.
    #[error(
        "the total amount \"{of_nodes}\" of type \"{kind}\" is not equal to the value \"{of_machine}\" determined by Node \
         Allocatable feature"
    )]
    Sum {
        /// `memory` or a size of hugepages.
        kind: ResourceName,
        /// The sum over `reservedMemory`.
        of_nodes: Box<Quantity>,
        /// `kubeReserved`, `systemReserved` and `evictionHard` together.
        of_machine: Box<Quantity>,
    },
    /// An amount that is not a whole number of bytes.
    #[error("could not covert a variable of type Quantity to int64")]
    NotWholeBytes,
}

impl KubeletSettings {
    /// The CPU that is reserved for kubelet and system. Named CPUs take the place of both amounts.
    #[must_use]
    pub fn reserved_cpu(&self) -> Quantity {
        if !self.reserved_system_cpus.is_empty() {
            let count = i64::try_from(self.reserved_system_cpus.len()).unwrap_or(i64::MAX);
            return Quantity::from(count);
        }
        self.reserved("cpu")
    }

    /// How many whole CPUs the static policy sets aside.
    ///
    /// # Errors
    /// If none is reserved: the shared pool could run empty.
    pub fn reserved_cpu_count(&self) -> Result<usize, ReservationError> {
        let milli = self.reserved_cpu().milli_value();
        match usize::try_from(milli) {
            Ok(milli) if milli > 0 => Ok(milli.div_ceil(1000)),
            _ => Err(ReservationError::NoCpu),
        }
    }

    /// The memory that is reserved on a machine with that much memory in all, eviction included.
    #[must_use]
    pub fn reserved_node_memory(&self, capacity: u64) -> Quantity {
        let eviction = match self.eviction_memory {
            None => Quantity::from(0),
            Some(EvictionThreshold::Amount(amount)) => amount,
            Some(EvictionThreshold::Fraction(fraction)) => {
                Quantity::bytes(share(capacity, fraction))
            }
        };
        self.reserved("memory") + eviction
    }

    /// What the memory manager keeps back on every NUMA node of a machine with these nodes and that much
    /// memory in all.
    ///
    /// # Errors
    /// If the kubelet would not start.
    pub fn system_reserved_memory(
        &self,
        nodes: NodeSet,
        capacity: u64,
    ) -> Result<ReservedMemory, ReservationError> {
        let mut totals = ResourceList::new();
        for reservation in &self.reserved_memory {
            if !nodes.contains(reservation.node) {
                return Err(ReservationError::NoSuchNode(reservation.node));
            }
            for (kind, amount) in &reservation.limits {
                totals
                    .entry(kind.clone())
                    .and_modify(|total| *total += *amount)
                    .or_insert(*amount);
            }
        }
        self.check_sums(&totals, capacity)?;
        let mut reserved: ReservedMemory =
            nodes.iter().map(|node| (node, BTreeMap::new())).collect();
        for reservation in &self.reserved_memory {
            for (kind, amount) in &reservation.limits {
                let bytes = amount.as_i64().and_then(|bytes| u64::try_from(bytes).ok());
                let bytes = bytes.ok_or(ReservationError::NotWholeBytes)?;
                let of_node = reserved.entry(reservation.node).or_default();
                of_node.insert(kind.clone(), bytes);
            }
        }
        Ok(reserved)
    }

    /// Hugepages cannot be reserved for kubelet or system, so none can be per NUMA node.
    fn check_sums(&self, totals: &ResourceList, capacity: u64) -> Result<(), ReservationError> {
        let zero = Quantity::from(0);
        let memory = ResourceName::from("memory");
        let of_machine = self.reserved_node_memory(capacity);
        let of_nodes = totals.get(&memory).copied().unwrap_or(zero);
        let kinds = totals.iter().filter(|(kind, _)| **kind != memory);
        let pairs = kinds
            .map(|(kind, total)| (kind, *total, zero))
            .chain([(&memory, of_nodes, of_machine)]);
        for (kind, of_nodes, of_machine) in pairs {
            if of_nodes != of_machine {
                return Err(ReservationError::Sum {
                    kind: kind.clone(),
                    of_nodes: Box::new(of_nodes),
                    of_machine: Box::new(of_machine),
                });
            }
        }
        Ok(())
    }

    /// What kubelet and system reserve together.
    fn reserved(&self, name: &str) -> Quantity {
        let zero = Quantity::from(0);
        let of = |list: &ResourceList| list.get(name).copied().unwrap_or(zero);
        zero + of(&self.system_reserved) + of(&self.kube_reserved)
    }
}

/// A part of the machine's memory, in bytes rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the kubelet's own arithmetic; casts from floats saturate"
)]
fn share(capacity: u64, fraction: f32) -> i64 {
    (capacity as f64 * f64::from(fraction)) as i64
}
