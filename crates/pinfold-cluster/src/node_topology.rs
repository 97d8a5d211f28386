//! NodeResourceTopology: the report of a node about its NUMA zones, and the scheduler plugin
//! NodeResourceTopologyMatch that reads it.
//!
//! The types have the fields of the object (group `topology.node.k8s.io`). [`filter`] decides whether a pod fits a node
//! and [`score`] rates the node; both mirror scheduler-plugins. The plugin filters for one of the kubelet's four
//! policies; [`prediction`] predicts the kubelet under all of them, from the same object.
//!
//! ```text
//! NodeTopology ─► topology_manager: policy, scope, max NUMA nodes ─┐
//!      └────────► numa_zones: available amounts by NUMA id ─────────┼─► filter, score
//! pod + overhead ─► pod_demand: per container, or of the pod ───────┘
//!
//! Ledger ─► publish ─► NodeTopology ─► replica: the kubelet rebuilt ─► prediction
//! ```

use serde::{Deserialize, Serialize};

use pinfold_core::name::ResourceName;
use pinfold_core::quantity::Quantity;

pub mod args;
pub mod attributes;
mod defects;
pub mod filter;
pub mod numa_zones;
pub(crate) mod pod_demand;
pub mod prediction;
pub mod publish;
pub mod replica;
pub mod resource_kinds;
pub mod score;
pub mod topology_manager;

pub use defects::TopologyMatchDefects;

/// The NodeResourceTopology object of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeTopology {
    /// Policy and scope in one value (`SingleNUMANodePodLevel`): deprecated, and only the first is read.
    pub topology_policies: Vec<String>,
    /// Attributes of the node, the kubelet's configuration among them.
    pub attributes: Vec<Attribute>,
    /// Zones: NUMA nodes, and other zones that the exporter reports.
    pub zones: Vec<Zone>,
}

/// An attribute of a node or a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A zone: a part of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// `node-<id>` for a NUMA node.
    pub name: String,
    /// `Node` for a NUMA node.
    #[serde(rename = "type")]
    pub kind: String,
    /// The zone it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Distances to other zones.
    #[serde(default)]
    pub costs: Vec<Cost>,
    /// Attributes of the zone.
    #[serde(default)]
    pub attributes: Vec<Attribute>,
    /// Its resources.
    #[serde(default)]
    pub resources: Vec<ZoneResource>,
}

/// The distance to a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The other zone.
    pub name: String,
    /// The distance of the firmware's SLIT table; 10 is local.
    pub value: i64,
}

/// One resource of one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneResource {
    /// Its name.
    pub name: ResourceName,
    /// The amount of the hardware.
    pub capacity: Quantity,
    /// The amount that pods may use.
    pub allocatable: Quantity,
    /// The amount that no running pod holds.
    pub available: Quantity,
}
