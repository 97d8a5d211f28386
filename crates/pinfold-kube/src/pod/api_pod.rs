//! [`ApiPod`]: a pod in the API server's JSON, with the parts of its status that programs on nodes and schedulers use.

use std::collections::BTreeMap;

use pinfold_core::name::{ContainerName, PodUid};

use super::{ObjectMeta, PodObject, ResizeStatus, mirror, pods_of};
use crate::api_object::{ApiObject, InvalidObject};
use crate::diagnostic::DiagnosticReport;
use crate::manifest::field::FieldRef;

/// A pod in the API server's JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiPod {
    /// The pod.
    pub object: PodObject,
    /// The resource version.
    pub resource_version: String,
    /// How far its kubelet is with it.
    pub phase: PodPhase,
    /// Its phase as the API server lists it.
    pub status_phase: StatusPhase,
    /// Names of its containers by the runtime's container ids.
    pub containers: BTreeMap<String, ContainerName>,
    /// What its containers hold while an in-place resize is in flight.
    pub resize: ResizeStatus,
}

/// The uid and the name of a pod. The uid of a mirror pod comes from an annotation, which any user may write: two pods
/// with the same uid and other names are different pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodIdentity {
    /// The uid that the kubelet uses: for a mirror pod that of its static pod.
    pub uid: PodUid,
    /// `namespace/name`. A mirror pod and its static pod have the same.
    pub name: String,
}

/// How far a kubelet is with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// No kubelet has admitted the pod yet.
    Pending,
    /// A kubelet has admitted the pod.
    Started,
    /// The pod succeeded or failed.
    Terminated,
}

/// `status.phase` of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusPhase {
    /// `Pending`, or none: no container runs yet.
    #[default]
    Pending,
    /// `Running`, or any phase that is not known.
    Running,
    /// `Succeeded` or `Failed`.
    Terminated,
}

impl StatusPhase {
    fn of(pod: &FieldRef<'_>) -> Self {
        let phase = pod.get("status").and_then(|status| status.get("phase"));
        match phase.as_ref().and_then(FieldRef::as_text) {
            None | Some("" | "Pending") => StatusPhase::Pending,
            Some("Succeeded" | "Failed") => StatusPhase::Terminated,
            Some(_) => StatusPhase::Running,
        }
    }
}

impl ApiPod {
    /// Parses a pod.
    ///
    /// # Errors
    /// If the text is not a valid pod with a uid.
    pub fn parse(json: &str) -> Result<Self, InvalidObject> {
        let api = ApiObject::parse("Pod", "v1", json)?;
        let expected = |what: &str| InvalidObject {
            kind: api.kind,
            name: api.name.clone(),
            problem: format!("{}: expected {what}", api.document.file()),
        };
        let pods = pods_of(&api.document).map_err(|problem| api.invalid(&problem))?;
        let object = pods.value.into_iter().next();
        let object = object.ok_or_else(|| expected("a pod"))?;
        if object.meta.uid.is_none() {
            return Err(expected("a uid"));
        }
        let root = api.document.root();
        Ok(Self {
            object,
            phase: PodPhase::of(&root),
            status_phase: StatusPhase::of(&root),
            containers: containers(&root),
            resize: ResizeStatus::of(&root),
            resource_version: api.resource_version,
        })
    }
}

impl PodIdentity {
    /// The identity of a pod whose other fields may be invalid, such as one that was deleted.
    #[must_use]
    pub fn parse(json: &str) -> Option<Self> {
        let api = ApiObject::parse("Pod", "v1", json).ok()?;
        let mut report = DiagnosticReport::new(api.document.file());
        let meta = ObjectMeta::read(&api.document.root(), &mut report)?;
        let uid = mirror::static_uid(&meta).or(meta.uid.as_deref())?;
        Some(Self {
            uid: uid.into(),
            name: meta.full_name(),
        })
    }
}

impl PodObject {
    /// The uid and the name of the pod.
    #[must_use]
    pub fn identity(&self) -> PodIdentity {
        PodIdentity {
            uid: self.pod.uid.clone(),
            name: self.meta.full_name(),
        }
    }
}

impl PodPhase {
    /// The phase in the status of a pod.
    pub(crate) fn of(pod: &FieldRef<'_>) -> Self {
        let status = pod.get("status");
        let text = |key: &str| status.as_ref()?.get(key)?.as_text();
        match text("phase") {
            Some("Succeeded" | "Failed") => PodPhase::Terminated,
            Some("Running") => PodPhase::Started,
            // The kubelet sets it when it has admitted the pod.
            _ if text("startTime").is_some() => PodPhase::Started,
            _ => PodPhase::Pending,
        }
    }
}

