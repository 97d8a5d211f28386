//! The request and response bodies of the agent's API on its unix socket, as `docs/agent-api.md` describes them.
//!
//! The agent writes them as JSON, `pinfold` reads them. This crate has no network code.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::{Assignment, Decision};
use pinfold_core::ledger::Ledger;
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use pinfold_core::occupancy::Occupancy;
use pinfold_core::remedy::Remedies;
use pinfold_journal::JournalEntry;
use pinfold_render::explain;
use serde::{Deserialize, Serialize};

/// Default path of the agent's socket. The configuration field `api.socket` changes it.
pub const SOCKET: &str = "/run/pinfold/agent.sock";

/// The agent's settings and health, and the occupancy of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// The version of the agent.
    pub version: String,
    /// The node's name.
    pub node: String,
    /// `manage` or `mirror`.
    pub mode: String,
    /// The topology manager policy.
    pub topology_policy: String,
    /// The topology manager scope.
    pub topology_scope: String,
    /// Number of the last journal entry.
    pub generation: u64,
    /// Whether the container runtime is connected; `None` if no runtime is configured.
    pub runtime_connected: Option<bool>,
    /// The agent's present problems, one sentence each.
    pub problems: Vec<String>,
    /// Progress of taking CPUs over from the kubelet's static CPU manager; `None` if there is nothing to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeover: Option<TakeoverStatus>,
    /// Control groups that differ from the journal; `None` if the agent does not check any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,
    /// The CPUs that best-effort pods may use now; `None` if they use the shared pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_effort_cpus: Option<CpuSet>,
    /// The CPUs, memory and devices of the node with the pods that hold them.
    pub occupancy: Occupancy,
}

/// Control groups that differ from the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftStatus {
    /// Containers whose control group differed at the last check and was not repaired.
    pub drifted_containers: u32,
    /// Control groups that were repaired since the agent started.
    pub repaired: u64,
}

/// Progress of taking CPUs over from the kubelet's static CPU manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TakeoverStatus {
    /// `kubelet` (the kubelet pins and the agent changes no container), `in-progress` (the agent pins, but pods that the
    /// kubelet pinned still run, or the kubelet's policy is not `none` yet) or `done`.
    pub phase: String,
    /// The CPU manager policy in the kubelet's state file; `None` if there is no file.
    pub kubelet_policy: Option<String>,
    /// The running pods that the kubelet pinned, with their CPUs.
    pub pinned_pods: BTreeMap<PodUid, CpuSet>,
}

/// A pod in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// The pod's UID.
    pub uid: PodUid,
    /// Namespace and name.
    pub name: String,
    /// Whether the pod opts out of pinning with the annotation `pinfold.dev/pin: "false"`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opted_out: bool,
    /// The resources of its containers.
    pub containers: Vec<ContainerReport>,
}

/// The resources of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerReport {
    /// The container's name.
    pub name: ContainerName,
    /// The CPUs that it is pinned to.
    pub cpus: CpuSet,
    /// Whether the CPUs are exclusive. If not, they are the shared pool and change with it.
    pub exclusive_cpus: bool,
    /// The CPUs that the kernel lets it use, if they are other ones and the agent cannot change that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_cpus: Option<CpuSet>,
    /// The NUMA nodes that its memory is pinned to; empty for any node.
    pub memory_nodes: NodeSet,
    /// Memory and hugepages that the memory manager assigned.
    pub memory: Vec<MemoryReport>,
    /// The devices that the device manager assigned.
    pub devices: Vec<DeviceReport>,
    /// Environment variables that device plugins set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Mounts that device plugins add.
    #[serde(default)]
    pub mounts: Vec<HostMount>,
    /// Device files that device plugins add.
    #[serde(default)]
    pub device_files: Vec<HostMount>,
}

/// Memory or hugepages assigned from a group of NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryReport {
    /// `memory` or `hugepages-…`.
    pub resource: ResourceName,
    /// The NUMA nodes.
    pub numa_nodes: NodeSet,
    /// Size in bytes.
    pub bytes: u64,
}

/// Devices of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceReport {
    /// The extended resource.
    pub resource: ResourceName,
    /// The ids of the devices.
    pub device_ids: Vec<String>,
}

/// A file or folder of the host that is mounted into a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostMount {
    /// Path on the host.
    pub host_path: String,
    /// Path in the container.
    pub container_path: String,
    /// Whether the mount is read-only.
    #[serde(default)]
    pub read_only: bool,
}

/// Response to an admission request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    /// The pod with its assigned resources.
    #[serde(flatten)]
    pub pod: PodReport,
    /// Number of the journal entry of the admission.
    pub generation: u64,
    /// The placement and its reasons, as lines of text.
    pub explanation: Vec<String>,
}

/// The process or control group to pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinTarget {
    /// The container whose CPUs and NUMA nodes it is pinned to; `None` for the first app container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerName>,
    /// A process: all its threads and future children are pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Absolute path of a control group, instead of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

