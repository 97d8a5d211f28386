//! [`SchedulerConfig`]: how the scheduler extender is set up, read from one YAML file.
//!
//! Every field has a default, listed in [`FIELDS`]; an empty file is a whole configuration. Fields that do not exist
//! are rejected with their place and the name that was probably meant. Written as YAML, a configuration reads back as
//! itself.

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

/// How the scheduler extender is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerConfig {
    /// Where the extender listens.
    pub listen: SocketAddr,
    /// How it proves who it is, and who may ask.
    pub tls: Tls,
    /// What Prometheus and probes ask.
    pub metrics: Listener,
    /// The cluster.
    pub kubernetes: Kubernetes,
    /// Which of several extenders answers.
    pub leader: Leader,
    /// What is said about nodes that do not tell enough.
    pub nodes: Doubts,
    /// How long things may take before something is done about it.
    pub reports: Reports,
    /// What makes a node a good one.
    pub weights: Weights,
}

/// HTTPS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// The certificate and those that vouch for it; `None` for plain HTTP.
    #[serde(serialize_with = "write::path_or_none")]
    pub certificate: Option<PathBuf>,
    /// Its key.
    #[serde(serialize_with = "write::path_or_none")]
    pub key: Option<PathBuf>,
    /// Who vouches for clients; `None` to let everybody ask.
    #[serde(serialize_with = "write::path_or_none")]
    pub client_authority: Option<PathBuf>,
}

/// What Prometheus and probes ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// The address; `None` if nobody is listened to.
    #[serde(serialize_with = "write::display_or_none")]
    pub listen: Option<SocketAddr>,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubernetes {
    /// How the API server is reached.
    #[serde(serialize_with = "write::display")]
    pub kubeconfig: Access,
}

/// Which of several extenders answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leader {
    /// Whether there may be several.
    pub elect: bool,
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub name: String,
    /// Who we are among them; `None` is the name of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// What is said about nodes that do not tell enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Doubts {
    /// Nodes that report nothing about their NUMA nodes.
    pub without_report: Doubt,
    /// Nodes whose report lacks pods that have run for a while.
    pub behind: Doubt,
    /// Nodes whose report leaves open how the kubelet would decide about this pod.
    pub uncertain: Doubt,
}

/// What is said in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Doubt {
    /// Yes: the node decides.
    Pass,
    /// No, with what is missing, to pods for which it matters.
    Reject,
}

/// How long things may take before something is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reports {
    /// A report that lacks a pod for so long after it started is behind.
    #[serde(serialize_with = "write::duration")]
    pub confirm_within: Duration,
    /// A report that lists no pods counts a pod that started so long ago.
    #[serde(serialize_with = "write::duration")]
    pub settle: Duration,
    /// A binding that nobody has heard of for so long did not happen.
    #[serde(serialize_with = "write::duration")]
    pub reservation: Duration,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 9465).into(),
            tls: Tls::default(),
            metrics: Listener {
                listen: Some((Ipv4Addr::LOCALHOST, 9466).into()),
            },
            kubernetes: Kubernetes {
                kubeconfig: Access::InCluster,
            },
            leader: Leader {
                elect: true,
                namespace: "pinfold-system".to_owned(),
                name: "pinfold-scheduler".to_owned(),
                identity: None,
            },
            nodes: Doubts {
                without_report: Doubt::Pass,
                behind: Doubt::Reject,
                uncertain: Doubt::Reject,
            },
            reports: Reports {
                confirm_within: Duration::from_secs(60),
                settle: Duration::from_secs(90),
                reservation: Duration::from_secs(30),
            },
            weights: Weights::default(),
        }
    }
}

impl SchedulerConfig {
    /// Reads a configuration. `file` is its name for messages.
    ///
    /// # Errors
    /// With everything that makes it unusable, each with its place.
    pub fn read(file: &str, bytes: &[u8]) -> Result<WithWarnings<Self>, Diagnostics> {
        manifest::read_plain(file, bytes, read::config)
    }

    /// What a running extender cannot change: the names of fields in which `new` differs and that need a restart.
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
