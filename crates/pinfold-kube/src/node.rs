//! Nodes: the core `Node` object, as far as it matters for placing pods.

use pinfold_core::name::NodeName;
use pinfold_core::pod::ResourceList;

use crate::finding::{Findings, Position, Problem, Read, Report};
use crate::manifest::Document;
use crate::manifest::place::Place;
use crate::meta::ObjectMeta;

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeObject {
    /// Its name, labels and annotations.
    pub meta: ObjectMeta,
    /// Everything it has.
    pub capacity: ResourceList,
    /// What pods may use of it. The capacity if the object does not say, as the API server defaults it.
    pub allocatable: ResourceList,
    /// Whether no new pods are to come.
    pub unschedulable: bool,
    /// Where the object begins in its file.
    pub at: Option<Position>,
}

impl NodeObject {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> NodeName {
        self.meta.name.as_str().into()
    }

    /// Reads a document of kind `Node`.
    ///
    /// # Errors
    /// With everything that makes the object unusable.
    pub fn read(document: &Document) -> Result<Read<Self>, Findings> {
        let mut report = Report::new(document.file());
        let node = read(document, &mut report);
        report.finish_some(node)
    }
}

fn read(document: &Document, report: &mut Report) -> Option<NodeObject> {
    let object = document.expect_kind("Node", &["v1"], report)?;
    let meta = ObjectMeta::read_cluster_scoped(document, report)?;
    let what = "a mapping with capacity and allocatable";
    let status = object.get_map("status", what, report);
    let mut list = |key: &str| {
        let list = status.as_ref()?.get_map(key, "amounts by resource", report);
        list.map(|list| amounts(&list, report))
    };
    let capacity = list("capacity");
    let allocatable = list("allocatable");
    let spec = object.get_map("spec", "a mapping", report);
    let unschedulable = spec
        .and_then(|spec| spec.get("unschedulable"))
        .and_then(|place| place.boolean("true or false", report));
    let capacity = capacity.unwrap_or_default();
    Some(NodeObject {
        allocatable: allocatable.unwrap_or_else(|| capacity.clone()),
        capacity,
        unschedulable: unschedulable.unwrap_or(false),
        at: document.at(),
        meta,
    })
}

/// Amounts by resource; none may be negative.
pub(crate) fn amounts(list: &Place<'_>, report: &mut Report) -> ResourceList {
    let mut amounts = ResourceList::new();
    for (name, place) in list.members() {
        let Some(amount) = place.quantity(report) else {
            continue;
        };
        if amount < 0.into() {
            let words = format!("Invalid value: \"{amount}\": must be greater than or equal to 0");
            place.rejected(words, report);
            continue;
        }
        amounts.insert(name.into(), amount);
    }
    amounts
}

impl Document {
    /// The object, if it is of this kind and one of these API versions.
    pub(crate) fn expect_kind(
        &self,
        kind: &str,
        versions: &[&str],
        report: &mut Report,
    ) -> Option<Place<'_>> {
        let object = self.place();
        if self.kind() != kind {
            if let Some(place) = object.get("kind") {
                place.unexpected(&format!("the kind {kind}"), report);
            }
            return None;
        }
        if !versions.contains(&self.api_version()) {
            let words = format!(
                "no matches for kind {kind:?} in version {:?}",
                self.api_version()
            );
            let hint = format!("use {}", versions.join(" or "));
            let at = object.get("apiVersion").and_then(|place| place.at());
            report.error(at, "apiVersion", Problem::Rejected(words), Some(hint));
            return None;
        }
        Some(object)
    }
}
