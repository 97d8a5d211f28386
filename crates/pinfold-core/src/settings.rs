//! [`Settings`]: the resource manager settings of a node, as in a kubelet configuration.
//!
//! Plain data: [`Rules::new`](crate::ledger::Rules::new) validates it against a machine, in the kubelet's order and with
//! its messages. Options stay as they are configured, because they are published in that spelling.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cpu_set::CpuList;
use crate::demand::PodLevel;
use crate::fidelity::Fidelity;
use crate::memory::MemoryReservation;
use crate::pod::ResourceList;
use crate::policy::TopologyPolicy;
use crate::quantity::Quantity;

/// The names of an enum's values in a kubelet configuration: as text, and parsed.
macro_rules! configured_names {
    ($type:ident, $unknown:ident { $($variant:ident = $name:literal,)+ }) => {
        impl $type {
            /// The name in a kubelet configuration.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $unknown;

            fn from_str(name: &str) -> Result<Self, $unknown> {
                match name {
                    $($name => Ok($type::$variant),)+
                    _ => Err($unknown { name: name.to_owned() }),
                }
            }
        }
    };
}
pub(crate) use configured_names;

mod built_in;
mod manager_policy;
mod topology;

pub use manager_policy::{CpuManagerPolicy, MemoryManagerPolicy};
pub use topology::{TopologyOptionError, TopologyOptions, TopologyScope, UnknownScope};

/// The resource manager settings of a node. The defaults are the kubelet's: nothing is managed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Whether the kubelet's defects are repeated.
    pub fidelity: Fidelity,
    /// The topology manager's policy.
    pub topology_policy: TopologyPolicy,
    /// The topology manager's scope.
    pub topology_scope: TopologyScope,
    /// Options of the topology manager.
    pub topology_options: BTreeMap<String, String>,
    /// The CPU manager's policy.
    pub cpu_policy: CpuManagerPolicy,
    /// Options of the static CPU policy.
    pub cpu_options: BTreeMap<String, String>,
    /// CPU reserved for the system: the sum of kubeReserved and systemReserved.
    pub reserved_cpu: Option<Quantity>,
    /// `reservedSystemCPUs`; without it the lowest cores are reserved.
    pub reserved_cpus: Option<CpuList>,
    /// The memory manager's policy.
    pub memory_policy: MemoryManagerPolicy,
    /// `reservedMemory`: memory reserved for the system, by NUMA node.
    pub reserved_memory: Vec<MemoryReservation>,
    /// The total reservation of the node, which `reserved_memory` must add up to.
    pub node_reservation: ResourceList,
    /// The feature gate `PodLevelResourceManagers`.
    pub pod_level_resources: bool,
    /// The feature gate `CPUManagerPolicyAlphaOptions`.
    pub alpha_cpu_options: bool,
    /// The feature gate `CPUManagerPolicyBetaOptions`.
    pub beta_cpu_options: bool,
}

impl Settings {
    /// Whether pods with pod-level resources are managed as a whole.
    #[must_use]
    pub fn pod_level(&self) -> PodLevel {
        match self.pod_level_resources {
            _ if !self.fidelity.sees_pod_level_resources() => PodLevel::Unknown,
            true => PodLevel::Managed,
            false => PodLevel::Ignored,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fidelity: Fidelity::default(),
            topology_policy: TopologyPolicy::default(),
            topology_scope: TopologyScope::default(),
            topology_options: BTreeMap::new(),
            cpu_policy: CpuManagerPolicy::default(),
            cpu_options: BTreeMap::new(),
            reserved_cpu: None,
            reserved_cpus: None,
            memory_policy: MemoryManagerPolicy::default(),
            reserved_memory: Vec::new(),
            node_reservation: ResourceList::new(),
            pod_level_resources: false,
            alpha_cpu_options: false,
            beta_cpu_options: true,
        }
    }
}
