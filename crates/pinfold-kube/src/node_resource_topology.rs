//! NodeResourceTopology: the object in which a node tells the cluster what its NUMA nodes have.
//!
//! ```text
//! v1alpha1 ─┐                       ┌─► core NodeTopology          core
//!           ├─► NodeResourceTopology┼─► Koordinator's report       crate::koordinator::report
//! v1alpha2 ─┘   (one value)         └─► v1alpha1 or v1alpha2       convert, write
//! machine, occupancy ──────────────►                               publish
//! ```
//!
//! Both versions hold the same things. v1alpha1 states policy and scope in one word of `topologyPolicies`, v1alpha2
//! as `attributes` of the object. Whatever else an object holds is kept and written back, at every level, and
//! amounts keep their spelling.

mod convert;
mod core;
mod publish;
#[cfg(test)]
mod tests;
mod write;

pub use convert::POLICY_WORDS;
pub use publish::{MANAGED_BY, publish, publish_ledger};
pub(crate) use write::with_rest;

use std::collections::BTreeMap;

use pinfold_core::quantity::Quantity;

use crate::amount::Amount;
use crate::content::Fields;
use crate::finding::{Findings, Position, Problem, Read, Report};
use crate::manifest::place::Place;
use crate::manifest::{self, Document};
use crate::meta::ObjectMeta;

/// The API group.
pub const GROUP: &str = "topology.node.k8s.io";
/// The kind.
pub const KIND: &str = "NodeResourceTopology";

/// The most zones of one object: NUMA nodes, and what other reporters add.
pub const MAX_ZONES: usize = 1024;

/// A version of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The first; Koordinator's.
    V1Alpha1,
    /// Today's.
    #[default]
    V1Alpha2,
}

impl Version {
    /// Both.
    pub const ALL: [Version; 2] = [Version::V1Alpha1, Version::V1Alpha2];

    /// The `apiVersion` of an object.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Version::V1Alpha1 => "topology.node.k8s.io/v1alpha1",
            Version::V1Alpha2 => "topology.node.k8s.io/v1alpha2",
        }
    }
}

/// What one node reports. Its name is the node's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeResourceTopology {
    /// The version it was read from, and is written in.
    pub version: Version,
    /// Name, labels and annotations.
    pub meta: ObjectMeta,
    /// Policy and scope in one word; only the first counts.
    pub topology_policies: Vec<String>,
    /// Facts about the node as a whole.
    pub attributes: Vec<Attribute>,
    /// Its NUMA nodes, and whatever else the reporter knows.
    pub zones: Vec<Zone>,
    /// Everything else.
    pub rest: Fields,
}

/// A named fact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Everything else.
    pub rest: Fields,
}

/// A part of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// `node-<id>` for a NUMA node.
    pub name: String,
    /// `Node` for a NUMA node.
    pub kind: String,
    /// The zone it is a part of.
    pub parent: Option<String>,
    /// Distances to zones.
    pub costs: Vec<Cost>,
    /// Facts about the zone.
    pub attributes: Vec<Attribute>,
    /// What it has.
    pub resources: Vec<Resource>,
    /// Everything else.
    pub rest: Fields,
}

/// The distance to a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The other zone.
    pub name: String,
    /// The firmware's number; 10 is local.
    pub value: i64,
    /// Everything else.
    pub rest: Fields,
}

/// One resource of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// All there is.
    pub capacity: Amount,
    /// What pods may use.
    pub allocatable: Amount,
    /// What no running pod holds.
    pub available: Amount,
    /// Everything else.
    pub rest: Fields,
}

/// Reads all objects of this kind in a file; others are passed over.
///
/// # Errors
/// With everything that makes the file unusable.
pub fn read(file: &str, bytes: &[u8]) -> Result<Read<Vec<NodeResourceTopology>>, Findings> {
    let mut report = Report::new(file);
    let mut objects = Vec::new();
    for document in manifest::read(file, bytes)? {
        if document.kind() == KIND {
            let mut own = Report::new(file);
            objects.extend(read_into(&document, &mut own));
            report.merge(own);
        }
    }
    report.finish(objects)
}

impl NodeResourceTopology {
    /// Reads one document of this kind, in either version.
    ///
    /// # Errors
    /// With everything that makes the object unusable.
    pub fn read(document: &Document) -> Result<Read<Self>, Findings> {
        let mut report = Report::new(document.file());
        let object = read_into(document, &mut report);
        report.finish_some(object)
    }
}

