//! [`CpuManager`]: the CPU policy of a kubelet configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{CpuConfigError, CpuError, CpuPolicyError, CpuStateError};
use super::options::{CpuOptions, OptionGates};
use super::pod_level::PodCpuRejection;
use super::state::{CpuEdits, CpuState};
use super::static_policy::{CpuGrant, CpuReservation, StaticCpus, StaticSettings};
use crate::cpu_set::{CpuList, CpuSet};
use crate::demand::PodLevel;
use crate::fidelity::Fidelity;
use crate::hint::ProviderHints;
use crate::machine::cpus::CpuTopology;
use crate::name::{ContainerName, PodUid};
use crate::node_set::NodeSet;
use crate::pod::{Container, Pod};
use crate::quantity::Quantity;

/// The CPU manager's part of a kubelet configuration.
#[derive(Clone, Debug)]
pub struct CpuConfig<'a> {
    /// `none` or `static`.
    pub policy: &'a str,
    /// The policy's options as configured.
    pub options: &'a BTreeMap<String, String>,
    /// The feature gates for alpha and beta options.
    pub gates: OptionGates,
    /// `cpu` of systemReserved and kubeReserved together.
    pub reserved: Option<&'a Quantity>,
    /// `reservedSystemCPUs`; empty if not configured.
    pub reserved_cpus: CpuList,
    /// The name of the topology manager's policy.
    pub topology_policy: &'a str,
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
    pub fn new(topology: Arc<CpuTopology>, config: &CpuConfig<'_>) -> Result<Self, CpuConfigError> {
        match config.policy {
            "none" if config.options.is_empty() => Ok(CpuManager::None),
            "none" => Err(CpuConfigError::NoneHasOptions(as_go_map(config.options))),
            "static" => {
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
            other => Err(CpuConfigError::UnknownPolicy(other.to_owned())),
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

    /// See [`StaticCpus::container_hints`].
    #[must_use]
    pub fn container_hints(
        &self,
        state: &CpuState,
        reusable: &CpuSet,
        pod: &Pod,
        container: &Container,
    ) -> ProviderHints {
        self.as_static().map_or_else(ProviderHints::none, |policy| {
            policy.container_hints(state, reusable, pod, container)
        })
    }

    /// See [`StaticCpus::pod_hints`].
    #[must_use]
    pub fn pod_hints(&self, state: &CpuState, reusable: &CpuSet, pod: &Pod) -> ProviderHints {
        self.as_static().map_or_else(ProviderHints::none, |policy| {
            policy.pod_hints(state, reusable, pod)
        })
    }

    /// See [`StaticCpus::allocate`].
    ///
    /// # Errors
    /// If too few CPUs are free.
    pub fn allocate(
        &self,
        state: &CpuState,
        reusable: &CpuSet,
        affinity: Option<NodeSet>,
        pod: &Pod,
        container: &Container,
    ) -> Result<CpuGrant, CpuError> {
        self.as_static().map_or_else(
            || Ok(CpuGrant::default()),
            |policy| policy.allocate(state, reusable, affinity, pod, container),
        )
    }

    /// See [`StaticCpus::allocate_pod`].
    ///
    /// # Errors
    /// If too few CPUs are free, or none would be left for the pod's other containers.
    pub fn allocate_pod(
        &self,
        state: &CpuState,
        affinity: Option<NodeSet>,
        pod: &Pod,
    ) -> Result<CpuGrant, PodCpuRejection> {
        self.as_static().map_or_else(
            || Ok(CpuGrant::default()),
            |policy| policy.allocate_pod(state, affinity, pod),
        )
    }

    /// See [`StaticCpus::remove_container`].
    #[must_use]
    pub fn remove_container(
        &self,
        state: &CpuState,
        pod: &PodUid,
        container: &ContainerName,
    ) -> CpuEdits {
        self.as_static().map_or_else(CpuEdits::new, |policy| {
            policy.remove_container(state, pod, container)
        })
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
