//! The health of the engine and the gauges of its metrics.

use std::sync::PoisonError;
use std::time::Instant;

use pinfold_daemon::Metrics;
use pinfold_daemon::http::{DaemonStatus, Health};
use pinfold_daemon::metrics::Metric;

use super::EngineServer;
use crate::cache::ReportedDialect;
use crate::metrics::catalogue;

impl EngineServer {
    /// Resources that were not listed yet. Never waits for the lock of the cache.
    fn not_ready_reasons(&self) -> Vec<String> {
        let mut latest = self
            .readiness
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = self.engine.try_cache() {
            let missing = cache.listed().missing().into_iter();
            *latest = missing
                .map(|resource| format!("{resource} not listed yet"))
                .collect();
        }
        latest.clone()
    }
}

impl DaemonStatus for EngineServer {
    fn health(&self) -> Health {
        Health {
            not_live: Vec::new(),
            not_ready: self.not_ready_reasons(),
        }
    }

    fn update_gauges(&self, metrics: &Metrics) {
        let now = Instant::now();
        let cache = self.engine.cache();
        metrics.clear(&catalogue::NODES);
        for dialect in ReportedDialect::ALL {
            for report in ["fresh", "stale", "missing"] {
                metrics.set(&catalogue::NODES, &[dialect.name(), report], 0.0);
            }
        }
        let mut misplaced = 0;
        for (_, record) in cache.nodes() {
            let report = match (record.dialect, record.stale) {
                (ReportedDialect::Unknown, _) => "missing",
                (_, true) => "stale",
                (_, false) => "fresh",
            };
            metrics.add(&catalogue::NODES, &[record.dialect.name(), report], 1);
            misplaced += record.misplaced.len();
        }
        let (bound, pending) = cache.count_pods();
        let (mut held, mut unconfirmed, mut oldest) = (0, 0, 0.0_f64);
        for (_, reservation) in cache.reservations() {
            match reservation.unconfirmed {
                true => unconfirmed += 1,
                false => held += 1,
            }
            let age = now.saturating_duration_since(reservation.since);
            oldest = oldest.max(age.as_secs_f64());
        }
        drop(cache);
        let set = |metric: &Metric, labels: &[&str], count: usize| {
            let number = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
            metrics.set(metric, labels, number);
        };
        set(&catalogue::MISPLACED_PODS, &[], misplaced);
        set(&catalogue::PODS, &["bound"], bound);
        set(&catalogue::PODS, &["pending"], pending);
        set(&catalogue::RESERVATIONS, &["held"], held);
        set(&catalogue::RESERVATIONS, &["unconfirmed"], unconfirmed);
        metrics.set(&catalogue::OLDEST_RESERVATION, &[], oldest);
    }
}
