//! Connects to the API server as configured.

use std::sync::Arc;

use super::AgentError;
use crate::config::{Access, AgentConfig};
use crate::kubernetes::{Connection, Kubernetes, SyncEvent, Timing};
use crate::metrics::{Metrics, catalogue};

/// The connection to the API server; `None` if the configuration has none.
pub(super) fn connect(
    config: &AgentConfig,
    node: &str,
    metrics: &Arc<Metrics>,
) -> Result<Option<Kubernetes>, AgentError> {
    let connection = match &config.kubernetes.kubeconfig {
        Access::None => return Ok(None),
        Access::InCluster => Connection::in_cluster()?,
        Access::File(path) => Connection::from_kubeconfig(path)?,
    };
    let timing = Timing {
        interval: config.kubernetes.publish_interval,
        ..Timing::default()
    };
    let metrics = metrics.clone();
    let link = Kubernetes::start(&connection, node, timing, move |remark| {
        count(&metrics, &remark);
        match remark.is_problem() {
            true => tracing::warn!(%remark, "API server connection problem"),
            false => tracing::info!(%remark, "API server connection"),
        }
    })?;
    Ok(Some(link))
}

/// Counts published objects by result. A lasting failure is reported, and so counted, once.
fn count(metrics: &Metrics, event: &SyncEvent) {
    let (resource, result) = match event {
        SyncEvent::Published { resource, .. } => (resource, "written"),
        SyncEvent::PublishFailed { resource, .. } => (resource, "failed"),
        SyncEvent::NotServed { resource } => (resource, "not-served"),
        _ => return,
    };
    metrics.count(&catalogue::PUBLICATIONS, &[resource, result]);
}
