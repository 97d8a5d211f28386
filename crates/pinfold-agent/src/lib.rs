//! The node agent: keeps the node's ledger and journal, pins containers, and publishes the node's state.
//!
//! ```text
//! container runtime (NRI) ─► runtime ─┐                                              ┌─► runtime: adjustments, updates
//! API socket ──────────────► http ────┼─► ManagedNode ─► JournaledLedger ─► journal ─┼─► drift: cgroups
//! device plugins ─► pinfold-devices ──┘        │                                     └─► kubernetes: objects, events
//!                                              └─► metrics, logs
//! kubelet's files ─► mirror ─────────────────────────────────────────────────────────► kubernetes
//! ```
//!
//! [`daemon`] starts and connects these parts. [`journaled_ledger`] and [`node`] use no container runtime, network or
//! clock: their caller passes the time and the running pods.

pub mod allowance;
pub mod cgroup_writer;
pub mod config;
pub mod daemon;
pub mod drift;
pub mod http;
pub mod journaled_ledger;
pub mod kubernetes;
pub mod metrics;
pub mod mirror;
pub mod node;
pub mod runtime;
pub mod systemd;
pub mod takeover;

pub use allowance::{Allowance, Quota};
pub use config::AgentConfig;
pub use journaled_ledger::{JournaledLedger, JournaledLedgerError, RulesChange};
pub use metrics::Metrics;
