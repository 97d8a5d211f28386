//! The parts that every Pinfold daemon uses.
//!
//! | part | module |
//! |---|---|
//! | parsing of configuration files, with positions in error messages | [`config`] |
//! | log lines | [`logging`] |
//! | Prometheus metrics | [`metrics`] |
//! | an HTTP server with limits, `/healthz`, `/readyz` and `/metrics` | [`http`] |
//! | unix sockets that only their owner can open | [`socket`] |
//! | SIGTERM, SIGINT and SIGHUP | [`signals`] |
//! | messages to systemd | [`service_manager`] |
//! | command line | [`program`], [`log_args`] |

pub mod config;
pub mod http;
pub mod log_args;
pub mod logging;
pub mod metrics;
pub mod program;
pub mod service_manager;
pub mod signals;
pub mod socket;

pub use metrics::Metrics;
