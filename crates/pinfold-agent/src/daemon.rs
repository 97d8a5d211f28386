//! The agent daemon: starts the agent's threads and connects them.
//!
//! ```text
//! signals ─► main thread: drift repair, online CPUs, configuration reload
//!            thread "readiness": condition of the Node, service manager
//! container runtime ─► thread "runtime" ─┐
//! API, probes ───────► thread "http" ────┼─► ManagedNode, under a mutex ─► "update-sender": runtime and cgroups
//! device plugins ────► thread "offers" ──┘                              └─► "reporter": podresources API, API server
//! ```

use std::io;
use std::path::PathBuf;

use pinfold_core::ledger::SettingsError;
use pinfold_devices::HostError;
use pinfold_kube::diagnostic::Diagnostics;

use crate::config::{AgentConfig, Mode};
use crate::kubernetes::ConnectionError;
use pinfold_daemon::signals::SignalReceiver;
use pinfold_daemon::socket::SocketError;
use pinfold_journal::JournalError;

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
mod own_node;
mod partitions;
mod readiness;
mod service;
mod suppressor;
mod telemetry;
mod unmet_allowances;

/// Why the agent could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The machine's topology cannot be read.
    #[error("cannot read the machine's topology: {0}")]
    Machine(String),
    /// A configuration file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The KubeletConfiguration or scheduler configuration is invalid.
    #[error("{0}")]
    Rules(Diagnostics),
    /// The settings do not fit the machine.
    #[error("the settings do not fit this machine: {0}")]
    Settings(#[from] SettingsError),
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A unix socket cannot be bound.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A TCP port cannot be bound.
    #[error("cannot listen on {address}: {error}; set metrics.listen to another one, or none")]
    Port {
        /// The address.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The device plugin host cannot be started.
    #[error(transparent)]
    Devices(#[from] HostError),
    /// Device plugins cannot register with the agent, because the node has a kubelet.
    #[error(
        "devices.managePlugins is for nodes without a kubelet, and this node has one: {0}. Set it to false: device \
         plugins then register with the kubelet, which reports their devices to the scheduler, and the agent aligns \
         CPUs and memory to the devices that the kubelet assigns"
    )]
    NodeHasKubelet(String),
    /// The connection to the API server is misconfigured.
    #[error(transparent)]
    Kubernetes(#[from] ConnectionError),
    /// The NRI plugin name or index is invalid.
    #[error("runtime.pluginIndex: {0}")]
    Identity(String),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Runs the agent until it is stopped. `reread` reads the configuration again, for a reload.
///
/// # Errors
/// If it cannot start, or cannot continue.
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
