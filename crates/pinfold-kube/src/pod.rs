//! Pods: manifests of pods, and of what makes pods, to [`Pod`]s as the placement rules see them.
//!
//! What the API server does to a pod before a kubelet sees it happens here too: amounts are rounded up to
//! thousandths and rewritten in canonical form, missing requests are taken from limits, and a pod that it would
//! reject for its containers or resources is rejected, in its words.

use std::collections::BTreeMap;

use pinfold_core::name::PodUid;
use pinfold_core::pod::{Pod, ResourceList};

use crate::diagnostic::{DiagnosticReport, Diagnostics, Position, WithWarnings};
use crate::manifest::{self, Document};

pub(crate) mod aggregate;
mod container;
mod fields;
mod pod_level;
mod resources;
mod volcano_job;
mod workload;

pub use crate::meta::ObjectMeta;
pub use resources::is_extended;

/// The most pods that one file may stand for; replicas are written out.
pub const MAX_PODS: usize = 10_000;

/// A pod with what surrounds it in its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodObject {
    /// Its name, labels and annotations.
    pub meta: ObjectMeta,
    /// What decides where it runs.
    pub pod: Pod,
    /// The node it is bound to, if its manifest says so.
    pub node_name: Option<String>,
    /// The scheduler it asks for, if its manifest says so.
    pub scheduler_name: Option<String>,
    /// Its priority as a number, if its manifest says so.
    pub priority: Option<i32>,
    /// What running it costs on top, if its manifest says so.
    pub overhead: ResourceList,
    /// Kind and name of the object it was made from; `None` for a plain pod.
    pub owner: Option<Owner>,
    /// Where the object begins in its file.
    pub at: Option<Position>,
}

/// The object that a pod was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Such as `Deployment`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Reads the pods of a file, replicas included, in order.
///
/// Deployments, replica sets, replication controllers and stateful sets give one pod per replica, a daemon
/// set one, jobs and cron jobs as many as run at a time. Names end in a number: `web-0`, `web-1`. Objects of
/// well-known other kinds are skipped with a warning.
///
/// # Errors
/// With everything that makes the file unusable.
pub fn read(file: &str, bytes: &[u8]) -> Result<WithWarnings<Vec<PodObject>>, Diagnostics> {
    let documents = manifest::read(file, bytes)?;
    let mut report = DiagnosticReport::new(file);
    let mut pods = Vec::new();
    for document in &documents {
        workload::expand(document, &mut pods, &mut report);
    }
    reject_same_uid(&pods, &mut report);
    report.finish(pods)
}

/// The pods of one object, as [`read`] gives them.
///
/// # Errors
/// With everything that makes the object unusable.
pub fn pods_of(document: &Document) -> Result<WithWarnings<Vec<PodObject>>, Diagnostics> {
    let mut report = DiagnosticReport::new(document.file());
    let mut pods = Vec::new();
    workload::expand(document, &mut pods, &mut report);
    report.finish(pods)
}

/// Two pods of one id cannot be told apart by any ledger.
pub(crate) fn reject_same_uid(pods: &[PodObject], report: &mut DiagnosticReport) {
    let mut seen: BTreeMap<&PodUid, &PodObject> = BTreeMap::new();
    for pod in pods {
        let Some(first) = seen.insert(&pod.pod.uid, pod) else {
            continue;
        };
        let uid = pod.pod.uid.as_str();
        let words = format!("Duplicate value: {uid:?}");
        let problem = crate::diagnostic::DiagnosticKind::Rejected(words);
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
