//! The `Node` object, as far as it affects placement.

use pinfold_core::name::NodeName;
use pinfold_core::pod::ResourceList;

use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, Position, WithWarnings};
use crate::manifest::Document;
use crate::manifest::field::FieldRef;
use crate::meta::ObjectMeta;
use crate::scheduling_constraints::{self, Taint};

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeObject {
    /// Its name, labels and annotations.
    pub meta: ObjectMeta,
    /// Its capacity.
    pub capacity: ResourceList,
    /// Its allocatable resources; the capacity if missing, as the API server defaults it.
    pub allocatable: ResourceList,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// The version that its kubelet reports (`status.nodeInfo.kubeletVersion`), if it does.
    pub kubelet_version: Option<String>,
    /// Whether the API server has this object; otherwise it stands for a node whose labels and taints are not known.
    pub is_known: bool,
    /// The position of the object in its file.
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
    /// With every error in the object.
    pub fn read(document: &Document) -> Result<WithWarnings<Self>, Diagnostics> {
        let mut report = DiagnosticReport::new(document.file());
        let node = read(document, &mut report);
        report.finish_some(node)
    }
}

/// The version of the kubelet in `status.nodeInfo` of a Node.
#[must_use]
pub fn kubelet_version(node: &Document) -> Option<&str> {
    let info = node.root().get("status")?.get("nodeInfo")?;
    info.get("kubeletVersion")?.as_text()
}

fn read(document: &Document, report: &mut DiagnosticReport) -> Option<NodeObject> {
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
    let info = status.as_ref().and_then(|status| status.get("nodeInfo"));
    let kubelet_version = info.and_then(|info| info.get("kubeletVersion")?.as_text());
    let spec = object.get_map("spec", "a mapping", report);
    let taints = spec
        .as_ref()
        .map(|spec| scheduling_constraints::taints(spec, report));
    let unschedulable = spec
        .and_then(|spec| spec.get("unschedulable"))
        .and_then(|field| field.boolean("true or false", report));
    let capacity = capacity.unwrap_or_default();
    Some(NodeObject {
        allocatable: allocatable.unwrap_or_else(|| capacity.clone()),
        capacity,
        unschedulable: unschedulable.unwrap_or(false),
        taints: taints.unwrap_or_default(),
        kubelet_version: kubelet_version.map(str::to_owned),
        is_known: true,
        at: document.at(),
        meta,
    })
}

/// Reads amounts by resource, which must not be negative.
pub(crate) fn amounts(list: &FieldRef<'_>, report: &mut DiagnosticReport) -> ResourceList {
    let mut amounts = ResourceList::new();
    for (name, field) in list.members() {
        let Some(amount) = field.quantity(report) else {
            continue;
        };
        if amount < 0.into() {
            let message =
                format!("Invalid value: \"{amount}\": must be greater than or equal to 0");
            field.rejected(message, report);
            continue;
        }
        amounts.insert(name.into(), amount);
    }
    amounts
}

impl Document {
    /// The object, if it has this kind and one of these API versions.
    pub(crate) fn expect_kind(
        &self,
        kind: &str,
        versions: &[&str],
        report: &mut DiagnosticReport,
    ) -> Option<FieldRef<'_>> {
        let object = self.root();
        if self.kind() != kind {
            if let Some(field) = object.get("kind") {
                field.unexpected(&format!("the kind {kind}"), report);
            }
            return None;
        }
        if !versions.contains(&self.api_version()) {
            let message = format!(
                "no matches for kind {kind:?} in version {:?}",
                self.api_version()
            );
            let hint = format!("use {}", versions.join(" or "));
            let at = object.get("apiVersion").and_then(|field| field.at());
            report.error(
                at,
                "apiVersion",
                DiagnosticKind::Rejected(message),
                Some(hint),
            );
            return None;
        }
        Some(object)
    }
}
