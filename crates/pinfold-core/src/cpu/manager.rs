//! [`CpuManager`]: the CPU policy of a kubelet configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{CpuConfigError, CpuPolicyError, CpuStateError};
use super::options::{CpuOptions, OptionGates};
use super::state::{CpuEdits, CpuState};
use super::static_policy::{CpuReservation, StaticCpus, StaticSettings};
use crate::cpu_set::CpuList;
use crate::demand::PodLevel;
use crate::fidelity::Fidelity;
use crate::machine::cpus::CpuTopology;
use crate::policy::TopologyPolicy;
use crate::quantity::Quantity;
use crate::settings::CpuManagerPolicy;

/// The CPU manager's part of a kubelet configuration.
#[derive(Clone, Debug)]
pub struct CpuConfig<'a> {
    /// The policy.
    pub policy: CpuManagerPolicy,
    /// The policy's options as configured.
    pub options: &'a BTreeMap<String, String>,
    /// The feature gates for alpha and beta options.
    pub gates: OptionGates,
    /// `cpu` of systemReserved and kubeReserved together.
    pub reserved: Option<&'a Quantity>,
    /// `reservedSystemCPUs`; empty if not configured.
    pub reserved_cpus: CpuList,
    /// The topology manager's policy.
    pub topology_policy: TopologyPolicy,
    /// Whether pods with pod-level resources are managed.
    pub pod_level: PodLevel,
    /// Whether the kubelet's defects are repeated.
    pub fidelity: Fidelity,
}

/// The CPU policy of a machine.
#[derive(Clone, Debug)]
pub enum CpuManager {
    /// No container is assigned exclusive CPUs.
    None,
    /// Guaranteed containers that request whole CPUs are assigned exclusive ones.
    Static(Box<StaticCpus>),
}

impl CpuManager {
    /// Builds the policy of a configuration. Mirrors `NewManager`.
    ///
    /// # Errors
    /// If the configuration contradicts the machine or itself.
    pub(crate) fn new(
        topology: Arc<CpuTopology>,
        config: &CpuConfig<'_>,
    ) -> Result<Self, CpuConfigError> {
        match config.policy {
            CpuManagerPolicy::None if config.options.is_empty() => Ok(CpuManager::None),
            CpuManagerPolicy::None => {
                Err(CpuConfigError::NoneHasOptions(as_go_map(config.options)))
            }
            CpuManagerPolicy::Static => {
                let reserved = config.reserved.ok_or(CpuConfigError::NoReservation)?;
                if reserved.is_zero() {
                    return Err(CpuConfigError::ZeroReservation);
                }
                let milli = u64::try_from(reserved.milli_value()).unwrap_or(0);
                let settings = StaticSettings {
                    options: CpuOptions::parse(config.options, config.gates)
                        .map_err(CpuPolicyError::from)?,
                    reservation: CpuReservation {
                        count: usize::try_from(milli.div_ceil(1000)).unwrap_or(usize::MAX),
                        cpus: config.reserved_cpus.clone(),
                    },
                    topology_policy: config.topology_policy,
                    pod_level: config.pod_level,
                    fidelity: config.fidelity,
                };
                Ok(CpuManager::Static(Box::new(StaticCpus::new(
                    topology, settings,
                )?)))
            }
        }
    }

    /// The static policy; `None` under the policy `none`.
    #[must_use]
    pub fn as_static(&self) -> Option<&StaticCpus> {
        match self {
            CpuManager::None => None,
            CpuManager::Static(policy) => Some(policy),
        }
    }

    /// See [`StaticCpus::start`].
    ///
    /// # Errors
    /// If the saved state contradicts itself, the reservation or the machine.
    pub fn start(&self, state: &CpuState) -> Result<CpuEdits, CpuStateError> {
        self.as_static()
            .map_or(Ok(CpuEdits::new()), |policy| policy.start(state))
    }
}

/// A map of strings as Go prints it: `map[a:1 b:2]`.
fn as_go_map(options: &BTreeMap<String, String>) -> String {
    let rows: Vec<String> = options
        .iter()
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    format!("map[{}]", rows.join(" "))
}
