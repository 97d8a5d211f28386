//! NodeResourceTopology: the object with the resources of a node's NUMA nodes.
//!
//! ```text
//! v1alpha1 ─┐                       ┌─► core NodeTopology          core
//!           ├─► NodeResourceTopology┼─► Koordinator's report       crate::koordinator::report
//! v1alpha2 ─┘   (one value)         └─► v1alpha1 or v1alpha2       convert, write
//! machine, occupancy ──────────────►                               publish
//! ```
//!
//! Both versions have the same content. v1alpha1 states policy and scope in one value of `topologyPolicies`, v1alpha2
//! as `attributes` of the object. Unknown fields are kept and written back at every level, and amounts keep their
//! original text.

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

/// Limit of the zones of one object: NUMA nodes, and zones that other reporters add.
pub const MAX_ZONES: usize = 1024;

/// A version of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NrtVersion {
    /// `v1alpha1`, which Koordinator uses.
    V1Alpha1,
    /// `v1alpha2`, the current version.
    #[default]
    V1Alpha2,
}

impl NrtVersion {
    /// Both versions.
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

/// The resources of a node's NUMA nodes. The object's name is the node's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeResourceTopology {
    /// The version it was read from and is written in.
    pub version: NrtVersion,
    /// Name, labels and annotations.
    pub meta: ObjectMeta,
    /// Policy and scope as one value; only the first counts.
    pub topology_policies: Vec<String>,
    /// Attributes of the whole node.
    pub attributes: Vec<NrtAttribute>,
    /// Its NUMA nodes, and other zones.
    pub zones: Vec<NrtZone>,
    /// All other fields.
    pub rest: JsonFields,
}

/// A name and a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NrtAttribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// All other fields.
    pub rest: JsonFields,
}

/// A zone of the machine, such as a NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NrtZone {
    /// `node-<id>` for a NUMA node.
    pub name: String,
    /// `Node` for a NUMA node.
    pub kind: String,
    /// The zone that contains it.
    pub parent: Option<String>,
    /// Distances to other zones.
    pub costs: Vec<NrtCost>,
    /// Attributes of the zone.
    pub attributes: Vec<NrtAttribute>,
    /// Its resources.
    pub resources: Vec<NrtResource>,
    /// All other fields.
    pub rest: JsonFields,
}

/// The distance to another zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NrtCost {
    /// The other zone.
    pub name: String,
    /// The distance (SLIT); 10 is local.
    pub value: i64,
    /// All other fields.
    pub rest: JsonFields,
}

/// A resource of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NrtResource {
    /// Its name.
    pub name: String,
    /// The total.
    pub capacity: WrittenQuantity,
    /// The total without reserved amounts.
    pub allocatable: WrittenQuantity,
    /// The amount that running pods do not hold.
    pub available: WrittenQuantity,
    /// All other fields.
    pub rest: JsonFields,
}

/// Reads all objects of this kind in a file; others are ignored.
///
/// # Errors
/// With every error in the file.
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
    /// Reads one object in either version.
    ///
    /// # Errors
    /// With every error in the object.
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
    // An attribute of the whole object has no meaning in v1alpha1; it is kept like any other unknown field.
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
    let fields = object.get_list("zones", "a list of zones", report);
    if fields.len() > MAX_ZONES {
        let problem = DiagnosticKind::TooComplex(format!("more than {MAX_ZONES} zones"));
        report.error(document.at(), "zones", problem, None);
        return None;
    }
    let zones: Vec<NrtZone> = fields
        .iter()
        .filter_map(|field| zone(field, report))
        .collect();
    warn_same_names(&fields, &zones, report);
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
        let message = format!(
            "found capacity {capacity}, allocatable {allocatable}, available {available}: none may be more than the one before"
        );
        field.warn(DiagnosticKind::Contradiction(message), None, report);
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

/// Warns about zones with the same name.
fn warn_same_names(fields: &[FieldRef<'_>], zones: &[NrtZone], report: &mut DiagnosticReport) {
    // A zone that could not be parsed is missing from `zones`; then there are errors anyway.
    if fields.len() != zones.len() {
        return;
    }
    let mut seen: BTreeMap<&str, Option<Position>> = BTreeMap::new();
    for (field, zone) in fields.iter().zip(zones) {
        if let Some(first) = seen.insert(&zone.name, field.at()) {
            let message = format!("found a second zone {:?}", zone.name);
            let hint = first.map(|at| format!("the first one is at line {}", at.line));
            field.warn(DiagnosticKind::Contradiction(message), hint, report);
        }
    }
}
