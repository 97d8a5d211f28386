//! [`Rules`]: settings that were checked against a machine, ready to decide. Mirrors how the kubelet builds its managers.

use std::sync::Arc;

use crate::cpu::{CpuConfig, CpuConfigError, CpuManager, OptionGates};
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

/// The rules of one node: its machine and the managers in charge of it.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) machine: Arc<Machine>,
    pub(super) topology: Arc<CpuTopology>,
    pub(super) settings: Settings,
    pub(super) policy: TopologyPolicy,
    pub(super) scope: TopologyScope,
    /// Only if placements are compared by distance.
    pub(super) distances: Option<Distances>,
    pub(super) cpus: CpuManager,
    pub(super) memory: MemoryPolicy,
    pub(super) pod_level: PodLevel,
}

/// Settings that a kubelet would not start with. The messages are its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// An option of the topology manager.
    #[error(transparent)]
    TopologyOption(#[from] TopologyOptionError),
    /// More NUMA nodes than the topology manager may handle.
    #[error("unsupported on machines with more than {most} NUMA Nodes")]
    TooManyNodes {
        /// The limit.
        most: usize,
        /// What the machine has.
        found: usize,
    },
    /// No such topology policy.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// No such scope.
    #[error(transparent)]
    Scope(#[from] UnknownScope),
    /// The CPU manager.
    #[error(transparent)]
    Cpu(#[from] CpuConfigError),
    /// The memory manager.
    #[error(transparent)]
    Memory(#[from] MemorySettingsError),
}

impl Rules {
    /// Checks `settings` against `machine`: the topology manager first, then CPUs, then memory.
    ///
    /// # Errors
    /// With the first thing a kubelet would complain about.
    pub fn new(machine: Arc<Machine>, settings: Settings) -> Result<Self, SettingsError> {
        let fidelity = settings.fidelity;
        let (policy, scope, options) = topology_manager(&machine, &settings)?;
        let topology = Arc::new(CpuTopology::of(&machine));
        let pod_level = match settings.pod_level_resources {
            true => PodLevel::Managed,
            false => PodLevel::Ignored,
        };
        let cpus = CpuManager::new(
            topology.clone(),
            &CpuConfig {
                policy: &settings.cpu_policy,
                options: &settings.cpu_options,
                gates: OptionGates {
                    alpha: settings.alpha_cpu_options,
                    beta: settings.beta_cpu_options,
                },
                reserved: settings.reserved_cpu.as_ref(),
                reserved_cpus: settings.reserved_cpus.clone().unwrap_or_default(),
                topology_policy: policy.name(),
                pod_level,
                fidelity,
            },
        )?;
        let memory = MemoryPolicy::new(
            &settings.memory_policy,
            &machine,
            &settings.node_reservation,
            &settings.reserved_memory,
            pod_level,
            fidelity,
        )?;
        let distances = options
            .prefer_closest
            .then(|| Distances::of(&machine, fidelity));
        Ok(Self {
            machine,
            topology,
            settings,
            policy,
            scope,
            distances,
            cpus,
            memory,
            pod_level,
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

    /// What the rules were made of.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How strictly pods are aligned.
    #[must_use]
    pub fn policy(&self) -> TopologyPolicy {
        self.policy
    }

    /// What is aligned as one.
    #[must_use]
    pub fn scope(&self) -> TopologyScope {
        self.scope
    }

    /// CPUs kept for the system; none without a static CPU manager.
    #[must_use]
    pub fn reserved_cpus(&self) -> CpuSet {
        self.cpus
            .as_static()
            .map_or_else(CpuSet::new, |cpus| cpus.reserved().clone())
    }

    /// Whether the kubelet's defects are repeated.
    #[must_use]
    pub fn fidelity(&self) -> Fidelity {
        self.settings.fidelity
    }
}

/// Mirrors the topology manager's `NewManager`: under the policy `none` nothing else is looked at.
fn topology_manager(
    machine: &Machine,
    settings: &Settings,
) -> Result<(TopologyPolicy, TopologyScope, TopologyOptions), SettingsError> {
    if settings.topology_policy == TopologyPolicy::None.name() {
        let scope = settings.topology_scope.parse().unwrap_or_default();
        return Ok((TopologyPolicy::None, scope, TopologyOptions::default()));
    }
    let options = TopologyOptions::parse(&settings.topology_options)?;
    let (most, found) = (options.max_numa_nodes, machine.nodes().len());
    if found > most && settings.fidelity.limits_numa_nodes() {
        return Err(SettingsError::TooManyNodes { most, found });
    }
    let policy = settings.topology_policy.parse()?;
    let scope = settings.topology_scope.parse()?;
    Ok((policy, scope, options))
}
