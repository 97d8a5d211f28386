//! Metrics of the extender.

pub mod catalogue;

pub use catalogue::ALL;
pub use pinfold_daemon::metrics::{Metric, MetricKind, Metrics};

/// The metrics of the extender, all at 0.
#[must_use]
pub fn registry() -> Metrics {
    Metrics::new(ALL)
}
