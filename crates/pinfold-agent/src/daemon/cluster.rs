//! The link to the API server, as configured.

use super::DaemonError;
use crate::config::{Access, AgentConfig};
use crate::kubernetes::{Connection, Kubernetes, Timing};
use pinfold_daemon::logs::Log;

/// The link; `None` if there is to be none.
pub(super) fn link(
    config: &AgentConfig,
    node: &str,
    log: &Log,
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
    let log = log.clone();
    let link = Kubernetes::start(&connection, node, timing, move |remark| {
        let what = [("what", &remark as &dyn std::fmt::Display)];
        match remark.is_problem() {
            true => log.warn("kubernetes", &what),
            false => log.info("kubernetes", &what),
        }
    })?;
    Ok(Some(link))
}
