//! Requests and responses of the agent's API on its unix socket, as `docs/agent-api.md` describes them.
//!
//! The agent writes these values as JSON, `pinfold` reads them. No network code is in here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::{Assignment, Decision};
use pinfold_core::ledger::Ledger;
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use pinfold_core::occupancy::Occupancy;
use pinfold_core::remedy::Remedies;
use pinfold_journal::Entry;
use pinfold_render::explain;
use serde::{Deserialize, Serialize};

/// The path of the agent's socket unless its configuration names another (`api.socket`).
pub const SOCKET: &str = "/run/pinfold/agent.sock";

/// How the node is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of the agent.
    pub version: String,
    /// The node's name.
    pub node: String,
    /// `manage` or `mirror`.
    pub mode: String,
    /// The topology policy.
    pub policy: String,
    /// The topology scope.
    pub scope: String,
    /// The number of the last entry in the journal.
    pub generation: u64,
    /// Whether the container runtime is connected; `None` if there is none.
    pub runtime: Option<bool>,
    /// What keeps the agent from doing its job, in sentences.
    pub problems: Vec<String>,
    /// How far the CPUs have been taken over from a kubelet that pins; `None` where there is nothing to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeover: Option<Takeover>,
    /// Who sits where.
    pub occupancy: Occupancy,
}

/// How far the CPUs have been taken over from a kubelet that pins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Takeover {
    /// `kubelet` (it pins, the agent touches nobody), `under-way` (the agent pins, but pods that the kubelet pinned still
    /// run, or its policy is not `none` yet) or `done`.
    pub phase: String,
    /// The policy of the kubelet's CPU manager, as its state file says; `None` if there is none.
    pub kubelet_policy: Option<String>,
    /// The pods that the kubelet pinned and that still run, with their CPUs.
    pub pinned: BTreeMap<PodUid, CpuSet>,
}

/// A pod that is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// Its id.
    pub uid: PodUid,
    /// What people call it.
    pub name: String,
    /// What its containers have.
    pub containers: Vec<ContainerReport>,
}

/// What a container may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerReport {
    /// Its name.
    pub name: ContainerName,
    /// The CPUs it may use.
    pub cpus: CpuSet,
    /// Whether they are its own. If not, they are the shared ones and change with them.
    pub own_cpus: bool,
    /// The NUMA nodes its memory may come from; empty if any.
    pub memory_nodes: NodeSet,
    /// Memory and hugepages that are booked for it.
    pub memory: Vec<MemoryReport>,
    /// Its devices.
    pub devices: Vec<DeviceReport>,
    /// What device plugins want in its environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// What device plugins want mounted into it.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Device files that it needs, on the host and inside.
    #[serde(default)]
    pub device_files: Vec<Mount>,
}

/// Memory of one kind that is booked on some NUMA nodes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryReport {
    /// `memory` or `hugepages-…`.
    pub resource: ResourceName,
    /// The nodes.
    pub nodes: NodeSet,
    /// How much.
    pub bytes: u64,
}

/// Devices of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceReport {
    /// The resource.
    pub resource: ResourceName,
    /// The ids of the devices.
    pub ids: Vec<String>,
}

/// Something of the host inside a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// Where it is on the host.
    pub host: String,
    /// Where it is inside.
    pub container: String,
    /// Whether it may only be read.
    #[serde(default)]
    pub read_only: bool,
}

/// A pod that was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Admitted {
    /// The pod with what it got.
    #[serde(flatten)]
    pub pod: PodReport,
    /// The number of its entry in the journal.
    pub generation: u64,
    /// Where it went and why there, for people.
    pub explanation: Vec<String>,
}

/// What is to be confined to what a pod was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    /// The container whose place it gets; `None` for the first app container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerName>,
    /// A process, with all its threads and children to come ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// ... or a control group, as an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enforced {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The NUMA nodes of its memory; empty if any.
    pub memory_nodes: NodeSet,
    /// What holds it there: the path of a control group, or `affinity`.
    pub held_by: String,
}

/// What other rules mean for everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// Whether it was done.
    pub applied: bool,
    /// The number of the last entry in the journal.
    pub generation: u64,
    /// Pods in the order they came.
    pub pods: Vec<FateReport>,
}

/// What becomes of one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FateReport {
    /// The pod.
    pub uid: PodUid,
    /// What people call it.
    pub name: String,
    /// `stays`, `moves`, `unaligned` or `homeless`.
    pub fate: String,
    /// Whether it has to be started again to get its devices.
    pub restart: bool,
    /// Why, if it is not aligned any more or has no place.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it will hold, if that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Assignment>,
}

/// A part of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalPage {
    /// Entries, oldest first.
    pub entries: Vec<Entry>,
    /// The number of the last entry there is: more are to be had if it is not among these.
    pub last: u64,
}

/// Why the API did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct ApiError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What is wrong.
    pub error: String,
    /// What to do about it.
    pub hint: String,
    /// For a rejection: why, and what would fit, for people.
    pub explanation: Vec<String>,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// What was sent makes no sense.
    BadInput,
    /// There is no such thing.
    NotFound,
    /// The answer is no.
    Rejected,
    /// It would contradict what is already so.
    Conflict,
    /// Not in this mode, or not on this machine.
    NotHere,
    /// Not now.
    Unavailable,
    /// A mistake of ours.
    Internal,
}

impl ApiError {
    /// A failure without more to say about it.
    #[must_use]
    pub fn new(kind: ErrorKind, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            kind,
            error: error.into(),
            hint: hint.into(),
            explanation: Vec::new(),
        }
    }

    /// A pod that was turned away, with the nearest changes that would fit.
    #[must_use]
    pub fn rejected(name: &str, decision: &Decision, remedies: Option<&Remedies>) -> Self {
        let told = explain::rejection(name, decision, remedies);
        Self {
            kind: ErrorKind::Rejected,
            error: explain::one_line(decision),
            hint: "the explanation names the changes with which the pod would fit".to_owned(),
            explanation: told.lines().map(str::to_owned).collect(),
        }
    }
}

impl PodReport {
    /// A pod of the ledger; `None` if it is not there. Containers without CPUs of their own have the shared ones.
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
                own_cpus: own.is_some(),
                cpus: own.unwrap_or_else(|| shared.clone()),
                memory_nodes: blocks
                    .iter()
                    .fold(NodeSet::EMPTY, |nodes, block| nodes | block.nodes),
                memory: blocks
                    .into_iter()
                    .map(|block| MemoryReport {
                        resource: block.resource,
                        nodes: block.nodes,
                        bytes: block.size,
                    })
                    .collect(),
                devices: held
                    .devices
                    .into_iter()
                    .map(|(resource, ids)| DeviceReport {
                        resource,
                        ids: ids.iter().map(ToString::to_string).collect(),
                    })
                    .collect(),
                environment: BTreeMap::new(),
                mounts: Vec::new(),
                device_files: Vec::new(),
            }
        });
        Some(Self {
            uid: pod.clone(),
            name: resident.pod.name.clone(),
            containers: containers.collect(),
        })
    }

    /// All pods of the ledger, in the order they came.
    #[must_use]
    pub fn all(ledger: &Ledger) -> Vec<Self> {
        let residents = ledger.admitted_pods().into_iter();
        residents
            .filter_map(|resident| Self::of(ledger, &resident.pod.uid))
            .collect()
    }
}
