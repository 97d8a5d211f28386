//! The daemon: starts and joins everything.

use crate::config::AgentConfig;
use crate::control::Control;
use crate::logs::Log;

/// Why the daemon could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The parts are not joined.
    #[error("the parts of the agent are not joined yet")]
    NotJoined,
}

/// Runs the agent of a node until it is told to stop.
///
/// # Errors
/// If it cannot start, or cannot go on.
pub fn run(_config: &AgentConfig, _control: &Control, log: &Log) -> Result<(), DaemonError> {
    log.error("cannot start", &[("reason", &DaemonError::NotJoined)]);
    Err(DaemonError::NotJoined)
}
