//! [`Suppressor`]: takes CPUs from best-effort pods while other pods are busy, and gives them back.
//!
//! Every second it measures the CPU time of the node and of best-effort pods in their control groups. The rules are in
//! [`pinfold_cluster::koordinator::suppression`].

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pinfold_cgroup::Hierarchy;
use pinfold_cluster::koordinator::suppression::{Suppression, SuppressionLoad};
use pinfold_core::cpu_set::CpuSet;

use super::service::{Service, now};
use crate::kubernetes::{BEST_EFFORT_LIMITED, BEST_EFFORT_RESTORED};
use crate::metrics::catalogue;
use crate::node::BestEffort;
use crate::runtime::{Telemetry, lock};

mod cpu_sample;

use cpu_sample::{CpuSample, Usage};

/// Interval of measuring.
const INTERVAL: Duration = Duration::from_secs(1);

/// Measures, decides and applies.
pub(super) struct Suppressor {
    pub(super) service: Arc<Service>,
    pub(super) hierarchy: Hierarchy,
    /// `/proc/stat`, or a file in its place.
    pub(super) stat: PathBuf,
    /// Percentage of the node's CPUs that all pods together should use at most.
    pub(super) threshold: u32,
}

/// What one round needs of the last one.
#[derive(Default)]
pub(super) struct LastRound {
    sample: Option<CpuSample>,
    suppression: Suppression,
    /// Whether a limit was reported that has not ended.
    is_limited: bool,
    is_unreadable: bool,
}

impl Suppressor {
    /// Runs as long as the agent does.
    pub(super) fn run(&self) {
        let mut last = LastRound::default();
        let start = Instant::now();
        loop {
            self.round(&mut last, start.elapsed());
            thread::sleep(INTERVAL);
        }
    }

    /// One round, at this time since the start.
    pub(super) fn round(&self, last: &mut LastRound, at: Duration) {
        let Some(pods) = lock(&self.service.node).best_effort() else {
            return;
        };
        let sample = match CpuSample::read(&self.hierarchy, &self.stat, &pods.groups, at) {
            Ok(sample) => sample,
            Err(error) => {
                if !std::mem::replace(&mut last.is_unreadable, true) {
                    tracing::warn!(%error, "CPU usage cannot be measured: best-effort pods are not limited");
                }
                *last = LastRound {
                    is_unreadable: true,
                    ..LastRound::default()
                };
                self.apply(&pods, CpuSet::new());
                return;
            }
        };
        last.is_unreadable = false;
        let before = last.sample.replace(sample.clone());
        let current = last.suppression.cpus().unwrap_or(&pods.pool);
        let Some(usage) = before.and_then(|before| sample.since(&before, &pods.topology, current))
        else {
            return;
        };
        let load = SuppressionLoad {
            pool: &pods.pool,
            lent: &pods.lent,
            used_by_others: usage.others,
            used_by_node: &usage.by_node,
        };
        let cpus = last.suppression.step(&pods.topology, self.threshold, &load);
        self.apply(&pods, cpus.clone());
        self.report(last, &pods, &cpus, &usage);
    }

    fn apply(&self, pods: &BestEffort, cpus: CpuSet) {
        let metrics = &self.service.telemetry.metrics;
        let usable = if cpus.is_empty() { &pods.pool } else { &cpus };
        let count = u32::try_from(usable.len()).unwrap_or(u32::MAX);
        metrics.set(&catalogue::BEST_EFFORT_CPUS, &[], count.into());
        let updates = lock(&self.service.node).limit_best_effort(cpus);
        if !updates.is_empty() {
            self.service.publish_updates(updates);
        }
    }

    /// Reports when best-effort pods begin to have fewer CPUs than on an idle node, and when that ends.
    fn report(&self, last: &mut LastRound, pods: &BestEffort, cpus: &CpuSet, usage: &Usage) {
        let idle = SuppressionLoad {
            pool: &pods.pool,
            lent: &pods.lent,
            used_by_others: 0,
            used_by_node: &usage.by_node,
        };
        let idle = Suppression::default().step(&pods.topology, self.threshold, &idle);
        let is_limited = cpus.len() < idle.len();
        // A limit that no pod has is not reported; one that was reported ends.
        if is_limited == last.is_limited || is_limited && pods.groups.is_empty() {
            return;
        }
        last.is_limited = is_limited;
        let busy = usage.others / 1000;
        let tenths = usage.others % 1000 / 100;
        let (reason, message) = match is_limited {
            true => (
                BEST_EFFORT_LIMITED,
                format!(
                    "best-effort pods have CPUs {cpus} instead of {idle}: other pods use {busy}.{tenths} CPUs"
                ),
            ),
            false => (
                BEST_EFFORT_RESTORED,
                format!("best-effort pods have CPUs {cpus} again"),
            ),
        };
        let telemetry = &self.service.telemetry;
        telemetry.report_about_node(reason, &message);
        let journaled = lock(&self.service.node)
            .journaled_mut()
            .record_best_effort_limit(message, now());
        match journaled {
            Ok(()) => telemetry.node_changed(),
            Err(error) => telemetry.record_error(&error),
        }
    }
}

#[cfg(test)]
mod tests;
