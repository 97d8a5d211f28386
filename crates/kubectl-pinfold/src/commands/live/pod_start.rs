//! [`PodStart`]: where and when a pod started, from the API server's JSON.

use jiff::Timestamp;
use serde::Deserialize;

use super::PodName;

/// The parts of a pod that say where and when it started.
#[derive(Deserialize)]
pub(super) struct PodStart {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    qos_class: Option<String>,
    start_time: Option<String>,
}

impl PodStart {
    /// Parses a pod; `None` if it has no name or a field has another type.
    pub(super) fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// `namespace/name`.
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// The node and start time of a running Guaranteed pod.
    pub(super) fn guaranteed(&self) -> Option<(&str, Timestamp)> {
        let status = &self.status;
        let is = |value: &Option<String>, text: &str| value.as_deref() == Some(text);
        if !is(&status.qos_class, "Guaranteed") || !is(&status.phase, "Running") {
            return None;
        }
        let started = status.start_time.as_deref()?.parse().ok()?;
        Some((self.spec.node_name.as_deref()?, started))
    }

    /// Whether this is the pod, and it is bound and has not started.
    pub(super) fn is_waiting(&self, pod: PodName<'_>) -> bool {
        self.metadata.name == pod.name
            && self.metadata.namespace == pod.namespace
            && self.status.phase.as_deref() == Some("Pending")
            && self.spec.node_name.is_some()
    }
}
