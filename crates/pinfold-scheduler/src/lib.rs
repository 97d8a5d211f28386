//! The scheduler extender: kube-scheduler binds no pod to a node whose kubelet will reject it.
//!
//! ```text
//!                    ┌──────────────────────────────────────────────────────────┐
//! API server ───────►│ reflectors ──► Cache ──► Cluster: nodes by dialect,      │
//!   Nodes, Pods,     │                  ▲       with their unreported pods      │
//!   reports          │                  │                                       │
//! kube-scheduler ───►│ server ──► Extender: filter, prioritize, preempt, bind ──┼──► API server: bindings
//!                    └──────────────────────────────────────────────────────────┘
//! ```
//!
//! All state is in the API server; a restart rebuilds the cache from it. Of several extenders only the leader answers
//! ([`leader`]): a decision is safe only if the cache contains all earlier decisions.

pub mod cache;
pub mod config;
pub mod daemon;
pub mod extender;
pub mod leader;
pub mod metrics;
pub mod requeue;
pub mod server;
pub mod tls;
pub mod weights;

pub use cache::Cache;
pub use config::ExtenderConfig;
pub use weights::Weights;
