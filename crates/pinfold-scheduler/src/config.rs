//! [`ExtenderConfig`]: the configuration file of the scheduler extender.
//!
//! Every field has a default, listed in [`FIELDS`]; an empty file is valid. Unknown fields are rejected with their position
//! and the most similar known name. A configuration that is serialized as YAML is read back unchanged.

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

/// The configuration of the scheduler extender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtenderConfig {
    /// The address of the extender.
    pub listen: SocketAddr,
    /// HTTPS and client certificates.
    pub tls: TlsConfig,
    /// Metrics and probes.
    pub metrics: ExtenderMetricsConfig,
    /// Access to the API server.
    pub kubernetes: ExtenderKubernetesConfig,
    /// Leader election.
    pub leader: LeaderConfig,
    /// Whether nodes with missing, stale or incomplete reports pass.
    pub nodes: NodeFallbacks,
    /// Timeouts of reports and bindings.
    pub reports: ReportTimeouts,
    /// The weights of scores.
    pub weights: Weights,
}

/// HTTPS and client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsConfig {
    /// The certificate chain; `None` for plain HTTP.
    #[serde(serialize_with = "write::path_or_none")]
    pub certificate: Option<PathBuf>,
    /// The private key.
    #[serde(serialize_with = "write::path_or_none")]
    pub key: Option<PathBuf>,
    /// The client CA; `None` to accept clients without a certificate.
    #[serde(rename = "clientCA", serialize_with = "write::path_or_none")]
    pub client_ca: Option<PathBuf>,
}

/// Metrics and probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtenderMetricsConfig {
    /// The address; `None` to serve neither.
    #[serde(serialize_with = "write::display_or_none")]
    pub listen: Option<SocketAddr>,
}

/// Access to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtenderKubernetesConfig {
    /// The kubeconfig file or service account.
    #[serde(serialize_with = "write::display")]
    pub kubeconfig: Access,
}

/// Leader election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderConfig {
    /// Whether several extenders run and elect a leader.
    pub elect: bool,
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub name: String,
    /// The identity in the lease; `None` for the host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// What to do with nodes whose report is missing, stale or incomplete, for pods with NUMA needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFallbacks {
    /// Nodes without a report.
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

impl Default for ExtenderConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 9465).into(),
            tls: TlsConfig::default(),
            metrics: ExtenderMetricsConfig {
                listen: Some((Ipv4Addr::LOCALHOST, 9466).into()),
            },
            kubernetes: ExtenderKubernetesConfig {
                kubeconfig: Access::InCluster,
            },
            leader: LeaderConfig {
                elect: true,
                namespace: "pinfold-system".to_owned(),
                name: "pinfold-scheduler".to_owned(),
                identity: None,
            },
            nodes: NodeFallbacks {
                without_report: Fallback::Pass,
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

impl ExtenderConfig {
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
            differs(self.listen != new.listen, "listen"),
            differs(self.tls != new.tls, "tls"),
            differs(self.metrics != new.metrics, "metrics"),
            differs(self.kubernetes != new.kubernetes, "kubernetes"),
            differs(self.leader != new.leader, "leader"),
        ];
        fields.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
