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
pub use publish::{MANAGED_BY, publish};
pub(crate) use write::with_rest;

use std::collections::BTreeMap;

use pinfold_core::quantity::Quantity;

use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, Position, WithWarnings};
use crate::json_value::JsonFields;
use crate::manifest::field::FieldRef;
use crate::manifest::{self, Document};
use crate::meta::ObjectMeta;
use crate::written_quantity::WrittenQuantity;

/// The API group.
pub const GROUP: &str = "topology.node.k8s.io";
/// The kind.
pub const KIND: &str = "NodeResourceTopology";

/// The most zones of one object: NUMA nodes, and what other reporters add.
pub const MAX_ZONES: usize = 1024;

/// A version of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NrtVersion {
    /// The first; Koordinator's.
    V1Alpha1,
    /// Today's.
    #[default]
    V1Alpha2,
}

impl NrtVersion {
    /// Both.
    pub const ALL: [NrtVersion; 2] = [NrtVersion::V1Alpha1, NrtVersion::V1Alpha2];

    /// The `apiVersion` of an object.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            NrtVersion::V1Alpha1 => "topology.node.k8s.io/v1alpha1",
            NrtVersion::V1Alpha2 => "topology.node.k8s.io/v1alpha2",
        }
    }
}

/// What one node reports. Its name is the node's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeResourceTopology {
    /// The version it was read from, and is written in.
    pub version: NrtVersion,
    /// Name, labels and annotations.
    pub meta: ObjectMeta,
    /// Policy and scope in one word; only the first counts.
    pub topology_policies: Vec<String>,
    /// Facts about the node as a whole.
    pub attributes: Vec<NrtAttribute>,
    /// Its NUMA nodes, and whatever else the reporter knows.
    pub zones: Vec<NrtZone>,
    /// Everything else.
    pub rest: JsonFields,
}

/// A named fact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NrtAttribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Everything else.
    pub rest: JsonFields,
}

/// A part of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NrtZone {
    /// `node-<id>` for a NUMA node.
    pub name: String,
    /// `Node` for a NUMA node.
    pub kind: String,
    /// The zone it is a part of.
    pub parent: Option<String>,
    /// Distances to zones.
    pub costs: Vec<NrtCost>,
    /// Facts about the zone.
    pub attributes: Vec<NrtAttribute>,
    /// What it has.
    pub resources: Vec<NrtResource>,
    /// Everything else.
    pub rest: JsonFields,
}

/// The distance to a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NrtCost {
    /// The other zone.
    pub name: String,
    /// The firmware's number; 10 is local.
    pub value: i64,
    /// Everything else.
    pub rest: JsonFields,
}

/// One resource of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NrtResource {
    /// Its name.
    pub name: String,
    /// All there is.
    pub capacity: WrittenQuantity,
    /// What pods may use.
    pub allocatable: WrittenQuantity,
    /// What no running pod holds.
    pub available: WrittenQuantity,
    /// Everything else.
    pub rest: JsonFields,
}

