//! [`Note`]: what the ledger has no use for but whoever runs the node must remember about a pod.

use std::collections::BTreeMap;

use pinfold_core::name::ContainerName;
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
