//! The link to the API server, as configured.

use std::sync::Arc;

use super::DaemonError;
use crate::config::{Access, AgentConfig};
use crate::kubernetes::{Connection, Kubernetes, SyncEvent, Timing};
use crate::metrics::{Metrics, catalogue};
use pinfold_daemon::logs::Log;

/// The link; `None` if there is to be none.
pub(super) fn link(
    config: &AgentConfig,
    node: &str,
    log: &Log,
    metrics: &Arc<Metrics>,
) -> Result<Option<Kubernetes>, DaemonError> {
    let connection = match &config.kubernetes.kubeconfig {
        Access::None => return Ok(None),
        Access::InCluster => Connection::in_cluster()?,
        Access::File(path) => Connection::from_kubeconfig(path)?,
    };
    let timing = Timing {
        interval: config.kubernetes.publish_interval,
        ..Timing::default()
    };
    let (log, metrics) = (log.clone(), metrics.clone());
    let link = Kubernetes::start(&connection, node, timing, move |remark| {
        count(&metrics, &remark);
        let what = [("what", &remark as &dyn std::fmt::Display)];
        match remark.is_problem() {
            true => log.warn("kubernetes", &what),
            false => log.info("kubernetes", &what),
        }
    })?;
    Ok(Some(link))
}

/// Counts what came of reports. A failure that goes on is told, and so counted, once.
fn count(metrics: &Metrics, event: &SyncEvent) {
    let (resource, result) = match event {
        SyncEvent::Published { resource, .. } => (resource, "written"),
        SyncEvent::PublishFailed { resource, .. } => (resource, "failed"),
        SyncEvent::NotServed { resource } => (resource, "not-served"),
        _ => return,
    };
    metrics.count(&catalogue::PUBLICATIONS, &[resource, result]);
}
