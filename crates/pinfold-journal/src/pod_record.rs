//! [`JournalPodRecord`]: facts about a pod that the agent needs after a restart and the ledger does not store.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::ContainerName;
use pinfold_standalone::process::{Process, boot};
use serde::{Deserialize, Serialize};

/// Facts about a pod that are journaled beside the resources it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPodRecord {
    /// The source through which the pod was admitted.
    pub origin: PodOrigin,
    /// Whether its CPUs were chosen by another program or by rules that the ledger does not have. The ledger cannot choose
    /// them again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub granted: bool,
    /// The labels that placement depends on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The annotations that placement depends on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Control groups outside the container runtime that are pinned to the CPUs of a container of the pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cgroups: BTreeMap<String, ContainerName>,
    /// Processes outside the container runtime that are pinned to the CPUs of a container of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<PinnedProcess>,
}

/// A process that is pinned, with its descendants, to the CPUs of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedProcess {
    /// The process.
    #[serde(flatten)]
    pub process: Process,
    /// Boot id of the machine when the process was pinned: after a reboot another process may have the same pid.
    pub boot: String,
    /// The container whose CPUs it is pinned to.
    pub container: ContainerName,
    /// Its CPU affinity before, which is restored when the pod is released.
    #[serde(default)]
    pub affinity: CpuSet,
}

impl PinnedProcess {
    /// A record of the running process `pid` as pinned to `container`; `None` if there is no such process.
    #[must_use]
    pub fn find(pid: u32, container: ContainerName) -> Option<Self> {
        Some(Self {
            process: Process::find(pid)?,
            boot: boot(),
            container,
            affinity: affinity(pid),
        })
    }

    /// Whether the process is still running.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process.is_alive() && self.boot == boot()
    }
}

/// The CPU affinity of a process; empty if it cannot be read.
fn affinity(pid: u32) -> CpuSet {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| list.trim().parse().ok())
        .unwrap_or_default()
}

/// The source through which a pod was admitted. It determines when the pod is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodOrigin {
    /// The container runtime reported it. It is released when the runtime no longer lists it.
    #[default]
    Runtime,
    /// A client of the agent's API declared it. It is released by a request to the API.
    Api,
    /// The kubelet pinned it before the agent took the node over. Its CPUs do not change until it terminates.
    Kubelet,
}
