//! [`CpuManager`]: the CPU policy of a kubelet configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{CpuConfigError, CpuPolicyError, CpuStateError};
use super::options::{CpuOptions, OptionGates};
use super::state::{CpuEdits, CpuState};
use super::static_policy::{CpuReservation, StaticCpus, StaticSettings};
use crate::machine::cpus::CpuTopology;
use crate::settings::{CpuManagerPolicy, Settings};

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
        settings: &Settings,
    ) -> Result<Self, CpuConfigError> {
        let options = &settings.cpu_options;
        match settings.cpu_policy {
            CpuManagerPolicy::None if options.is_empty() => Ok(CpuManager::None),
            CpuManagerPolicy::None => Err(CpuConfigError::NoneHasOptions(as_go_map(options))),
            CpuManagerPolicy::Static => {
                let reserved = settings.reserved_cpu.as_ref();
                let reserved = reserved.ok_or(CpuConfigError::NoReservation)?;
                if reserved.is_zero() {
                    return Err(CpuConfigError::ZeroReservation);
                }
                let milli = u64::try_from(reserved.milli_value()).unwrap_or(0);
                let gates = OptionGates {
                    alpha: settings.alpha_cpu_options,
                    beta: settings.beta_cpu_options,
                    version: settings.fidelity.version(),
                };
                let settings = StaticSettings {
                    options: CpuOptions::parse(options, gates).map_err(CpuPolicyError::from)?,
                    reservation: CpuReservation {
                        count: usize::try_from(milli.div_ceil(1000)).unwrap_or(usize::MAX),
                        cpus: settings.reserved_cpus.clone().unwrap_or_default(),
                    },
                    topology_policy: settings.topology_policy,
                    pod_level: settings.pod_level(),
                    fidelity: settings.fidelity,
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
