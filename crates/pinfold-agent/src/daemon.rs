//! The daemon: starts and joins everything.
//!
//! ```text
//! signals ─► this thread: looks for drift, CPUs that came or went, other settings
//! runtime ─► thread "runtime" ─┐
//! API, probes ─► thread "http" ┼─► Node, under one lock ─► "teller": tells the runtime and control groups
//! plugins ─► thread "devices" ─┘                       └─► "reporter": pod resources, objects for the cluster
//! ```

use std::io;
use std::path::PathBuf;

use pinfold_core::ledger::SettingsError;
use pinfold_devices::HostError;
use pinfold_kube::diagnostic::Diagnostics;

use crate::config::{AgentConfig, Mode};
use crate::http::socket::SocketError;
use crate::journaled_ledger::JournaledLedgerError;
use crate::kubernetes::ConnectionError;
use pinfold_daemon::signals::SignalReceiver;

mod api_server;
mod cgroup_scanner;
mod counter_totals;
mod enforcer;
mod host;
mod listeners;
mod maintenance;
mod manage;
mod mirror;
mod node_snapshot;
mod partitions;
mod service;
mod telemetry;

/// Why the daemon could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// This machine does not tell what it is.
    #[error("this machine cannot be read: {0}")]
    Machine(String),
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The rules cannot be understood.
    #[error("{0}")]
    Rules(Diagnostics),
    /// The rules do not fit the machine.
    #[error("this machine cannot be run by these settings: {0}")]
    Settings(#[from] SettingsError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournaledLedgerError),
    /// A socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A port cannot be used.
    #[error("cannot listen on {address}: {error}; set metrics.listen to another one, or none")]
    Port {
        /// Which.
        address: std::net::SocketAddr,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Device plugins cannot be served.
    #[error(transparent)]
    Devices(#[from] HostError),
    /// The API server cannot be asked.
    #[error(transparent)]
    Kubernetes(#[from] ConnectionError),
    /// The plugin's name or index is none.
    #[error("runtime.index: {0}")]
    Identity(String),
    /// There is no thread left.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Runs the agent of a node until it is told to stop. `reread` gives the configuration as it is by then.
///
/// # Errors
/// If it cannot start, or cannot go on.
pub fn run(
    config: &AgentConfig,
    reread: &dyn Fn() -> Result<AgentConfig, String>,
    control: &SignalReceiver,
) -> Result<(), AgentError> {
    match config.mode {
        Mode::Manage => manage::run(config, reread, control),
        Mode::Mirror => mirror::run(config, reread, control),
    }
}
