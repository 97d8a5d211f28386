//! A whole node in the format of the vectors: settings, devices and the steps to replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuList;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Rules, SettingsError};
use pinfold_core::machine::Machine;
use pinfold_core::memory::MemoryReservation;
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_core::pod::{Pod, ResourceList};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, Settings, TopologyScope};
use serde::Deserialize;
use serde_json::Value;

use super::devices::DeviceResource;

/// The input of an admission case.
#[derive(Deserialize)]
pub(super) struct Scenario {
    /// The id of a machine; `None` if the scenario contains the machine itself.
    #[serde(default)]
    pub(super) topology: String,
    topology_policy: String,
    topology_scope: String,
    topology_options: BTreeMap<String, String>,
    cpu_policy: String,
    cpu_options: BTreeMap<String, String>,
    reserved_cpu: Quantity,
    reserved_cpus: Option<String>,
    memory_policy: String,
    #[serde(default)]
    reserved_memory: Vec<ReservationJson>,
    #[serde(default)]
    pub(super) devices: Vec<DeviceResource>,
    #[serde(default)]
    pod_level_resource_managers: bool,
    /// A feature gate, on unless the vectors say otherwise.
    #[serde(default = "on")]
    cpu_manager_policy_alpha_options: bool,
    #[serde(default)]
    pub(super) steps: Vec<Step>,
}

fn on() -> bool {
    true
}

#[derive(Deserialize)]
struct ReservationJson {
    numa: i64,
    limits: ResourceList,
}

/// One event.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum Step {
    /// A pod is added.
    Add {
        /// The pod.
        pod: Arc<Pod>,
    },
    /// A pod is removed.
    Remove {
        /// The pod.
        uid: PodUid,
    },
    /// All containers of a pod start, one after the other.
    Start {
        /// The pod.
        uid: PodUid,
    },
    /// The kubelet restarts.
    Restart,
}

impl Scenario {
    pub(super) fn read(json: &Value) -> Result<Self, String> {
        Scenario::deserialize(json).map_err(|error| format!("scenario: {error}"))
    }

    /// The rules of the node, or the error with which the kubelet would not start.
    pub(super) fn rules(
        &self,
        machine: &Machine,
        fidelity: Fidelity,
    ) -> Result<Result<Rules, SettingsError>, String> {
        let mut node_reservation = ResourceList::new();
        let mut reserved_memory = Vec::new();
        let cpu = ResourceName::from("cpu");
        for reservation in &self.reserved_memory {
            for (resource, amount) in reservation.limits.iter().filter(|(own, _)| **own != cpu) {
                let sum: &mut Quantity = node_reservation.entry(resource.clone()).or_default();
                *sum += *amount;
            }
            reserved_memory.push(MemoryReservation {
                numa_node: reservation.numa,
                limits: reservation.limits.clone(),
            });
        }
        node_reservation.insert(cpu, self.reserved_cpu);
        let reserved_cpus = self
            .reserved_cpus
            .as_deref()
            .map(CpuList::parse)
            .transpose();
        let (topology_policy, topology_scope, cpu_policy) = match self.policies() {
            Ok(policies) => policies,
            Err(error) => return Ok(Err(error)),
        };
        // The memory manager is made last: its policy is wrong only if nothing else is.
        let memory_policy: Result<MemoryManagerPolicy, _> = self.memory_policy.parse();
        let settings = Settings {
            fidelity,
            topology_policy,
            topology_scope,
            topology_options: self.topology_options.clone(),
            cpu_policy,
            cpu_options: self.cpu_options.clone(),
            reserved_cpu: Some(self.reserved_cpu),
            reserved_cpus: reserved_cpus.map_err(|error| format!("reserved_cpus: {error}"))?,
            memory_policy: memory_policy.clone().unwrap_or_default(),
            reserved_memory,
            node_reservation,
            pod_level_resources: self.pod_level_resource_managers,
            alpha_cpu_options: self.cpu_manager_policy_alpha_options,
            beta_cpu_options: true,
        };
        let rules = Rules::new(Arc::new(machine.clone()), settings);
        Ok(rules.and_then(|rules| Ok(memory_policy.map(|_| rules)?)))
    }

    /// The policies and the scope by name, without the memory manager's. Under the topology policy `none` the kubelet does not read the scope.
    fn policies(&self) -> Result<(TopologyPolicy, TopologyScope, CpuManagerPolicy), SettingsError> {
        let policy = self.topology_policy.parse()?;
        let scope = match policy {
            TopologyPolicy::None => self.topology_scope.parse().unwrap_or_default(),
            _ => self.topology_scope.parse()?,
        };
        Ok((policy, scope, self.cpu_policy.parse()?))
    }
}
