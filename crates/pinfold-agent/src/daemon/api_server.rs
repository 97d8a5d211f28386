//! Connects to the API server as configured.

use std::sync::Arc;

use super::AgentError;
use crate::config::{Access, AgentConfig};
use crate::kubernetes::{
    ApiServerClient, ClientOptions, Connection, NodeStatusConfig, SyncEvent, Timing,
};
use crate::metrics::{Metrics, catalogue};

/// The connection to the API server; `None` if the configuration has none.
pub(super) fn connect(
    config: &AgentConfig,
    node: &str,
    metrics: &Arc<Metrics>,
) -> Result<Option<ApiServerClient>, AgentError> {
    let connection = match &config.kubernetes.kubeconfig {
        Access::None => return Ok(None),
        Access::InCluster => Connection::in_cluster()?,
        Access::File(path) => Connection::from_kubeconfig(path)?,
    };
    let options = ClientOptions {
        timing: Timing {
            interval: config.kubernetes.publish_interval,
            ..Timing::default()
        },
        other_writers: config.kubernetes.other_writers,
        node_status: NodeStatusConfig {
            condition: config.kubernetes.node_condition,
            startup_taint: config.kubernetes.startup_taint.clone(),
        },
    };
    let metrics = metrics.clone();
    let link = ApiServerClient::start_with(&connection, node, options, move |event| {
        count(&metrics, &event);
        log(&event);
    })?;
    Ok(Some(link))
}

/// Logs an event. The field `detail` has the error and a hint.
fn log(event: &SyncEvent) {
    match event {
        SyncEvent::PodsListed { pods } => tracing::info!(pods, "pods of this node listed"),
        SyncEvent::PodWatchFailed { .. } => tracing::warn!(detail = %event, "pod watch stalled"),
        SyncEvent::NodeWatchFailed { .. } => tracing::warn!(detail = %event, "Node watch stalled"),
        SyncEvent::Recovered { what } => {
            tracing::info!(resource = %what, "requests to the API server succeed again");
        }
        SyncEvent::InvalidPod(_) => tracing::warn!(detail = %event, "invalid pod skipped"),
        SyncEvent::PodLimitExceeded { limit } => {
            tracing::warn!(limit, "too many pods on this node: the rest is ignored");
        }
        SyncEvent::Published {
            resource,
            generation,
        } => tracing::info!(%resource, generation, "object published"),
        SyncEvent::NotServed { .. } => tracing::warn!(detail = %event, "resource not served"),
        SyncEvent::PublishFailed { .. } => tracing::warn!(detail = %event, "publishing failed"),
        SyncEvent::OtherWriter { .. } => tracing::warn!(detail = %event, "another writer found"),
        SyncEvent::TaintRemoved { taint } => {
            tracing::info!(%taint, "startup taint removed from the Node");
        }
        SyncEvent::EventRejected { .. } => tracing::warn!(detail = %event, "pod event rejected"),
        SyncEvent::TaskPanicked { .. } => tracing::error!(detail = %event, "task panicked"),
        SyncEvent::EventsDropped { events } => tracing::warn!(events, "pod events dropped"),
    }
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
