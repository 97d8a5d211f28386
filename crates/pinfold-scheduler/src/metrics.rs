//! Metrics of the engine.

pub mod catalogue;

pub use catalogue::ALL;
pub use pinfold_daemon::metrics::{Metric, MetricKind, Metrics};

/// The metrics of the engine, all at 0.
#[must_use]
pub fn registry() -> Metrics {
    Metrics::new(ALL)
}
