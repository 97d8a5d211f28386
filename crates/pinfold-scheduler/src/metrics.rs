//! What the extender counts and measures.

pub mod catalogue;

pub use catalogue::ALL;
pub use pinfold_daemon::metrics::{Metric, MetricKind, Metrics};

/// Nothing counted yet.
#[must_use]
pub fn registry() -> Metrics {
    Metrics::new(ALL)
}
