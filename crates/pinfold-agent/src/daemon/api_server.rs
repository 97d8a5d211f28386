//! Connects to the API server as configured.

use std::sync::Arc;

use super::AgentError;
use crate::config::{Access, AgentConfig};
use crate::kubernetes::{Connection, Kubernetes, Remark, Timing};
use crate::metrics::{Metrics, catalogue};
use pinfold_daemon::logs::Log;

/// The connection to the API server; `None` if the configuration has none.
pub(super) fn connect(
    config: &AgentConfig,
    node: &str,
    log: &Log,
    metrics: &Arc<Metrics>,
) -> Result<Option<Kubernetes>, AgentError> {
    let connection = match &config.kubernetes.kubeconfig {
        Access::None => return Ok(None),
        Access::InCluster => Connection::in_cluster()?,
        Access::File(path) => Connection::from_kubeconfig(path)?,
    };
    let timing = Timing {
        interval: config.kubernetes.every,
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

/// Counts published objects by result. A lasting failure is reported, and so counted, once.
fn count(metrics: &Metrics, remark: &Remark) {
    let (resource, result) = match remark {
        Remark::Published { resource, .. } => (resource, "written"),
        Remark::NotPublished { resource, .. } => (resource, "failed"),
        Remark::NotServed { resource } => (resource, "not-served"),
        _ => return,
    };
    metrics.count(&catalogue::PUBLICATIONS, &[resource, result]);
}
