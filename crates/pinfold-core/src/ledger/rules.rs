//! [`Rules`]: settings that were validated against a machine. Mirrors how the kubelet builds its managers.

use std::sync::Arc;

use super::providers::{self, HintProvider};
use crate::cpu::{CpuConfigError, CpuManager, CpuOptions, StaticCpus};
use crate::cpu_set::CpuSet;
use crate::demand::PodLevel;
use crate::fidelity::Fidelity;
use crate::machine::Machine;
use crate::machine::cpus::CpuTopology;
use crate::memory::{MemoryPolicy, MemorySettingsError};
use crate::merge::Distances;
use crate::policy::{TopologyPolicy, UnknownPolicy};
use crate::settings::{
    Settings, TopologyOptionError, TopologyOptions, TopologyScope, UnknownScope,
};

/// The machine of one node, and its topology, CPU and memory manager.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) machine: Arc<Machine>,
    pub(super) topology: Arc<CpuTopology>,
    pub(super) settings: Settings,
    /// `Some` if the option `prefer-closest-numa-nodes` is on.
    pub(super) distances: Option<Distances>,
    pub(super) cpus: CpuManager,
    pub(super) memory: MemoryPolicy,
    /// The managers that give hints and allocate, in this order.
    pub(super) providers: &'static [&'static dyn HintProvider],
}

/// Settings that a kubelet would not start with. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// An invalid option of the topology manager.
    #[error(transparent)]
    TopologyOption(#[from] TopologyOptionError),
    /// More NUMA nodes than the topology manager allows.
    #[error("unsupported on machines with more than {most} NUMA Nodes")]
    TooManyNodes {
        /// The limit.
        most: usize,
        /// The number of NUMA nodes of the machine.
        found: usize,
    },
    /// Unknown topology policy.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// Unknown topology scope.
    #[error(transparent)]
    Scope(#[from] UnknownScope),
    /// Invalid settings of the CPU manager.
    #[error(transparent)]
    Cpu(#[from] CpuConfigError),
    /// Invalid settings of the memory manager.
    #[error(transparent)]
    Memory(#[from] MemorySettingsError),
}

impl Rules {
    /// Validates `settings` against `machine`: the topology manager first, then the CPU manager, then the memory
    /// manager.
    ///
    /// # Errors
    /// With the first error that the kubelet would report.
    pub fn new(machine: Arc<Machine>, settings: Settings) -> Result<Self, SettingsError> {
        let options = topology_options(&machine, &settings)?;
        let topology = Arc::new(CpuTopology::of(&machine));
        let cpus = CpuManager::new(topology.clone(), &settings)?;
        let memory = MemoryPolicy::new(&machine, &settings)?;
        let distances = options
            .prefer_closest
            .then(|| Distances::of(&machine, settings.fidelity));
        Ok(Self {
            machine,
            topology,
            settings,
            distances,
            cpus,
            memory,
            providers: &providers::KUBELET,
        })
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// The machine's CPUs as the CPU manager sees them.
    #[must_use]
    pub fn topology(&self) -> &Arc<CpuTopology> {
        &self.topology
    }

    /// The settings that the rules were made from.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The topology policy.
    #[must_use]
    pub fn policy(&self) -> TopologyPolicy {
        self.settings.topology_policy
    }

    /// The topology scope.
    #[must_use]
    pub fn scope(&self) -> TopologyScope {
        self.settings.topology_scope
    }

    /// Whether the memory manager assigns NUMA nodes: its policy is `Static`.
    #[must_use]
    pub fn assigns_memory(&self) -> bool {
        matches!(self.memory, MemoryPolicy::Static(_))
    }

    /// CPUs reserved for the system; empty unless the CPU manager policy is `static`.
    #[must_use]
    pub fn reserved_cpus(&self) -> CpuSet {
        self.cpus
            .as_static()
            .map_or_else(CpuSet::new, |cpus| cpus.reserved().clone())
    }

    /// Whether the CPU manager policy is `static`.
    #[must_use]
    pub fn has_exclusive_cpus(&self) -> bool {
        self.cpus.as_static().is_some()
    }

    /// The options of the static CPU policy; `None` under another policy.
    #[must_use]
    pub fn cpu_options(&self) -> Option<CpuOptions> {
        self.cpus.as_static().map(StaticCpus::options)
    }

    /// Whether pods with pod-level resources are managed as a whole.
    #[must_use]
    pub fn pod_level(&self) -> PodLevel {
        self.settings.pod_level()
    }

    /// Whether the option `prefer-closest-numa-nodes` is on.
    #[must_use]
    pub fn compares_distances(&self) -> bool {
        self.distances.is_some()
    }

    /// Whether the kubelet's defects are repeated.
    #[must_use]
    pub fn fidelity(&self) -> Fidelity {
        self.settings.fidelity
    }
}

/// Mirrors the topology manager's `NewManager`: under the policy `none` options are not validated.
fn topology_options(
    machine: &Machine,
    settings: &Settings,
) -> Result<TopologyOptions, SettingsError> {
    if settings.topology_policy == TopologyPolicy::None {
        return Ok(TopologyOptions::default());
    }
    let options = TopologyOptions::parse(&settings.topology_options, settings.fidelity)?;
    let (most, found) = (options.max_numa_nodes, machine.nodes().len());
    if found > most && settings.fidelity.limits_numa_nodes() {
        return Err(SettingsError::TooManyNodes { most, found });
    }
    Ok(options)
}
