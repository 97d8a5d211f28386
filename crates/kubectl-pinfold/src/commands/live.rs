//! Lists the cluster's objects from the API server. A list that fails becomes a note.

use pinfold_apiserver::snapshot::{ListRequest, ListResult, SnapshotError, snapshot};
use pinfold_apiserver::{Connection, ConnectionError};
use pinfold_kube::api_object::ApiObject;
use pinfold_kube::decider::Decider;
use pinfold_kube::objects::ClusterObjects;
use pinfold_render::text::count;

use crate::args::{ObjectsArgs, SourceArgs};
use pinfold_terminal::Failure;
use pinfold_terminal::progress::Activity;

mod pod_start;
mod report_age;
mod start_failure;

use pod_start::PodStart;
use report_age::ReportAges;

/// The most nodes, and reports of nodes.
const MAX_NODES: usize = 10_000;
/// The most pods.
const MAX_PODS: usize = 200_000;
/// Objects per page. Nodes list their images, so that pages are large.
const PAGE: usize = 200;
/// The kind of namespaces.
const NAMESPACE: &str = "Namespace";
/// The most invalid objects listed in notes; further ones are counted.
const MAX_INVALID: usize = 3;

/// A kind of object to list.
pub(super) struct ListedKind {
    /// Its plural in messages.
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    /// API versions with the paths of their lists, the preferred one first.
    pub(super) versions: Vec<(&'static str, String)>,
    /// A field selector; empty for all objects.
    pub(super) fields: String,
    pub(super) most: usize,
    /// The consequence of a list that fails, for the note.
    pub(super) without: &'static str,
}

/// The pod that a command is about.
#[derive(Clone, Copy)]
pub(super) struct PodName<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// What was listed.
pub(super) struct ListedObjects {
    pub(super) objects: ClusterObjects,
    /// Lists that failed, invalid objects and old reports.
    pub(super) notes: Vec<String>,
    /// Why the Namespaces were not listed.
    pub(super) without_namespaces: Option<String>,
    /// Why the node of the pod does not start it, if the pod is bound and not running.
    pub(super) start_failure: Option<String>,
}

/// Lists nodes, their reports and pods, and for a pod that is scheduled also Namespaces, whose labels affinity terms
/// read; notes say what could not be listed. If listing all pods is forbidden, those of the namespace of `pod` are listed.
///
/// Without any node the rejected lists are the error: a user without rights must see that.
pub(super) fn list(args: &SourceArgs, pod: Option<PodName<'_>>) -> Result<ListedObjects, Failure> {
    let connection = connection(&args.objects)?;
    let _activity = Activity::on_stderr(&format!("listing objects of {}", connection.url()));
    let mut kinds = kinds(args.decider.decider, pod.map(|pod| pod.namespace));
    kinds.extend(pod.map(|_| ListedKind::namespaces()));
    let mut reader = Reader::default();
    let lists = each_list(&connection, &kinds, &mut |kind, path, objects| {
        reader.add(kind, path, &objects, pod);
    })?;
    let (namespaces, missing): (Vec<_>, Vec<_>) = lists
        .into_iter()
        .partition(|missing| missing.kind == NAMESPACE);
    let notes: Vec<String> = missing.iter().map(MissingList::note).collect();
    reader.notes.splice(0..0, notes);
    let rejected = MissingList::rejected(&missing);
    let objects = &reader.objects;
    if objects.nodes.is_empty() && objects.topologies.is_empty() && !rejected.is_empty() {
        return Err(Failure::Environment(format!(
            "{}: {}",
            connection.url(),
            rejected.join("; ")
        )));
    }
    let start_failure = match pod.filter(|_| reader.is_waiting_for_its_node) {
        Some(pod) => start_failure::last(&connection, pod).unwrap_or_else(|note| {
            reader.notes.push(note);
            None
        }),
        None => None,
    };
    let (objects, notes) = reader.finish(jiff::Timestamp::now());
    Ok(ListedObjects {
        objects,
        notes,
        without_namespaces: namespaces.into_iter().next().map(|missing| missing.reason),
        start_failure,
    })
}

/// A list that the API server does not give.
pub(super) struct MissingList {
    pub(super) kind: &'static str,
    /// What failed.
    reason: String,
    /// Whether the server rejected it; otherwise it does not know the kind.
    pub(super) is_rejected: bool,
    /// The consequence.
    without: &'static str,
}

impl MissingList {
    pub(super) fn note(&self) -> String {
        format!("{}: {}", self.reason, self.without)
    }

