//! The NUMA zones of a topology object, with the available amounts.
//!
//! Mirrors `createNUMANodeList` and the plugin's subtractions. The order of the object's zone list is kept.

use crate::node_topology::TopologyMatchDefects;
use std::collections::BTreeMap;

use super::Zone;
use super::resource_kinds::is_numa_affine;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::ResourceList;
use pinfold_core::qos::QosClass;
use pinfold_core::quantity::Quantity;

/// One NUMA zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaZone {
    /// Its NUMA id.
    pub id: NodeId,
    /// The available amount of each resource that it reports.
    pub available: ResourceList,
    /// Distances by NUMA id.
    pub costs: BTreeMap<NodeId, i64>,
}

/// A request exceeds the available amount of a zone, because two zones have the same NUMA id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource \"{resource}\" request {request} exceeds NUMA {node} availability {available}")]
pub struct Overdrawn {
    /// The resource.
    pub resource: ResourceName,
    /// The requested amount.
    pub request: Quantity,
    /// The NUMA id.
    pub node: NodeId,
    /// The available amount.
    pub available: Quantity,
}

/// All NUMA zones of a node, in the order of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaZones {
    zones: Vec<NumaZone>,
}

impl NumaZones {
    /// The NUMA zones: those of type `Node` with a name `node-<id>`, id 0 to 63.
    ///
    /// If several zones have one id, all get the distances of the last one.
    #[must_use]
    pub fn of(zones: &[Zone]) -> Self {
        let numbered = || {
            zones
                .iter()
                .filter(|zone| zone.kind == "Node")
                .filter_map(|zone| Some((numa_id(&zone.name)?, zone)))
        };
        let last: BTreeMap<NodeId, &Zone> = numbered().collect();
        let zone = |(id, zone): (NodeId, &Zone)| {
            let resources = zone.resources.iter();
            NumaZone {
                id,
                available: resources
                    .map(|resource| (resource.name.clone(), resource.available))
                    .collect(),
                costs: last
                    .get(&id)
                    .into_iter()
                    .flat_map(|zone| &zone.costs)
                    .filter_map(|cost| Some((numa_id(&cost.name)?, cost.value)))
                    .collect(),
            }
        };
        Self {
            zones: numbered().map(zone).collect(),
        }
    }

    /// The zones in the order of the object.
    #[must_use]
    pub fn as_slice(&self) -> &[NumaZone] {
        &self.zones
    }

    /// Whether no zone reports any of the resources.
    #[must_use]
    pub(crate) fn report_none_of(&self, resources: &ResourceList) -> bool {
        let reported = |name: &ResourceName| {
            self.zones
                .iter()
                .any(|zone| zone.available.contains_key(name))
        };
        !resources.keys().any(reported)
    }

    /// Subtracts a request from the zone with this id. CPU, memory and hugepages are not subtracted if the pod is not
    /// Guaranteed. Mirrors `subtractResourcesFromNUMANodeList`.
    ///
    /// # Errors
    /// If a zone with this id has less; part of the request may have been subtracted then.
    pub(crate) fn subtract(
        &mut self,
        id: NodeId,
        request: &ResourceList,
        qos: QosClass,
    ) -> Result<(), Box<Overdrawn>> {
        for zone in self.zones.iter_mut().filter(|zone| zone.id == id) {
            for (name, quantity) in request {
                let shared = qos != QosClass::Guaranteed && is_numa_affine(name.as_str());
                if shared || quantity.is_zero() {
                    continue;
                }
                let Some(available) = zone.available.get_mut(name) else {
                    continue;
                };
                if *available < *quantity {
                    return Err(Box::new(Overdrawn {
                        resource: name.clone(),
                        request: *quantity,
                        node: id,
                        available: *available,
                    }));
                }
                *available -= *quantity;
            }
        }
        Ok(())
    }

    /// Subtracts a request from several zones, as much as possible from the lowest. Mirrors `subtractFromNUMAs`, which
    /// uses ids as indexes into the list.
    pub(crate) fn subtract_across(
        &mut self,
        nodes: NodeSet,
        request: &ResourceList,
        fidelity: Fidelity,
    ) {
        for (name, quantity) in request {
            let mut missing = *quantity;
            for node in nodes {
                if missing.is_zero() {
                    break;
                }
                let zone = match fidelity.uses_node_ids_as_indexes() {
                    true => self.zones.get_mut(node.index()),
                    false => self.zones.iter_mut().find(|zone| zone.id == node),
                };
                let Some(available) = zone.and_then(|zone| zone.available.get_mut(name)) else {
                    continue;
                };
                let taken = missing.min(*available);
                missing -= taken;
                *available -= taken;
            }
        }
    }
}

/// The id in a zone's name `node-<id>`.
#[must_use]
pub fn numa_id(name: &str) -> Option<NodeId> {
    let id: i64 = name.strip_prefix("node-")?.parse().ok()?;
    NodeId::new(id).ok()
}
