//! [`Latency`]: how long an agent's decisions took, by its own histogram.

use std::collections::BTreeMap;

use super::process::Agent;

const HISTOGRAM: &str = "pinfold_decision_duration_seconds_bucket";
const ADMITTED: &str = "verdict=\"admitted\"";

/// How many decisions took at most so many seconds, for every bound of the histogram.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency(Vec<(f64, f64)>);

impl Latency {
    /// Of all pods and containers that were let in so far.
    pub(crate) fn so_far(agent: &Agent) -> Result<Self, String> {
        agent.metrics().map(|metrics| Self::read(&metrics))
    }

    fn read(metrics: &BTreeMap<String, f64>) -> Self {
        let own = metrics
            .iter()
            .filter(|(key, _)| key.starts_with(HISTOGRAM) && key.contains(ADMITTED));
        let mut buckets: Vec<(f64, f64)> = own
            .filter_map(|(key, count)| {
                let bound = key.split("le=\"").nth(1)?.split('"').next()?;
                let bound = match bound {
                    "+Inf" => f64::INFINITY,
                    bound => bound.parse().ok()?,
                };
                Some((bound, *count))
            })
            .collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self(buckets)
    }

    /// Of those since an earlier time.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let before = |bound: f64| {
            let same = earlier.0.iter().find(|(one, _)| *one == bound);
            same.map_or(0.0, |(_, count)| *count)
        };
        let more = self.0.iter();
        Self(
            more.map(|&(bound, count)| (bound, count - before(bound)))
                .collect(),
        )
    }

    /// How many.
    pub(crate) fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, count)| *count)
    }

    /// What so much of them took at most, in milliseconds: the bound of a bucket.
    pub(crate) fn bound(&self, part: f64) -> f64 {
        let enough = part * self.count();
        let bucket = self.0.iter().find(|(_, count)| *count >= enough);
        bucket.map_or(f64::INFINITY, |(bound, _)| bound * 1000.0)
    }
}
