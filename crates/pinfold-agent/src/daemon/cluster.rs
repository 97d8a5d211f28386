//! The link to the API server, as configured.

use std::sync::Arc;

use super::DaemonError;
use crate::config::{Access, AgentConfig};
use crate::kubernetes::{Connection, Kubernetes, Remark, Timing};
use crate::metrics::{Metrics, catalogue};

/// The link; `None` if there is to be none.
pub(super) fn link(
    config: &AgentConfig,
    node: &str,
    metrics: &Arc<Metrics>,
) -> Result<Option<Kubernetes>, DaemonError> {
    let connection = match &config.kubernetes.kubeconfig {
        Access::None => return Ok(None),
        Access::InCluster => Connection::in_cluster()?,
        Access::File(path) => Connection::from_kubeconfig(path)?,
    };
    let timing = Timing {
        interval: config.kubernetes.every,
        ..Timing::default()
    };
    let metrics = metrics.clone();
    let link = Kubernetes::start(&connection, node, timing, move |remark| {
        count(&metrics, &remark);
        match remark.is_problem() {
            true => tracing::warn!(what = %remark, "kubernetes"),
            false => tracing::info!(what = %remark, "kubernetes"),
        }
    })?;
    Ok(Some(link))
}

/// Counts what came of reports. A failure that goes on is told, and so counted, once.
fn count(metrics: &Metrics, remark: &Remark) {
    let (resource, result) = match remark {
        Remark::Published { resource, .. } => (resource, "written"),
        Remark::NotPublished { resource, .. } => (resource, "failed"),
        Remark::NotServed { resource } => (resource, "not-served"),
        _ => return,
    };
    metrics.count(&catalogue::PUBLICATIONS, &[resource, result]);
}
