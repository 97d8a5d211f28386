//! What the extender counts and measures.

pub mod catalogue;

pub use catalogue::ALL;
pub use pinfold_daemon::metrics::{Kind, Metric, Metrics};

/// Nothing counted yet.
#[must_use]
pub fn registry() -> Metrics {
    Metrics::new(ALL)
}