fn read_into(document: &Document, report: &mut Report) -> Option<NodeResourceTopology> {
    let versions = Version::ALL.map(Version::api_version);
    let object = document.expect_kind(KIND, &versions, report)?;
    let version = match document.api_version() == versions[0] {
        true => Version::V1Alpha1,
        false => Version::V1Alpha2,
    };
    let meta = ObjectMeta::read_cluster_scoped(document, report)?;
    let mut known = vec![
        "apiVersion",
        "kind",
        "metadata",
        "topologyPolicies",
        "zones",
    ];
    // An attribute of the whole object means nothing in v1alpha1; it is carried along like any other field.
    let attributes = match version {
        Version::V1Alpha1 => Vec::new(),
        Version::V1Alpha2 => {
            known.push("attributes");
            attributes(&object, report)
        }
    };
    let mut topology_policies = Vec::new();
    for place in object.get_list("topologyPolicies", "a list of policies", report) {
        let word = place.text("a policy such as SingleNUMANodePodLevel", report);
        topology_policies.extend(word.map(str::to_owned));
    }
    if object.get("zones").is_none() {
        object.missing("zones", "a list of zones", report);
    }
    let places = object.get_list("zones", "a list of zones", report);
    if places.len() > MAX_ZONES {
        let problem = Problem::TooComplex(format!("more than {MAX_ZONES} zones"));
        report.error(document.at(), "zones", problem, None);
        return None;
    }
    let zones: Vec<Zone> = places
        .iter()
        .filter_map(|place| zone(place, report))
        .collect();
    warn_same_names(&places, &zones, report);
    Some(NodeResourceTopology {
        version,
        meta,
        topology_policies,
        attributes,
        zones,
        rest: object.rest(&known),
    })
}

fn attributes(parent: &Place<'_>, report: &mut Report) -> Vec<Attribute> {
    let mut attributes = Vec::new();
    for place in parent.get_list("attributes", "a list of names and values", report) {
        let name = place.required_text("name", "the attribute's name", report);
        let value = place.get_text("value", "the attribute's value", report);
        if let Some(name) = name {
            attributes.push(Attribute {
                name,
                value: value.unwrap_or_default().to_owned(),
                rest: place.rest(&["name", "value"]),
            });
        }
    }
    attributes
}

fn zone(place: &Place<'_>, report: &mut Report) -> Option<Zone> {
    let place = place.map("a zone", report)?;
    let name = place.required_text("name", "a name such as node-0", report);
    let kind = place.required_text("type", "a type such as Node", report);
    let parent = place.get_text("parent", "the name of a zone", report);
    let mut costs = Vec::new();
    for cost in place.get_list("costs", "a list of distances", report) {
        let name = cost.required_text("name", "the name of a zone", report);
        let value = match cost.get("value") {
            Some(value) => value.integer("a distance", report),
            None => {
                cost.missing("value", "a distance", report);
                None
            }
        };
        if let (Some(name), Some(value)) = (name, value) {
            let rest = cost.rest(&["name", "value"]);
            costs.push(Cost { name, value, rest });
        }
    }
    let attributes = attributes(&place, report);
    let mut resources = Vec::new();
    for item in place.get_list("resources", "a list of resources", report) {
        resources.extend(resource(&item, report));
    }
    Some(Zone {
        name: name?,
        kind: kind?,
        parent: parent.map(str::to_owned),
        costs,
        attributes,
        resources,
        rest: place.rest(&["name", "type", "parent", "costs", "attributes", "resources"]),
    })
}

fn resource(place: &Place<'_>, report: &mut Report) -> Option<Resource> {
    let place = place.map("a resource", report)?;
    let name = place.required_text("name", "a resource such as cpu", report);
    let capacity = Amount::read_required(&place, "capacity", report);
    let allocatable = Amount::read_required(&place, "allocatable", report);
    let available = Amount::read_required(&place, "available", report);
    let resource = Resource {
        name: name?,
        capacity: capacity?,
        allocatable: allocatable?,
        available: available?,
        rest: place.rest(&["name", "capacity", "allocatable", "available"]),
    };
    let (capacity, allocatable, available) = resource.quantities();
    if allocatable > capacity || available > allocatable {
        let words = format!(
            "found capacity {capacity}, allocatable {allocatable}, available {available}: none may be more than the one before"
        );
        place.warn(Problem::Contradiction(words), None, report);
    }
    Some(resource)
}

impl Resource {
    /// Capacity, allocatable and available.
    #[must_use]
    pub fn quantities(&self) -> (Quantity, Quantity, Quantity) {
        (
            self.capacity.quantity(),
            self.allocatable.quantity(),
            self.available.quantity(),
        )
    }
}

/// Two zones of one name are told apart by nobody.
fn warn_same_names(places: &[Place<'_>], zones: &[Zone], report: &mut Report) {
    // A zone that could not be read is missing from `zones`; then there are errors anyway.
    if places.len() != zones.len() {
        return;
    }
    let mut seen: BTreeMap<&str, Option<Position>> = BTreeMap::new();
    for (place, zone) in places.iter().zip(zones) {
        if let Some(first) = seen.insert(&zone.name, place.at()) {
            let words = format!("found a second zone {:?}", zone.name);
            let hint = first.map(|at| format!("the first one is at line {}", at.line));
            place.warn(Problem::Contradiction(words), hint, report);
        }
    }
}
