//! Lists the cluster's objects from the API server. A list that fails becomes a note.

use pinfold_apiserver::Connection;
use pinfold_apiserver::snapshot::{ListRequest, ListResult, SnapshotError, snapshot};
use pinfold_kube::api_object::ApiObject;
use pinfold_kube::decider::Decider;
use pinfold_kube::inventory::Inventory;
use pinfold_render::text::count;

use crate::args::SourceArgs;
use pinfold_terminal::Failure;

/// The most nodes, and reports of nodes.
const MAX_NODES: usize = 10_000;
/// The most pods.
const MAX_PODS: usize = 200_000;
/// Objects per page. Nodes list their images, so that pages are large.
const PAGE: usize = 200;
/// The most invalid objects listed in notes; further ones are counted.
const MAX_INVALID: usize = 3;

/// A kind of object to list.
struct ListedKind {
    /// Its plural in messages.
    plural: &'static str,
    kind: &'static str,
    /// API versions with the paths of their lists, the preferred one first.
    versions: Vec<(&'static str, String)>,
    fields: &'static str,
    most: usize,
    /// The consequence of a list that fails, for the note.
    without: &'static str,
}

/// Lists nodes, their reports and pods; notes say what could not be listed. If listing all pods is forbidden, those of
/// `namespace` are listed.
pub(super) fn inventory(
    args: &SourceArgs,
    namespace: Option<&str>,
) -> Result<(Inventory, Vec<String>), Failure> {
    let connection = Connection::find(args.kubeconfig.as_deref(), args.context.as_deref());
    let connection = connection.map_err(|error| Failure::Environment(error.to_string()))?;
    let kinds = kinds(args.decider.decider, namespace);
    let wanted: Vec<ListRequest> = kinds.iter().map(ListedKind::wanted).collect();
    let listed = snapshot(&connection, &wanted).map_err(|error| failure(&connection, &error))?;
    let mut reader = Reader::default();
    for (kind, listed) in kinds.iter().zip(listed) {
        match listed {
            ListResult::All { path, objects } => reader.add(kind, &path, &objects),
            ListResult::Rejected(error) => reader.notes.push(match error.code() {
                Some(404) => format!("the cluster serves no {}: {}", kind.plural, kind.without),
                _ => format!(
                    "{} cannot be listed ({error}): {}",
                    kind.plural, kind.without
                ),
            }),
            ListResult::TooMany { max_objects } => {
                return Err(Failure::Environment(format!(
                    "expected at most {max_objects} {}, found more",
                    kind.plural
                )));
            }
        }
    }
    Ok(reader.finish())
}

fn failure(connection: &Connection, error: &SnapshotError) -> Failure {
    Failure::Environment(format!("{}: {error}", connection.url()))
}

fn kinds(decider: Decider, namespace: Option<&str>) -> Vec<ListedKind> {
    let topologies =
        |version: &str| format!("/apis/topology.node.k8s.io/{version}/noderesourcetopologies");
    let mut pods = vec![("v1", "/api/v1/pods".to_owned())];
    // Other characters are invalid in a namespace and could change the path.
    let is_valid = |name: &&str| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    pods.extend(
        namespace
            .filter(is_valid)
            .map(|name| ("v1", format!("/api/v1/namespaces/{name}/pods"))),
    );
    let mut kinds = vec![
        ListedKind {
            plural: "nodes",
            kind: "Node",
            versions: vec![("v1", "/api/v1/nodes".to_owned())],
            fields: "",
            most: MAX_NODES,
            without: "nodes are taken from reports, without taints and labels",
        },
        ListedKind {
            plural: "noderesourcetopologies",
            kind: "NodeResourceTopology",
            versions: vec![
                ("topology.node.k8s.io/v1alpha2", topologies("v1alpha2")),
                ("topology.node.k8s.io/v1alpha1", topologies("v1alpha1")),
            ],
            fields: "",
            most: MAX_NODES,
            without: "no node reports its NUMA topology",
        },
        ListedKind {
            plural: "pods",
            kind: "Pod",
            versions: pods,
            fields: "status.phase!=Succeeded,status.phase!=Failed",
            most: MAX_PODS,
            without: "the pods of nodes are unknown",
        },
    ];
    if decider == Decider::Volcano {
        kinds.push(ListedKind {
            plural: "numatopologies",
            kind: "Numatopology",
            versions: vec![(
                "nodeinfo.volcano.sh/v1alpha1",
                "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies".to_owned(),
            )],
            fields: "",
            most: MAX_NODES,
            without: "no node reports CPUs for Volcano",
        });
    }
    kinds
}

impl ListedKind {
    fn wanted(&self) -> ListRequest {
        ListRequest {
            paths: self.versions.iter().map(|(_, path)| path.clone()).collect(),
            field_selector: self.fields.to_owned(),
            page_size: PAGE,
            max_objects: self.most,
        }
    }
}

/// Reads objects into the inventory.
#[derive(Default)]
struct Reader {
    inventory: Inventory,
    notes: Vec<String>,
    /// Errors of invalid objects.
    invalid: Vec<String>,
}

impl Reader {
    fn add(&mut self, kind: &ListedKind, path: &str, objects: &[String]) {
        let version = kind.versions.iter().find(|(_, own)| own == path);
        let version = version.map_or("v1", |(version, _)| version);
        if kind.kind == "Pod" && path.contains("/namespaces/") {
            self.notes.push(format!(
                "pods can only be listed at {path}: those of other namespaces are unknown"
            ));
        }
        for json in objects {
            let added = ApiObject::parse(kind.kind, version, json).and_then(|object| {
                let added = self.inventory.add(&object.document);
                added.map_err(|findings| object.invalid(&findings))
            });
            if let Err(invalid) = added {
                self.invalid.push(invalid.to_string());
            }
        }
    }

    fn finish(mut self) -> (Inventory, Vec<String>) {
        for error in self.invalid.iter().take(MAX_INVALID) {
            self.notes.push(format!("invalid object left out: {error}"));
        }
        if let Some(more @ 1..) = self.invalid.len().checked_sub(MAX_INVALID) {
            let more = count(more, "more invalid object", "more invalid objects");
            self.notes.push(format!("... {more} left out"));
        }
        (self.inventory, self.notes)
    }
}
