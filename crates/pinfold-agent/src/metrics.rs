//! The agent's Prometheus metrics.
//!
//! Where the kubelet has a metric for the same thing, name, labels and buckets are the kubelet's
//! (`pkg/kubelet/metrics`), so that its dashboards keep working.

pub mod catalogue;
mod node;

pub use catalogue::ALL;
pub use node::measure_ledger;
pub use pinfold_daemon::metrics::{Metric, MetricKind, Metrics};

/// A registry of all metrics, with zero counters.
#[must_use]
pub fn registry() -> Metrics {
    Metrics::new(ALL)
}

#[cfg(test)]
mod tests;
