//! Converts a configuration to the core's [`Settings`] for a machine.
//!
//! Mirrors `GetNodeAllocatableReservation`: `kubeReserved` plus `systemReserved` plus the eviction threshold. Whether
//! that fits the machine is checked by [`Rules::new`](pinfold_core::ledger::Rules::new).

use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::memory::memory_resource;
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::Settings;

use super::{EvictionThreshold, KubeletSettings};

impl KubeletSettings {
    /// The settings for a node with this total memory: percentages become amounts, amounts become sums.
    #[must_use]
    pub fn settings(&self, memory: u64, fidelity: Fidelity) -> Settings {
        let reserved_cpu = self.reserved_cpu();
        let reserved_memory = self.reserved_node_memory(memory);
        let mut node_reservation = ResourceList::new();
        if !reserved_memory.is_zero() {
            node_reservation.insert(memory_resource(), reserved_memory);
        }
        let named = &self.reserved_system_cpus;
        Settings {
            fidelity,
            topology_policy: self.topology_policy,
            topology_scope: self.topology_scope,
            topology_options: self.topology_options.clone(),
            cpu_policy: self.cpu_policy,
            cpu_options: self.cpu_options.clone(),
            reserved_cpu: (!reserved_cpu.is_zero()).then_some(reserved_cpu),
            reserved_cpus: (!named.is_empty()).then(|| named.clone()),
            memory_policy: self.memory_policy,
            reserved_memory: self.reserved_memory.clone(),
            node_reservation,
            pod_level_resources: self.pod_level() == PodLevel::Managed,
            alpha_cpu_options: self.gate("CPUManagerPolicyAlphaOptions", false),
            beta_cpu_options: self.gate("CPUManagerPolicyBetaOptions", true),
        }
    }

    /// The CPU reserved for kubelet and system. `reservedSystemCPUs` replaces both amounts.
    #[must_use]
    pub fn reserved_cpu(&self) -> Quantity {
        if !self.reserved_system_cpus.is_empty() {
            let count = i64::try_from(self.reserved_system_cpus.len()).unwrap_or(i64::MAX);
            return Quantity::from(count);
        }
        self.reserved("cpu")
    }

    /// The memory reserved on a machine with this total memory, including the eviction threshold.
    #[must_use]
    pub fn reserved_node_memory(&self, capacity: u64) -> Quantity {
        let eviction = match self.eviction_memory {
            None => Quantity::from(0),
            Some(EvictionThreshold::WrittenQuantity(amount)) => amount,
            Some(EvictionThreshold::Fraction(fraction)) => {
                Quantity::bytes(share(capacity, fraction))
            }
        };
        self.reserved("memory") + eviction
    }

    /// The sum of `kubeReserved` and `systemReserved`.
    fn reserved(&self, name: &str) -> Quantity {
        let zero = Quantity::from(0);
        let of = |list: &ResourceList| list.get(name).copied().unwrap_or(zero);
        zero + of(&self.system_reserved) + of(&self.kube_reserved)
    }
}

/// A fraction of the machine's memory, in bytes rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the kubelet's own arithmetic; casts from floats saturate"
)]
fn share(capacity: u64, fraction: f32) -> i64 {
    (capacity as f64 * f64::from(fraction)) as i64
}
