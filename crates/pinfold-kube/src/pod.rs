//! Pods, from manifests of pods and of objects that create pods.
//!
//! The API server's changes to a pod are applied: amounts are rounded up to thousandths and rewritten in canonical
//! form, missing requests are taken from limits, and a pod whose containers or resources it would reject is rejected
//! with its message.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::name::PodUid;
use pinfold_core::pod::{Pod, ResourceList};

use crate::diagnostic::{DiagnosticReport, Diagnostics, Position, WithWarnings};
use crate::manifest::{self, Document};
use crate::scheduling_constraints::PodConstraints;

pub(crate) mod aggregate;
mod api_pod;
mod container;
mod expansion;
mod fields;
mod group_workloads;
mod implied_pods;
mod kind_counts;
pub(crate) mod mirror;
mod object_name;
mod pod_level;
mod resize;
mod resources;
mod template_path;
mod volcano_job;
mod workload;

pub use crate::meta::ObjectMeta;
pub use api_pod::{ApiPod, PodIdentity, PodPhase, StatusPhase};
pub use kind_counts::KindCounts;
pub use resize::ResizeStatus;
pub use resources::is_extended;
pub use template_path::{TemplatePath, TemplatePathError};

/// Limit of the pods of one file, including replicas.
pub const MAX_PODS: usize = 10_000;

/// A pod and the fields of its manifest that affect placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodObject {
    /// Its name, labels and annotations.
    pub meta: ObjectMeta,
    /// The core's pod: containers and their resources. Its uid is the one that the kubelet uses.
    pub pod: Pod,
    /// The node it is bound to, if the manifest has one.
    pub node_name: Option<String>,
    /// Its scheduler's name, if the manifest has one.
    pub scheduler_name: Option<String>,
    /// Its priority, if the manifest has one.
    pub priority: Option<i32>,
    /// The overhead of its runtime class, if the manifest has one.
    pub overhead: ResourceList,
    /// Its constraints on nodes, and its scheduling status.
    pub constraints: Arc<PodConstraints>,
    /// The object that creates it; `None` for a plain pod.
    pub owner: Option<Owner>,
    /// The position of the object in its file.
    pub at: Option<Position>,
}

/// The object that creates a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Such as `Deployment`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// The pods of a file, and its objects without pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFile {
    /// The pods in order, with one pod per replica.
    pub pods: Vec<PodObject>,
    /// The other objects.
    pub without_pods: KindCounts,
}

/// Reads the pods of a file in order, with one pod per replica.
///
/// Deployments, ReplicaSets, ReplicationControllers and StatefulSets give one pod per replica, a DaemonSet one, Jobs
/// and CronJobs their parallelism. Names end in a number: `web-0`, `web-1`. Objects without pods are passed over.
///
/// # Errors
/// With every error in the file.
pub fn read(file: &str, bytes: &[u8]) -> Result<WithWarnings<Vec<PodObject>>, Diagnostics> {
    let read = read_file(file, bytes, &[])?;
    Ok(WithWarnings {
        value: read.value.pods,
        warnings: read.warnings,
    })
}

/// As [`read`], with the number of objects without pods. Objects of other kinds have their pod templates at `paths`.
///
/// # Errors
/// With every error in the file.
pub fn read_file(
    file: &str,
    bytes: &[u8],
    paths: &[TemplatePath],
) -> Result<WithWarnings<PodFile>, Diagnostics> {
    let documents = manifest::read(file, bytes)?;
    let mut report = DiagnosticReport::new(file);
    let mut found = PodFile::default();
    for document in &documents {
        expand(document, paths, &mut found, &mut report);
    }
    reject_same_uid(&found.pods, &mut report);
    report.finish(found)
}

/// The pods of one object, as in [`read_file`].
///
/// # Errors
/// With every error in the object.
pub fn pods_of(document: &Document) -> Result<WithWarnings<Vec<PodObject>>, Diagnostics> {
    let read = objects_of(document)?;
    Ok(WithWarnings {
        value: read.value.pods,
        warnings: read.warnings,
    })
}

/// The pods of one object, or the object as one without pods.
pub(crate) fn objects_of(document: &Document) -> Result<WithWarnings<PodFile>, Diagnostics> {
    let mut report = DiagnosticReport::new(document.file());
    let mut found = PodFile::default();
    expand(document, &[], &mut found, &mut report);
    report.finish(found)
}

/// Adds the pods of an object, with the uids that their kubelet uses.
fn expand(
    document: &Document,
    paths: &[TemplatePath],
    found: &mut PodFile,
    report: &mut DiagnosticReport,
) {
    let before = found.pods.len();
    workload::expand(document, paths, found, report);
    let added = found.pods.iter_mut().skip(before);
    for pod in added.filter(|pod| pod.owner.is_none()) {
        if let Some(uid) = mirror::static_uid(&pod.meta) {
            pod.pod.uid = uid.into();
        }
    }
}

/// Adds an error for each pod with the uid of an earlier one.
pub(crate) fn reject_same_uid(pods: &[PodObject], report: &mut DiagnosticReport) {
    let mut seen: BTreeMap<&PodUid, &PodObject> = BTreeMap::new();
    for pod in pods {
        let Some(first) = seen.insert(&pod.pod.uid, pod) else {
            continue;
        };
        let uid = pod.pod.uid.as_str();
        let message = format!("Duplicate value: {uid:?}");
        let problem = crate::diagnostic::DiagnosticKind::Rejected(message);
        let hint = first
            .at
            .map(|at| format!("the first one is at line {}", at.line));
        let path = match &pod.meta.uid {
            Some(_) => "metadata.uid",
            None => "metadata.name",
        };
        report.error(pod.at, path, problem, hint);
    }
}

#[cfg(test)]
mod tests;
