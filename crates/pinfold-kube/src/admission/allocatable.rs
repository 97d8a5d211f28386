//! A node's allocatable resources without a Node object, as its kubelet computes them.
//!
//! Mirrors `nodestatus.MachineInfo`: the capacity minus `kubeReserved`, `systemReserved` and the hard eviction
//! threshold, never below 0; memory also minus all hugepages.

use std::collections::BTreeMap;

use pinfold_cluster::PODS;
use pinfold_cluster::koordinator::amounts::{Amounts, CPU, MEMORY, MILLI};
use pinfold_core::name::ResourceName;
use pinfold_core::settings::Settings;

/// What a machine has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCapacity {
    /// The number of CPUs that are online.
    pub cpus: usize,
    /// Bytes of memory, hugepages included.
    pub memory: u64,
    /// Bytes in hugepages of each size, by resource.
    pub hugepages: BTreeMap<ResourceName, u64>,
    /// Healthy devices of each resource.
    pub devices: BTreeMap<ResourceName, usize>,
}

/// The most pods of a node (`maxPods` and `podsPerCore` of the kubelet's configuration).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodLimits {
    /// The most pods.
    pub max_pods: i64,
    /// The most pods for each CPU; 0 for no such limit.
    pub pods_per_core: i64,
}

/// The kubelet's defaults.
impl Default for PodLimits {
    fn default() -> Self {
        Self {
            max_pods: 110,
            pods_per_core: 0,
        }
    }
}

impl PodLimits {
    /// The most pods on this many CPUs.
    #[must_use]
    pub fn pods(self, cpus: usize) -> i64 {
        let cpus = i64::try_from(cpus).unwrap_or(i64::MAX);
        match self.pods_per_core {
            0 => self.max_pods,
            per_core => self.max_pods.min(per_core.saturating_mul(cpus)),
        }
    }
}

impl NodeCapacity {
    /// The allocatable resources with these settings.
    #[must_use]
    pub fn allocatable(&self, settings: &Settings, limits: PodLimits) -> Amounts {
        let whole = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        let mut capacity = Amounts::new();
        capacity.set_cpu(whole(self.cpus as u64).saturating_mul(MILLI));
        let hugepages = self
            .hugepages
            .values()
            .fold(0, |sum: u64, own| sum.saturating_add(*own));
        let memory = whole(self.memory.saturating_sub(hugepages));
        capacity.set(&MEMORY.into(), memory);
        for (resource, bytes) in &self.hugepages {
            capacity.set(resource, whole(*bytes));
        }
        let mut reserved = Amounts::of(&settings.node_reservation);
        let cpu = settings.reserved_cpu.map_or(0, |cpu| cpu.milli_value());
        reserved.set(&CPU.into(), cpu);
        let mut allocatable = capacity.minus(&reserved);
        for (resource, devices) in &self.devices {
            allocatable.set(resource, whole(*devices as u64));
        }
        allocatable.set(&PODS.into(), limits.pods(self.cpus));
        allocatable
    }
}
