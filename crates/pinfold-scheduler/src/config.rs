//! [`EngineConfig`]: the configuration file of the engine.
//!
//! Every field has a default, listed in [`FIELDS`]; an empty file is valid. Unknown fields are rejected with their
//! position and the most similar known name. A configuration that is serialized as YAML is read back unchanged.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use pinfold_daemon::config::write;
use pinfold_kube::diagnostic::{Diagnostics, WithWarnings};
use pinfold_kube::manifest;
use serde::Serialize;

use crate::weights::Weights;

mod fields;
mod read;

pub use fields::FIELDS;
pub use pinfold_daemon::config::{Access, ConfigField};

/// The configuration of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineConfig {
    /// The unix socket that the plugin of kube-scheduler connects to.
    pub socket: PathBuf,
    /// Metrics and probes.
    pub metrics: EngineMetricsConfig,
    /// Access to the API server.
    pub kubernetes: EngineKubernetesConfig,
    /// Whether nodes with missing, stale or incomplete reports pass.
    pub nodes: NodeFallbacks,
    /// Timeouts of reports and bindings.
    pub reports: ReportTimeouts,
    /// The weights of scores.
    pub weights: Weights,
}

/// Metrics and probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineMetricsConfig {
    /// The address; `None` to serve neither.
    #[serde(serialize_with = "write::display_or_none")]
    pub listen: Option<SocketAddr>,
}

/// Access to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineKubernetesConfig {
    /// The kubeconfig file or service account.
    #[serde(serialize_with = "write::display")]
    pub kubeconfig: Access,
}

/// What to do with nodes whose report is missing, stale or incomplete, for pods with NUMA needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFallbacks {
    /// Nodes without a report whose label does not set the dialect `unknown`.
    pub without_report: Fallback,
    /// Nodes with a stale report, and nodes without headroom beside their unreported pods.
    pub stale_report: Fallback,
    /// Nodes whose report does not show how the kubelet would decide about the pod.
    pub incomplete_report: Fallback,
}

/// What to do with a node whose verdict is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// The node passes; its kubelet decides.
    Pass,
    /// The node is rejected.
    Reject,
}

/// Timeouts of reports and bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportTimeouts {
    /// A report that lacks a pod this long after the pod started is stale.
    #[serde(serialize_with = "write::duration")]
    pub stale_after: Duration,
    /// A report that lists no pods is taken to count a pod this long after the pod started.
    #[serde(serialize_with = "write::duration")]
    pub counted_after: Duration,
    /// The timeout for an unconfirmed binding: its reservation is released.
    #[serde(serialize_with = "write::duration")]
    pub binding_timeout: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            socket: "/run/pinfold/scheduler/engine.sock".into(),
            metrics: EngineMetricsConfig {
                listen: Some((Ipv4Addr::LOCALHOST, 9466).into()),
            },
            kubernetes: EngineKubernetesConfig {
                kubeconfig: Access::InCluster,
            },
            nodes: NodeFallbacks {
                without_report: Fallback::Reject,
                stale_report: Fallback::Reject,
                incomplete_report: Fallback::Reject,
            },
            reports: ReportTimeouts {
                stale_after: Duration::from_secs(60),
                counted_after: Duration::from_secs(90),
                binding_timeout: Duration::from_secs(30),
            },
            weights: Weights::default(),
        }
    }
}

impl EngineConfig {
    /// Parses a configuration. `file` is the name of the file for messages.
    ///
    /// # Errors
    /// With all errors of the file, each with its position.
    pub fn read(file: &str, bytes: &[u8]) -> Result<WithWarnings<Self>, Diagnostics> {
        manifest::read_plain(file, bytes, read::config)
    }

    /// The names of the fields that differ in `new` and take effect only after a restart.
    #[must_use]
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let differs = |differs: bool, field: &'static str| differs.then_some(field);
        let fields = [
            differs(self.socket != new.socket, "socket"),
            differs(self.metrics != new.metrics, "metrics"),
            differs(self.kubernetes != new.kubernetes, "kubernetes"),
        ];
        fields.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
