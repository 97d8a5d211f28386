//! What the agent counts and measures.
//!
//! Where the kubelet has a metric for the same thing, the name, the labels and the buckets are its own
//! (`pkg/kubelet/metrics`), so that its dashboards go on.

pub mod catalogue;
mod node;

pub use catalogue::ALL;
pub use node::measure_ledger;
pub use pinfold_daemon::metrics::{Metric, MetricKind, Metrics};

/// Nothing counted yet.
#[must_use]
pub fn registry() -> Metrics {
    Metrics::new(ALL)
}

#[cfg(test)]
mod tests;
