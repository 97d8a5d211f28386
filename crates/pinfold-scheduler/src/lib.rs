//! The engine of the plugin Pinfold: kube-scheduler binds no pod to a node whose kubelet will reject it.
//!
//! ```text
//!                    ┌───────────────────────────────────────────────────────────────┐
//! API server ───────►│ reflectors ──► Cache ──► Cluster: nodes by dialect,           │
//!   Nodes, Pods,     │                  ▲       with their unreported pods           │
//!   reports          │                  │                                            │
//! kube-scheduler ───►│ server ──► Engine: PreFilter, Filter, Score, Reserve, requeue │
//!   unix socket      └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! All state is in the API server; a restart rebuilds the cache from it, and the plugin sends its reservations again.
//! Every engine follows the API server all the time. It serves one kube-scheduler at a time ([`engine::session`]):
//! a decision is safe only if the cache contains all earlier decisions.

pub mod cache;
pub mod config;
pub mod daemon;
pub mod engine;
pub mod metrics;
pub mod requeue;
pub mod server;
pub mod weights;

pub use cache::Cache;
pub use config::EngineConfig;
pub use weights::Weights;
