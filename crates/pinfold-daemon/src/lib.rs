//! The parts that every Pinfold daemon uses.
//!
//! | part | module |
//! |---|---|
//! | parsing of configuration files, with positions in error messages | [`config`] |
//! | log lines | [`logging`] |
//! | Prometheus metrics | [`metrics`] |
//! | an HTTP server with limits, `/healthz`, `/readyz` and `/metrics` | [`http`] |
//! | SIGTERM, SIGINT and SIGHUP | [`signals`] |
//! | command line | [`program`], [`log_args`] |

pub mod config;
pub mod http;
pub mod log_args;
pub mod logging;
pub mod metrics;
pub mod program;
pub mod signals;

pub use metrics::Metrics;
