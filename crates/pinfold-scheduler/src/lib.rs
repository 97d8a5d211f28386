//! The cluster cache and the scheduler extender: no pod is bound to a node that will reject it.
//!
//! ```text
//!                    ┌──────────────────────────────────────────────────────────┐
//! API server ───────►│ watches ──► Cache ──► Cluster: every node by its dialect │
//!   Nodes, Pods,     │              ▲  pods bound and not yet reported on top   │
//!   reports          │              │                                           │
//! kube-scheduler ───►│ server ──► extender: filter, prioritize, preempt, bind ───┼──► API server: bindings
//!                    └──────────────────────────────────────────────────────────┘
//! ```
//!
//! All state is in the API server; a restart rebuilds everything from it. One of several extenders answers at a time
//! ([`leader`]), because a decision is only safe on a picture that holds every decision before it.

pub mod cache;
pub mod config;
pub mod daemon;
pub mod extender;
pub mod leader;
pub mod metrics;
pub mod server;
pub mod tls;
pub mod wake;
pub mod weights;

pub use cache::Cache;
pub use config::SchedulerConfig;
pub use weights::Weights;
