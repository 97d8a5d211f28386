//! What keeps the ledger of one node: the journal of every change, and its single owner.
//!
//! ```text
//! admit, start, release, offer, apply ──► Keeper ──► Ledger decides ──► Journal writes and syncs ──► the caller acts
//!                                                         ▲                     │ it cannot
//!                                                         └────── undone ◄──────┘
//! ```
//!
//! The ledger's part has no runtime, no network, no clock: the caller says what time it is and what runs on the node.
//! [`kubernetes`] is the link to the API server.

pub mod allowance;
pub mod drift;
pub mod journal;
pub mod keeper;
pub mod kubernetes;
pub mod mirror;
pub mod node;
pub mod runtime;
//! The keeper itself has no network and no clock: its caller says what time it is and what runs on the node. Around it are
//! the surfaces: the [`config`]uration, the API and the probes ([`http`]), [`metrics`] and [`logs`].
pub mod config;
pub mod control;
pub mod daemon;
pub mod http;
pub mod logs;
pub mod metrics;

pub use allowance::{Allowance, Quota};
pub use config::AgentConfig;
pub use journal::{Entry, History, Journal, JournalError, Limits, Timestamp};
pub use keeper::{Difference, Keeper, KeeperError, Note, Origin, Plan, Repair, Running};
pub use keeper::{Difference, Keeper, KeeperError, Plan, Repair, Running};
pub use logs::Log;
pub use metrics::Metrics;
