//! What every daemon of ours is made of.
//!
//! | | |
//! |---|---|
//! | reading its configuration, every field with its place | [`config`] |
//! | log lines | [`logging`] |
//! | what it counts and measures | [`metrics`] |
//! | an HTTP server within limits, and what probes ask | [`http`] |
//! | what signals want of it | [`control`] |

pub mod config;
pub mod control;
pub mod http;
pub mod logging;
pub mod metrics;

pub use metrics::Metrics;
