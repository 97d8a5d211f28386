//! What every daemon of ours is made of.
//!
//! | | |
//! |---|---|
//! | reading its configuration, every field with its place | [`config`] |
//! | log lines | [`logging`] |
//! | what it counts and measures | [`metrics`] |
//! | an HTTP server within limits, and what probes ask | [`http`] |
//! | what signals want of it | [`control`] |
//! | its command line | [`program`], [`log_args`] |

pub mod config;
pub mod control;
pub mod http;
pub mod log_args;
pub mod logging;
pub mod metrics;
pub mod program;

pub use metrics::Metrics;