    /// What the server rejected.
    fn rejected(all: &[Self]) -> Vec<&str> {
        let rejected = all.iter().filter(|missing| missing.is_rejected);
        rejected.map(|missing| missing.reason.as_str()).collect()
    }
}

/// Passes every object that `--nodes` needs to `take`, with its kind and API version. Returns notes about what could not
/// be listed.
pub(super) fn each_object(
    args: &ObjectsArgs,
    take: &mut dyn FnMut(&'static str, &str, &str),
) -> Result<Vec<String>, Failure> {
    // Volcano's reports are part of it.
    let mut kinds = kinds(Decider::Volcano, None);
    kinds.push(ListedKind::namespaces());
    let missing = each_object_of(args, &kinds, take)?;
    Ok(missing.iter().map(MissingList::note).collect())
}

/// Passes every object of these kinds to `take`, with its kind and API version. Returns the lists that failed; without
/// any node or report the rejected ones are the error.
pub(super) fn each_object_of(
    args: &ObjectsArgs,
    kinds: &[ListedKind],
    take: &mut dyn FnMut(&'static str, &str, &str),
) -> Result<Vec<MissingList>, Failure> {
    let connection = connection(args)?;
    let _activity = Activity::on_stderr(&format!("listing objects of {}", connection.url()));
    let mut nodes = 0;
    let missing = each_list(&connection, kinds, &mut |kind, path, objects| {
        nodes +=
            usize::from(kind.kind == "Node" || kind.kind == "NodeResourceTopology") * objects.len();
        let version = kind.version(path);
        objects
            .iter()
            .for_each(|json| take(kind.kind, version, json));
    })?;
    let rejected = MissingList::rejected(&missing);
    match nodes == 0 && !rejected.is_empty() {
        true => Err(Failure::Environment(format!(
            "{}: {}",
            connection.url(),
            rejected.join("; ")
        ))),
        false => Ok(missing),
    }
}

fn connection(args: &ObjectsArgs) -> Result<Connection, Failure> {
    let connection = Connection::find(args.kubeconfig.as_deref(), args.context.as_deref());
    connection.map_err(|error| {
        Failure::Environment(match error {
            ConnectionError::NotInCluster { .. } => {
                "no kubeconfig: set KUBECONFIG, --kubeconfig or --nodes FILE".to_owned()
            }
            error => error.to_string(),
        })
    })
}

/// Lists all kinds and passes the objects of each to `take`, with the path that was listed. Returns the lists that failed.
fn each_list(
    connection: &Connection,
    kinds: &[ListedKind],
    take: &mut dyn FnMut(&ListedKind, &str, Vec<String>),
) -> Result<Vec<MissingList>, Failure> {
    let wanted: Vec<ListRequest> = kinds.iter().map(ListedKind::wanted).collect();
    let listed = snapshot(connection, &wanted).map_err(|error| failure(connection, &error))?;
    let mut missing = Vec::new();
    for (kind, listed) in kinds.iter().zip(listed) {
        match listed {
            ListResult::All { path, objects } => take(kind, &path, objects),
            ListResult::Rejected(error) => {
                let is_rejected = error.code() != Some(404);
                missing.push(MissingList {
                    kind: kind.kind,
                    reason: match is_rejected {
                        true => format!("{} cannot be listed ({error})", kind.plural),
                        false => format!("the cluster serves no {}", kind.plural),
                    },
                    is_rejected,
                    without: kind.without,
                });
            }
            ListResult::TooMany { max_objects } => {
                return Err(Failure::Environment(format!(
                    "expected at most {max_objects} {}, found more",
                    kind.plural
                )));
            }
        }
    }
    Ok(missing)
}

fn failure(connection: &Connection, error: &SnapshotError) -> Failure {
    Failure::Environment(format!("{}: {error}", connection.url()))
}

pub(super) fn kinds(decider: Decider, namespace: Option<&str>) -> Vec<ListedKind> {
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
            fields: String::new(),
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
            fields: String::new(),
            most: MAX_NODES,
            without: "no node reports its NUMA topology",
        },
        ListedKind {
            plural: "pods",
            kind: "Pod",
            versions: pods,
            fields: "status.phase!=Succeeded,status.phase!=Failed".to_owned(),
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
            fields: String::new(),
            most: MAX_NODES,
            without: "no node reports CPUs for Volcano",
        });
    }
    kinds
}

