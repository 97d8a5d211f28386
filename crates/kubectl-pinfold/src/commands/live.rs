//! A running cluster: its objects from the API server, and what could not be had.

use pinfold_apiserver::snapshot::{Listed, SnapshotError, Wanted, snapshot};
use pinfold_apiserver::{Connection, object};
use pinfold_kube::decider::Decider;
use pinfold_kube::inventory::Inventory;
use pinfold_kube::manifest::Document;
use pinfold_render::text::count;
use serde_json::Value;

use crate::args::SourceArgs;
use pinfold_terminal::Failure;

/// No more nodes, and objects of nodes, are read.
const MOST_NODES: usize = 10_000;
/// No more pods are read.
const MOST_PODS: usize = 200_000;
/// Nodes list their images: a page of them is large.
const PAGE: usize = 200;
/// More objects that cannot be understood are counted, not listed.
const TOLD: usize = 3;

/// One kind of object.
struct Kind {
    /// For people.
    plural: &'static str,
    kind: &'static str,
    /// API versions with the paths of their lists, the best first.
    versions: Vec<(&'static str, String)>,
    fields: &'static str,
    most: usize,
    /// What it means if there are none to be had.
    without: &'static str,
}

/// Everything the API server has that matters here, and what is missing. Who may not list all pods may list those of
/// `namespace`.
pub(super) fn inventory(
    args: &SourceArgs,
    namespace: Option<&str>,
) -> Result<(Inventory, Vec<String>), Failure> {
    let connection = Connection::find(args.kubeconfig.as_deref(), args.context.as_deref());
    let connection = connection.map_err(|error| Failure::Environment(error.to_string()))?;
    let kinds = kinds(args.decider.decider, namespace);
    let wanted: Vec<Wanted> = kinds.iter().map(Kind::wanted).collect();
    let listed = snapshot(&connection, &wanted).map_err(|error| failure(&connection, &error))?;
    let mut reading = Reading::default();
    for (kind, listed) in kinds.iter().zip(listed) {
        match listed {
            Listed::All { path, objects } => reading.take(kind, &path, objects),
            Listed::Rejected(error) => reading.notes.push(match error.code() {
                Some(404) => format!("the cluster serves no {}: {}", kind.plural, kind.without),
                _ => format!(
                    "{} cannot be listed ({error}): {}",
                    kind.plural, kind.without
                ),
            }),
            Listed::TooMany { most } => {
                return Err(Failure::Environment(format!(
                    "expected at most {most} {}, found more",
                    kind.plural
                )));
            }
        }
    }
    Ok(reading.finish())
}

fn failure(connection: &Connection, error: &SnapshotError) -> Failure {
    Failure::Environment(format!("{}: {error}", connection.url()))
}

fn kinds(decider: Decider, namespace: Option<&str>) -> Vec<Kind> {
    let topologies =
        |version: &str| format!("/apis/topology.node.k8s.io/{version}/noderesourcetopologies");
    let mut pods = vec![("v1", "/api/v1/pods".to_owned())];
    // Anything else is no namespace, and would be another path.
    let plain = |name: &&str| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    pods.extend(
        namespace
            .filter(plain)
            .map(|name| ("v1", format!("/api/v1/namespaces/{name}/pods"))),
    );
    let mut kinds = vec![
        Kind {
            plural: "nodes",
            kind: "Node",
            versions: vec![("v1", "/api/v1/nodes".to_owned())],
            fields: "",
            most: MOST_NODES,
            without: "reports stand for them, and nobody knows taints and labels",
        },
        Kind {
            plural: "noderesourcetopologies",
            kind: "NodeResourceTopology",
            versions: vec![
                ("topology.node.k8s.io/v1alpha2", topologies("v1alpha2")),
                ("topology.node.k8s.io/v1alpha1", topologies("v1alpha1")),
            ],
            fields: "",
            most: MOST_NODES,
            without: "nobody reports NUMA nodes",
        },
        Kind {
            plural: "pods",
            kind: "Pod",
            versions: pods,
            fields: "status.phase!=Succeeded,status.phase!=Failed",
            most: MOST_PODS,
            without: "nobody knows who runs where",
        },
    ];
    if decider == Decider::Volcano {
        kinds.push(Kind {
            plural: "numatopologies",
            kind: "Numatopology",
            versions: vec![(
                "nodeinfo.volcano.sh/v1alpha1",
                "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies".to_owned(),
            )],
            fields: "",
            most: MOST_NODES,
            without: "nobody reports CPUs to Volcano",
        });
    }
    kinds
}

impl Kind {
    fn wanted(&self) -> Wanted {
        Wanted {
            paths: self.versions.iter().map(|(_, path)| path.clone()).collect(),
            fields: self.fields.to_owned(),
            page: PAGE,
            most: self.most,
        }
    }
}

/// Objects on their way into the inventory.
#[derive(Default)]
struct Reading {
    inventory: Inventory,
    notes: Vec<String>,
    /// What was found about objects that cannot be understood.
    bad: Vec<String>,
}

impl Reading {
    fn take(&mut self, kind: &Kind, path: &str, objects: Vec<Value>) {
        let version = kind.versions.iter().find(|(_, own)| own == path);
        let version = version.map_or("v1", |(version, _)| version);
        if kind.kind == "Pod" && path.contains("/namespaces/") {
            self.notes.push(format!(
                "pods may only be listed below {path}: those of other namespaces are not known"
            ));
        }
        for object in objects {
            let name = format!("{} {}", kind.kind, object::full_name(&object));
            let read = Document::of_json(&name, version, kind.kind, &pruned(object));
            let added = read.and_then(|document| self.inventory.add(&document).map(drop));
            if let Err(findings) = added {
                self.bad.push(findings.to_string());
            }
        }
    }

    fn finish(mut self) -> (Inventory, Vec<String>) {
        for bad in self.bad.iter().take(TOLD) {
            self.notes
                .push(format!("left out, since it cannot be understood: {bad}"));
        }
        if let Some(more @ 1..) = self.bad.len().checked_sub(TOLD) {
            let more = count(more, "more object", "more objects");
            self.notes
                .push(format!("... {more} left out for such reasons"));
        }
        (self.inventory, self.notes)
    }
}

/// An object without what decides nothing here.
fn pruned(mut object: Value) -> Value {
    // A node lists its images there.
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|key, _| {
            matches!(
                key.as_str(),
                "capacity" | "allocatable" | "phase" | "conditions"
            )
        });
    }
    object::prune(&mut object);
    object
}