/// Names of a pod's containers by the runtime's container ids. Entries without an id are skipped.
fn containers(pod: &FieldRef<'_>) -> BTreeMap<String, ContainerName> {
    let mut ignored = DiagnosticReport::new("");
    let status = pod.get("status");
    let mut list = |key: &str| {
        let status = status.as_ref();
        status.map_or_else(Vec::new, |status| {
            status.get_list(key, "a list", &mut ignored)
        })
    };
    let mut all = list("initContainerStatuses");
    all.extend(list("containerStatuses"));
    all.iter()
        .filter_map(|one| {
            let (_, id) = one.get("containerID")?.as_text()?.split_once("://")?;
            Some((id.to_owned(), one.get("name")?.as_text()?.into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mirror_pod(static_uid: &str) -> Value {
        json!({
            "metadata": {
                "name": "etcd-1", "namespace": "kube-system", "uid": "uid-of-the-server",
                "annotations": { "kubernetes.io/config.mirror": static_uid },
            },
            "spec": { "containers": [{ "name": "main" }] },
        })
    }

    #[test]
    fn a_mirror_pod_has_the_uid_of_its_static_pod() {
        let pod = mirror_pod("0c5f1a2b3d4e5f60718293a4b5c6d7e8").to_string();
        let read = ApiPod::parse(&pod).expect("a pod");
        let identity = read.object.identity();
        assert_eq!(identity.uid.as_str(), "0c5f1a2b3d4e5f60718293a4b5c6d7e8");
        assert_eq!(identity.name, "kube-system/etcd-1");
        assert_eq!(PodIdentity::parse(&pod), Some(identity));
    }

    #[test]
    fn the_mirror_annotation_cannot_name_a_uid_of_the_api_server() {
        let victim = "6d0b9a3e-1f7c-4c57-9a2e-3f1c5d7e9b0a";
        for uid in [victim, &victim.to_uppercase(), ""] {
            let pod = mirror_pod(uid).to_string();
            let read = ApiPod::parse(&pod).expect("a pod");
            assert_eq!(read.object.pod.uid.as_str(), "uid-of-the-server", "{uid:?}");
            assert_eq!(PodIdentity::parse(&pod), Some(read.object.identity()));
        }
    }

    #[test]
    fn a_pod_whose_spec_is_invalid_still_has_an_identity() {
        let pod = json!({ "metadata": { "name": "a", "uid": "u" }, "spec": 7 }).to_string();
        assert!(ApiPod::parse(&pod).is_err());
        let identity = PodIdentity::parse(&pod).expect("metadata");
        assert_eq!(
            (identity.uid.as_str(), identity.name.as_str()),
            ("u", "default/a")
        );
        for odd in ["", "null", "{}", r#"{"metadata":{"name":"a"}}"#] {
            assert_eq!(PodIdentity::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn container_ids_are_read_from_the_status() {
        let pod = json!({
            "metadata": { "name": "a", "uid": "a", "resourceVersion": "7" },
            "spec": { "containers": [{ "name": "main" }] },
            "status": {
                "containerStatuses": [{ "name": "main", "containerID": "containerd://c0ffee" }],
                "initContainerStatuses": [{ "name": "first", "containerID": "" }, { "name": "second" }, 7],
            },
        });
        let read = ApiPod::parse(&pod.to_string()).expect("a pod");
        let names: Vec<(&str, &str)> = (read.containers.iter())
            .map(|(id, name)| (id.as_str(), name.as_str()))
            .collect();
        assert_eq!(names, [("c0ffee", "main")]);
        assert_eq!(read.resource_version, "7");
        for annotations in [json!([]), json!("text")] {
            let odd =
                json!({ "metadata": { "name": "a", "uid": "a", "annotations": annotations } });
            let error = ApiPod::parse(&odd.to_string()).expect_err("annotations are a mapping");
            assert_eq!((error.kind, error.name.as_str()), ("Pod", "a"));
        }
    }

    #[test]
    fn a_pod_has_started_when_its_kubelet_has_admitted_it() {
        let cases = [
            (json!({}), PodPhase::Pending),
            (json!({ "phase": "Pending" }), PodPhase::Pending),
            (
                json!({ "phase": "Pending", "startTime": "2026-01-01T00:00:00Z" }),
                PodPhase::Started,
            ),
            (json!({ "phase": "Running" }), PodPhase::Started),
            (
                json!({ "phase": "Failed", "startTime": "x" }),
                PodPhase::Terminated,
            ),
        ];
        for (status, expected) in cases {
            let mut pod = mirror_pod("hash");
            pod["status"] = status;
            let read = ApiPod::parse(&pod.to_string()).expect("a pod");
            assert_eq!(read.phase, expected, "{pod}");
        }
    }
}