impl ListedKind {
    fn namespaces() -> Self {
        Self {
            plural: "namespaces",
            kind: NAMESPACE,
            versions: vec![("v1", "/api/v1/namespaces".to_owned())],
            fields: String::new(),
            most: MAX_NODES,
            without: "affinity to pods of namespaces by their labels cannot be decided",
        }
    }

    /// The API version of a path.
    fn version(&self, path: &str) -> &'static str {
        let version = self.versions.iter().find(|(_, own)| own == path);
        version.map_or("v1", |(version, _)| version)
    }

    fn wanted(&self) -> ListRequest {
        ListRequest {
            paths: self.versions.iter().map(|(_, path)| path.clone()).collect(),
            field_selector: self.fields.clone(),
            page_size: PAGE,
            max_objects: self.most,
        }
    }
}

/// Reads the objects of lists.
#[derive(Default)]
struct Reader {
    objects: ClusterObjects,
    notes: Vec<String>,
    /// Errors of invalid objects.
    invalid: Vec<String>,
    ages: ReportAges,
    /// Whether the pod that the command is about is bound and not running.
    is_waiting_for_its_node: bool,
}

impl Reader {
    fn add(&mut self, kind: &ListedKind, path: &str, objects: &[String], pod: Option<PodName<'_>>) {
        let version = kind.version(path);
        if kind.kind == "Pod" && path.contains("/namespaces/") {
            self.notes.push(format!(
                "pods can only be listed at {path}: those of other namespaces are unknown"
            ));
        }
        for json in objects {
            match kind.kind {
                "NodeResourceTopology" => self.ages.add_report(json),
                "Pod" => {
                    if let Some(start) = PodStart::parse(json) {
                        self.is_waiting_for_its_node |=
                            pod.is_some_and(|pod| start.is_waiting(pod));
                        self.ages.add_pod(&start);
                    }
                }
                _ => {}
            }
            let added = ApiObject::parse(kind.kind, version, json).and_then(|object| {
                let added = self.objects.add_object(&object.document);
                added.map_err(|findings| object.invalid(&findings))
            });
            if let Err(invalid) = added {
                self.invalid.push(invalid.to_string());
            }
        }
    }

    fn finish(mut self, now: jiff::Timestamp) -> (ClusterObjects, Vec<String>) {
        self.notes.extend(self.ages.notes(now));
        for error in self.invalid.iter().take(MAX_INVALID) {
            self.notes.push(format!("invalid object left out: {error}"));
        }
        if let Some(more @ 1..) = self.invalid.len().checked_sub(MAX_INVALID) {
            let more = count(more, "more invalid object", "more invalid objects");
            self.notes.push(format!("... {more} left out"));
        }
        (self.objects, self.notes)
    }
}
