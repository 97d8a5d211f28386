//! [`Note`]: what the ledger has no use for but whoever runs the node must remember about a pod.

use std::collections::BTreeMap;

use pinfold_core::name::ContainerName;
use pinfold_standalone::process::{Process, boot};
use serde::{Deserialize, Serialize};

/// What is remembered about a pod beside what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// How it came here.
    pub origin: Origin,
    /// The labels that decide something.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The annotations that decide something.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Control groups that no runtime knows and that are held to what a container of the pod has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, ContainerName>,
    /// Processes that no runtime knows, held in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<HeldProcess>,
}

/// A process, with what it started, that is held to what a container has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldProcess {
    /// The process.
    #[serde(flatten)]
    pub process: Process,
    /// Since which boot of the machine it runs.
    pub boot: String,
    /// The container.
    pub container: ContainerName,
}

impl HeldProcess {
    /// The process that has this number now, for a container; `None` if there is none.
    #[must_use]
    pub fn find(pid: u32, container: ContainerName) -> Option<Self> {
        Some(Self {
            process: Process::find(pid)?,
            boot: boot(),
            container,
        })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process.is_alive() && self.boot == boot()
    }
}

/// How a pod came to the node: that says when it is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Its container runtime told of it; it is gone when the runtime does not know it any more.
    #[default]
    Runtime,
    /// A person or program asked for it; it stays until they release it.
    Declared,
    /// The kubelet had pinned it before; nobody touches it until it ends.
    Kubelet,
}
