//! [`Settings`]: the resource manager settings of a node, as in a kubelet configuration.
//!
//! Plain data, not validated: [`Rules::new`](crate::ledger::Rules::new) validates it against a machine, in the
//! kubelet's order and with its messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cpu_set::CpuList;
use crate::fidelity::Fidelity;
use crate::memory::MemoryReservation;
use crate::pod::ResourceList;
use crate::quantity::Quantity;

mod built_in;
mod topology;

pub use topology::{TopologyOptionError, TopologyOptions, TopologyScope, UnknownScope};

/// The resource manager settings of a node. The defaults are the kubelet's: nothing is managed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Whether the kubelet's defects are repeated.
    pub fidelity: Fidelity,
    /// `none`, `best-effort`, `restricted` or `single-numa-node`.
    pub topology_policy: String,
    /// `container` or `pod`.
    pub topology_scope: String,
    /// Options of the topology manager.
    pub topology_options: BTreeMap<String, String>,
    /// `none` or `static`.
    pub cpu_policy: String,
    /// Options of the static CPU policy.
    pub cpu_options: BTreeMap<String, String>,
    /// CPU reserved for the system: the sum of kubeReserved and systemReserved.
    pub reserved_cpu: Option<Quantity>,
    /// `reservedSystemCPUs`; without it the lowest cores are reserved.
    pub reserved_cpus: Option<CpuList>,
    /// `None` or `Static`.
    pub memory_policy: String,
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            fidelity: Fidelity::default(),
            topology_policy: "none".into(),
            topology_scope: "container".into(),
            topology_options: BTreeMap::new(),
            cpu_policy: "none".into(),
            cpu_options: BTreeMap::new(),
            reserved_cpu: None,
            reserved_cpus: None,
            memory_policy: "None".into(),
            reserved_memory: Vec::new(),
            node_reservation: ResourceList::new(),
            pod_level_resources: false,
            alpha_cpu_options: false,
            beta_cpu_options: true,
        }
    }
}