/// Reads all objects of this kind in a file; others are passed over.
///
/// # Errors
/// With everything that makes the file unusable.
pub fn read(
    file: &str,
    bytes: &[u8],
) -> Result<WithWarnings<Vec<NodeResourceTopology>>, Diagnostics> {
    let mut report = DiagnosticReport::new(file);
    let mut objects = Vec::new();
    for document in manifest::read(file, bytes)? {
        if document.kind() == KIND {
            let mut own = DiagnosticReport::new(file);
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
    pub fn read(document: &Document) -> Result<WithWarnings<Self>, Diagnostics> {
        let mut report = DiagnosticReport::new(document.file());
        let object = read_into(document, &mut report);
        report.finish_some(object)
    }
}

fn read_into(document: &Document, report: &mut DiagnosticReport) -> Option<NodeResourceTopology> {
    let versions = NrtVersion::ALL.map(NrtVersion::api_version);
    let object = document.expect_kind(KIND, &versions, report)?;
    let version = match document.api_version() == versions[0] {
        true => NrtVersion::V1Alpha1,
        false => NrtVersion::V1Alpha2,
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
        NrtVersion::V1Alpha1 => Vec::new(),
        NrtVersion::V1Alpha2 => {
            known.push("attributes");
            attributes(&object, report)
        }
    };
    let mut topology_policies = Vec::new();
    for field in object.get_list("topologyPolicies", "a list of policies", report) {
        let word = field.text("a policy such as SingleNUMANodePodLevel", report);
        topology_policies.extend(word.map(str::to_owned));
    }
    if object.get("zones").is_none() {
        object.missing("zones", "a list of zones", report);
    }
    let places = object.get_list("zones", "a list of zones", report);
    if places.len() > MAX_ZONES {
        let problem = DiagnosticKind::TooComplex(format!("more than {MAX_ZONES} zones"));
        report.error(document.at(), "zones", problem, None);
        return None;
    }
    let zones: Vec<NrtZone> = places
        .iter()
        .filter_map(|field| zone(field, report))
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

fn attributes(parent: &FieldRef<'_>, report: &mut DiagnosticReport) -> Vec<NrtAttribute> {
    let mut attributes = Vec::new();
    for field in parent.get_list("attributes", "a list of names and values", report) {
        let name = field.required_text("name", "the attribute's name", report);
        let value = field.get_text("value", "the attribute's value", report);
        if let Some(name) = name {
            attributes.push(NrtAttribute {
                name,
                value: value.unwrap_or_default().to_owned(),
                rest: field.rest(&["name", "value"]),
            });
        }
    }
    attributes
}

fn zone(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<NrtZone> {
    let field = field.map("a zone", report)?;
    let name = field.required_text("name", "a name such as node-0", report);
    let kind = field.required_text("type", "a type such as Node", report);
    let parent = field.get_text("parent", "the name of a zone", report);
    let mut costs = Vec::new();
    for cost in field.get_list("costs", "a list of distances", report) {
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
            costs.push(NrtCost { name, value, rest });
        }
    }
    let attributes = attributes(&field, report);
    let mut resources = Vec::new();
    for item in field.get_list("resources", "a list of resources", report) {
        resources.extend(resource(&item, report));
    }
    Some(NrtZone {
        name: name?,
        kind: kind?,
        parent: parent.map(str::to_owned),
        costs,
        attributes,
        resources,
        rest: field.rest(&["name", "type", "parent", "costs", "attributes", "resources"]),
    })
}

fn resource(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<NrtResource> {
    let field = field.map("a resource", report)?;
    let name = field.required_text("name", "a resource such as cpu", report);
    let capacity = WrittenQuantity::read_required(&field, "capacity", report);
    let allocatable = WrittenQuantity::read_required(&field, "allocatable", report);
    let available = WrittenQuantity::read_required(&field, "available", report);
    let resource = NrtResource {
        name: name?,
        capacity: capacity?,
        allocatable: allocatable?,
        available: available?,
        rest: field.rest(&["name", "capacity", "allocatable", "available"]),
    };
    let (capacity, allocatable, available) = resource.quantities();
    if allocatable > capacity || available > allocatable {
        let words = format!(
            "found capacity {capacity}, allocatable {allocatable}, available {available}: none may be more than the one before"
        );
        field.warn(DiagnosticKind::Contradiction(words), None, report);
    }
    Some(resource)
}

impl NrtResource {
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
fn warn_same_names(places: &[FieldRef<'_>], zones: &[NrtZone], report: &mut DiagnosticReport) {
    // A zone that could not be read is missing from `zones`; then there are errors anyway.
    if places.len() != zones.len() {
        return;
    }
    let mut seen: BTreeMap<&str, Option<Position>> = BTreeMap::new();
    for (field, zone) in places.iter().zip(zones) {
        if let Some(first) = seen.insert(&zone.name, field.at()) {
            let words = format!("found a second zone {:?}", zone.name);
            let hint = first.map(|at| format!("the first one is at line {}", at.line));
            field.warn(DiagnosticKind::Contradiction(words), hint, report);
        }
    }
}
