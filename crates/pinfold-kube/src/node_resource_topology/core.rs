//! Converts the object to the core's [`NodeTopology`].

use pinfold_cluster::node_topology::{self, NodeTopology};

use super::{NodeResourceTopology, NrtAttribute};

impl NodeResourceTopology {
    /// The fields that the NodeResourceTopologyMatch plugin reads.
    #[must_use]
    pub fn to_core(&self) -> NodeTopology {
        let zone = |zone: &super::NrtZone| node_topology::Zone {
            name: zone.name.clone(),
            kind: zone.kind.clone(),
            parent: zone.parent.clone(),
            costs: zone
                .costs
                .iter()
                .map(|cost| node_topology::Cost {
                    name: cost.name.clone(),
                    value: cost.value,
                })
                .collect(),
            attributes: zone.attributes.iter().map(attribute).collect(),
            resources: zone
                .resources
                .iter()
                .map(|resource| node_topology::ZoneResource {
                    name: resource.name.as_str().into(),
                    capacity: resource.capacity.quantity(),
                    allocatable: resource.allocatable.quantity(),
                    available: resource.available.quantity(),
                })
                .collect(),
        };
        NodeTopology {
            topology_policies: self.topology_policies.clone(),
            attributes: self.attributes.iter().map(attribute).collect(),
            zones: self.zones.iter().map(zone).collect(),
        }
    }
}

fn attribute(attribute: &NrtAttribute) -> node_topology::Attribute {
    node_topology::Attribute {
        name: attribute.name.clone(),
        value: attribute.value.clone(),
    }
}
