//! The names and values of the attributes that describe the kubelet's configuration.
//!
//! `topologyManagerPolicy`, `topologyManagerScope` and `topologyManagerMaxNUMANodes` are defined by the plugin; Pinfold
//! adds the others, with the names of a KubeletConfiguration, because an exact prediction needs them.

use std::collections::BTreeMap;

use super::{Attribute, NodeTopology};

/// `none`, `best-effort`, `restricted` or `single-numa-node`.
pub const TOPOLOGY_POLICY: &str = "topologyManagerPolicy";
/// `container` or `pod`.
pub const TOPOLOGY_SCOPE: &str = "topologyManagerScope";
/// The maximum number of NUMA nodes of the topology manager.
pub const MAX_NUMA_NODES: &str = "topologyManagerMaxNUMANodes";
/// Options of the topology manager: `name=value`, separated by commas.
pub const TOPOLOGY_OPTIONS: &str = "topologyManagerPolicyOptions";
/// `none` or `static`.
pub const CPU_POLICY: &str = "cpuManagerPolicy";
/// Options of the CPU manager: `name=value`, separated by commas.
pub const CPU_OPTIONS: &str = "cpuManagerPolicyOptions";
/// `None` or `Static`.
pub const MEMORY_POLICY: &str = "memoryManagerPolicy";
/// `true` if the gate `PodLevelResourceManagers` is on.
pub const POD_LEVEL: &str = "podLevelResourceManagers";
/// The CPUs of every last-level cache, separated by semicolons; present if an option of the CPU manager uses caches.
pub const CACHES: &str = "cpuCaches";
/// Device resources with devices near several NUMA nodes, each of which counts them.
pub const WIDE_DEVICES: &str = "devicesNearSeveralNUMANodes";
/// On a zone: the zones of its memory group, itself included, that the memory manager can only use together. Empty if
/// no container holds memory of the zone; without the attribute the group is unknown.
pub const MEMORY_GROUP: &str = "memoryManagerGroup";

/// The value of the first attribute of that name.
pub(super) fn first<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    let mut found = attributes.iter().filter(|attribute| attribute.name == name);
    found.next().map(|attribute| attribute.value.as_str())
}

/// An attribute with that value.
pub(super) fn attribute(name: &str, value: impl Into<String>) -> Attribute {
    Attribute {
        name: name.to_owned(),
        value: value.into(),
    }
}

/// `a=1,b=2`.
pub(super) fn options_text(options: &BTreeMap<String, String>) -> String {
    let rows: Vec<String> = options
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    rows.join(",")
}

/// The options in `a=1,b=2`; a name without a value is `true`.
pub(super) fn options(text: &str) -> BTreeMap<String, String> {
    let rows = text
        .split(',')
        .map(str::trim)
        .filter(|row| !row.is_empty())
        .map(|row| row.split_once('=').unwrap_or((row, "true")));
    rows.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

impl NodeTopology {
    /// The value of the first attribute of that name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        first(&self.attributes, name)
    }
}
