//! Snapshots of clusters: the objects of a cluster, reduced to the fields that decisions read, and with other names if
//! they go to somebody else.
//!
//! ```text
//! Node, Pod, Namespace and reports ──► reduce ──► Scrambler ──► a List in JSON
//! ```
//!
//! Images, commands, environment variables, volumes, owners' names and all annotations that no program of ours reads are
//! left out.

use crate::json_value::JsonValue;
use crate::manifest::Document;
use crate::{node_resource_topology, volcano};

mod scramble;

pub use scramble::Scrambler;

/// The part of a value that is kept. In a list each item is reduced.
enum Kept {
    /// All of it.
    All,
    /// These members.
    Members(&'static [(&'static str, Kept)]),
    /// Annotations that a dialect or our agent reads.
    Annotations,
    /// The volumes that claim storage, without their names.
    Claims,
}

use Kept::{All, Annotations, Claims, Members};

const PORTS: Kept = Members(&[
    ("containerPort", All),
    ("hostIP", All),
    ("hostPort", All),
    ("protocol", All),
]);

const CONTAINERS: Kept = Members(&[
    ("name", All),
    ("ports", PORTS),
    ("resources", All),
    ("restartPolicy", All),
]);

const POD: Kept = Members(&[
    (
        "metadata",
        Members(&[
            ("annotations", Annotations),
            ("creationTimestamp", All),
            ("deletionTimestamp", All),
            ("labels", All),
            ("name", All),
            ("namespace", All),
            ("ownerReferences", Members(&[("kind", All)])),
            ("uid", All),
        ]),
    ),
    (
        "spec",
        Members(&[
            ("affinity", All),
            ("containers", CONTAINERS),
            ("hostNetwork", All),
            ("initContainers", CONTAINERS),
            ("nodeName", All),
            ("nodeSelector", All),
            ("os", All),
            ("overhead", All),
            ("priority", All),
            ("resourceClaims", Members(&[("name", All)])),
            ("resources", All),
            ("schedulerName", All),
            ("schedulingGates", All),
            ("tolerations", All),
            ("topologySpreadConstraints", All),
            ("volumes", Claims),
        ]),
    ),
    (
        "status",
        Members(&[
            (
                "conditions",
                Members(&[("message", All), ("status", All), ("type", All)]),
            ),
            ("phase", All),
            ("startTime", All),
        ]),
    ),
]);

const NODE: Kept = Members(&[
    (
        "metadata",
        Members(&[("annotations", Annotations), ("labels", All), ("name", All)]),
    ),
    ("spec", Members(&[("taints", All), ("unschedulable", All)])),
    (
        "status",
        Members(&[
            ("allocatable", All),
            ("capacity", All),
            (
                "conditions",
                Members(&[
                    ("lastHeartbeatTime", All),
                    ("reason", All),
                    ("status", All),
                    ("type", All),
                ]),
            ),
            (
                "nodeInfo",
                Members(&[
                    ("containerRuntimeVersion", All),
                    ("kubeletVersion", All),
                    ("operatingSystem", All),
                ]),
            ),
        ]),
    ),
]);

const NAMESPACE: Kept = Members(&[("metadata", Members(&[("labels", All), ("name", All)]))]);

const REPORT_METADATA: Kept = Members(&[("annotations", Annotations), ("name", All)]);

const TOPOLOGY: Kept = Members(&[
    ("attributes", All),
    ("metadata", REPORT_METADATA),
    ("topologyPolicies", All),
    ("zones", All),
]);

const NUMATOPOLOGY: Kept = Members(&[("metadata", REPORT_METADATA), ("spec", All)]);

/// The ends of the domains of annotations that are kept.
const DOMAINS: [&str; 5] = [
    "koordinator.sh",
    "koordator.sh",
    "koartiator.sh",
    "volcano.sh",
    "pinfold.dev",
];
/// The annotation of mirror pods.
const MIRROR: &str = crate::pod::mirror::MIRROR;

/// The object with the fields that decisions read; `None` if it is of a kind that none reads.
#[must_use]
pub fn reduce(document: &Document) -> Option<JsonValue> {
    let kept = match document.kind() {
        "Pod" => POD,
        "Node" => NODE,
        "Namespace" => NAMESPACE,
        node_resource_topology::KIND => TOPOLOGY,
        volcano::KIND => NUMATOPOLOGY,
        _ => return None,
    };
    let mut fields = vec![
        (
            "apiVersion".to_owned(),
            JsonValue::text(document.api_version()),
        ),
        ("kind".to_owned(), JsonValue::text(document.kind())),
    ];
    if let JsonValue::Map(members) = reduced(&JsonValue::from(document.value()), &kept) {
        fields.extend(members);
    }
    Some(JsonValue::Map(fields))
}

fn reduced(value: &JsonValue, kept: &Kept) -> JsonValue {
    match (value, kept) {
        (JsonValue::List(items), Claims) => {
            let claims = items.iter().filter_map(claim);
            JsonValue::List(claims.collect())
        }
        (JsonValue::List(items), Members(_)) => {
            JsonValue::List(items.iter().map(|item| reduced(item, kept)).collect())
        }
        (JsonValue::Map(members), Members(names)) => {
            let kept = members.iter().filter_map(|(key, value)| {
                let (_, kept) = names.iter().find(|(name, _)| name == key)?;
                Some((key.clone(), reduced(value, kept)))
            });
            JsonValue::Map(kept.collect())
        }
        (JsonValue::Map(members), Annotations) => {
            let kept = members.iter().filter(|(key, _)| is_read(key));
            JsonValue::Map(kept.cloned().collect())
        }
        _ => value.clone(),
    }
}

/// A volume that claims storage, which a scheduler binds.
fn claim(volume: &JsonValue) -> Option<JsonValue> {
    let kinds = ["persistentVolumeClaim", "ephemeral"];
    let kind = kinds.into_iter().find(|kind| volume.get(kind).is_some())?;
    Some(JsonValue::Map(vec![(
        kind.to_owned(),
        JsonValue::Map(Vec::new()),
    )]))
}

/// Whether a program reads the annotation or label.
fn is_read(key: &str) -> bool {
    let domain = key.split('/').next().unwrap_or_default();
    key == MIRROR || DOMAINS.iter().any(|end| domain.ends_with(end))
}

#[cfg(test)]
mod tests;
