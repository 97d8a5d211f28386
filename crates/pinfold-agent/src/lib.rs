//! The agent of a node: keeps the ledger and its journal, pins what runs, and tells others.
//!
//! ```text
//! runtime (NRI) ─► runtime ─┐                                  ┌─► runtime: adjustments, updates
//! people (socket) ─► http ──┼─► Node ─► JournaledLedger ─► journal ─────┼─► drift: control groups
//! plugins ─► pinfold-devices┘   │  decides, writes, then tells └─► kubernetes: objects, events
//!                               └─► metrics, logs
//! kubelet's files ─► mirror ───────────────────────────────────────► kubernetes
//! ```
//!
//! [`daemon`] joins all this. The [`journaled_ledger`] and the [`node`] have no runtime, no network and no clock: their caller says
//! what time it is and what runs.

pub mod allowance;
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
pub mod takeover;

pub use allowance::{Allowance, Quota};
pub use config::AgentConfig;
pub use journaled_ledger::{
    JournalDifference, JournalRepair, JournaledLedger, JournaledLedgerError, RulesChange,
    RunningPods,
};
pub use metrics::Metrics;