/// The result of pinning a process or control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinResult {
    /// The CPUs that it is pinned to.
    pub cpus: CpuSet,
    /// The NUMA nodes that its memory is pinned to; empty for any node.
    pub memory_nodes: NodeSet,
    /// How it is pinned: the path of a control group, or `affinity`.
    pub method: String,
}

/// Response to a change of settings: the outcome for each pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RulesChangeReport {
    /// Whether the change was applied.
    pub applied: bool,
    /// Number of the last journal entry.
    pub generation: u64,
    /// Pods in the order of admission.
    pub pods: Vec<PodOutcomeReport>,
}

/// The outcome of a change of settings for one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOutcomeReport {
    /// The pod's UID.
    pub uid: PodUid,
    /// Namespace and name.
    pub name: String,
    /// `unchanged`, `moved`, `unaligned` or `unplaceable`.
    pub outcome: String,
    /// Whether the pod must be restarted to get its new devices.
    pub needs_restart: bool,
    /// For `unaligned` and `unplaceable`: why the new settings reject the pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The new assignment, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Assignment>,
}

/// One page of journal entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalPage {
    /// Entries, oldest first.
    pub entries: Vec<JournalEntry>,
    /// Number of the newest entry of the journal. If it is not on this page, there are more pages.
    pub last_number: u64,
}

/// An error response of the API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct AgentApiError {
    /// The kind, which determines the HTTP status code.
    pub kind: ApiErrorKind,
    /// The error message.
    pub error: String,
    /// What the client can do about it.
    pub hint: String,
    /// For a rejected pod: the reason and the nearest requests that would fit, as lines of text.
    pub explanation: Vec<String>,
}

/// Kinds of API errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiErrorKind {
    /// The request is invalid.
    BadInput,
    /// There is no such path, pod or container.
    NotFound,
    /// The pod was rejected.
    Rejected,
    /// The request conflicts with the present state.
    Conflict,
    /// Not possible in this mode or on this machine.
    Unsupported,
    /// Not possible at the moment; the client may retry.
    Unavailable,
    /// A defect of the agent.
    Internal,
}

impl AgentApiError {
    /// An error without an explanation.
    #[must_use]
    pub fn new(kind: ApiErrorKind, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            kind,
            error: error.into(),
            hint: hint.into(),
            explanation: Vec::new(),
        }
    }

    /// The rejection of a pod, with the nearest requests that would fit.
    #[must_use]
    pub fn rejected(name: &str, decision: &Decision, remedies: Option<&Remedies>) -> Self {
        let explanation = explain::rejection(name, decision, remedies, explain::WIDTH);
        Self {
            kind: ApiErrorKind::Rejected,
            error: explain::one_line(decision),
            hint: "the explanation names the changes with which the pod would fit".to_owned(),
            explanation: explanation.lines().map(str::to_owned).collect(),
        }
    }
}

impl PodReport {
    /// Reports a pod of the ledger; `None` if the ledger does not hold it. Containers without exclusive CPUs have the
    /// shared pool.
    #[must_use]
    pub fn of(ledger: &Ledger, pod: &PodUid) -> Option<Self> {
        let resident = ledger.state().admitted_pods().get(pod)?;
        let assignment = ledger.assignment(pod)?;
        let shared = ledger.state().cpus().shared();
        let containers = assignment.containers.into_iter().map(|held| {
            let blocks = held.memory.unwrap_or_default();
            let own = held.cpus.filter(|cpus| !cpus.is_empty());
            ContainerReport {
                name: held.name,
                exclusive_cpus: own.is_some(),
                cpus: own.unwrap_or_else(|| shared.clone()),
                effective_cpus: None,
                memory_nodes: blocks
                    .iter()
                    .fold(NodeSet::EMPTY, |nodes, block| nodes | block.nodes),
                memory: blocks
                    .into_iter()
                    .map(|block| MemoryReport {
                        resource: block.resource,
                        numa_nodes: block.nodes,
                        bytes: block.size,
                    })
                    .collect(),
                devices: held
                    .devices
                    .into_iter()
                    .map(|(resource, ids)| DeviceReport {
                        resource,
                        device_ids: ids.iter().map(ToString::to_string).collect(),
                    })
                    .collect(),
                env: BTreeMap::new(),
                mounts: Vec::new(),
                device_files: Vec::new(),
            }
        });
        Some(Self {
            uid: pod.clone(),
            name: resident.pod.name.clone(),
            opted_out: false,
            containers: containers.collect(),
        })
    }

    /// Reports all pods of the ledger, in the order of admission.
    #[must_use]
    pub fn all(ledger: &Ledger) -> Vec<Self> {
        let residents = ledger.admitted_pods().into_iter();
        residents
            .filter_map(|resident| Self::of(ledger, &resident.pod.uid))
            .collect()
    }
}
