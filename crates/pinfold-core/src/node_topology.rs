//! NodeResourceTopology: what a node reports about its NUMA zones, and what the NodeResourceTopologyMatch
//! scheduler plugin makes of it.
//!
//! The values here are those of the object (group `topology.node.k8s.io`) with the names of its fields.
//! [`filter`] says whether a pod fits, [`score`] how well; both mirror scheduler-plugins. The plugin looks at one
//! of the kubelet's four policies; [`predict`] predicts the kubelet under all of them, from the same object.
//!
//! ```text
//! NodeTopology ─► manager: policy, scope, most NUMA nodes ─┐
//!      └────────► numa: zones by NUMA id, what is left ────┼─► filter, score
//! pod + overhead ─► request: per container, or as a whole ─┘
//!
//! Ledger ─► publish ─► NodeTopology ─► replica: the kubelet rebuilt ─► verdict
//! ```

use serde::{Deserialize, Serialize};

use crate::name::ResourceName;
use crate::quantity::Quantity;

pub mod args;
pub mod attributes;
pub mod filter;
pub mod numa_zones;
pub mod pod_demand;
pub mod prediction;
pub mod publish;
pub mod replica;
pub mod resource_kinds;
pub mod score;
pub mod topology_manager;

/// What one node reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeTopology {
    /// Policy and scope in one word (`SingleNUMANodePodLevel`): deprecated, and only the first is read.
    pub topology_policies: Vec<String>,
    /// Facts about the node as a whole, the kubelet's configuration among them.
    pub attributes: Vec<Attribute>,
    /// Zones: NUMA nodes, and whatever else the reporter knows.
    pub zones: Vec<Zone>,
}

/// A named fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A part of the machine.
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
    /// Distances to zones.
    #[serde(default)]
    pub costs: Vec<Cost>,
    /// Facts about the zone.
    #[serde(default)]
    pub attributes: Vec<Attribute>,
    /// What it has.
    #[serde(default)]
    pub resources: Vec<ZoneResource>,
}

/// The distance to a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The other zone.
    pub name: String,
    /// The firmware's number; 10 is local.
    pub value: i64,
}

/// One resource of one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneResource {
    /// Its name.
    pub name: ResourceName,
    /// All there is.
    pub capacity: Quantity,
    /// What pods may use.
    pub allocatable: Quantity,
    /// What no running pod holds.
    pub available: Quantity,
}
