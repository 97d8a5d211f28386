//! [`CounterTotals`]: copies counters that other components keep to the metrics.

use std::collections::BTreeMap;

use pinfold_devices::PluginActivity;
use pinfold_devices::pod_resources::PodResourcesCalls;

use crate::metrics::{Metric, Metrics, catalogue};
use crate::node::AdmissionCounters;

/// Version of the podresources API that the agent serves.
const API: &str = "v1";

/// The totals that were copied to the metrics before.
#[derive(Debug, Default)]
pub(super) struct CounterTotals {
    totals: BTreeMap<(&'static str, Vec<String>), u64>,
}

impl CounterTotals {
    /// Increases a metric by the growth of a total.
    fn raise_to(&mut self, metrics: &Metrics, metric: &Metric, labels: &[&str], total: u64) {
        let own = labels.iter().map(|&label| label.to_owned()).collect();
        let before = self.totals.insert((metric.name, own), total);
        metrics.add(metric, labels, total.saturating_sub(before.unwrap_or(0)));
    }

    /// Copies the admission counters.
    pub(super) fn admissions(&mut self, metrics: &Metrics, counters: &AdmissionCounters) {
        for (metric, total) in [
            (&catalogue::CPU_REQUESTS, counters.cpu_requests),
            (&catalogue::CPU_ERRORS, counters.cpu_errors),
            (&catalogue::MEMORY_REQUESTS, counters.memory_requests),
            (&catalogue::MEMORY_ERRORS, counters.memory_errors),
        ] {
            self.raise_to(metrics, metric, &[], total);
        }
        for (metric, counts) in [
            (&catalogue::ALIGNED, &counters.aligned),
            (&catalogue::NOT_ALIGNED, &counters.unaligned),
        ] {
            for (&(scope, boundary), &total) in counts {
                self.raise_to(metrics, metric, &[scope, boundary], total);
            }
        }
    }

    /// Copies the number of syncs of the journal.
    pub(super) fn journal_syncs(&mut self, metrics: &Metrics, syncs: u64) {
        self.raise_to(metrics, &catalogue::JOURNAL_SYNCS, &[], syncs);
    }

    /// Copies the registrations and allocations of device plugins.
    pub(super) fn device_plugins(&mut self, metrics: &Metrics, activity: PluginActivity) {
        let metric = &catalogue::PLUGIN_REGISTRATIONS;
        for (resource, total) in activity.registrations {
            self.raise_to(metrics, metric, &[resource.as_str()], total);
        }
        for (resource, took) in activity.allocations {
            let metric = &catalogue::PLUGIN_ALLOCATION;
            metrics.observe(metric, &[resource.as_str()], took.as_secs_f64());
        }
    }

    /// Copies the requests to the podresources API.
    pub(super) fn pod_resources(&mut self, metrics: &Metrics, asked: PodResourcesCalls) {
        let all = asked.list + asked.allocatable + asked.get;
        for (metric, total) in [
            (&catalogue::POD_RESOURCES_TOTAL, all),
            (&catalogue::POD_RESOURCES_LIST, asked.list),
            (&catalogue::POD_RESOURCES_ALLOCATABLE, asked.allocatable),
            (&catalogue::POD_RESOURCES_GET, asked.get),
            (&catalogue::POD_RESOURCES_LIST_ERRORS, 0),
            (&catalogue::POD_RESOURCES_ALLOCATABLE_ERRORS, 0),
            (&catalogue::POD_RESOURCES_GET_ERRORS, asked.get_failed),
        ] {
            self.raise_to(metrics, metric, &[API], total);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn totals_are_added_once() {
        let (metrics, mut totals) = (crate::metrics::registry(), CounterTotals::default());
        let counters = AdmissionCounters {
            cpu_requests: 3,
            aligned: [(("pod", "numa_node"), 2)].into(),
            ..AdmissionCounters::default()
        };
        let asked = PodResourcesCalls {
            list: 2,
            get: 1,
            get_failed: 1,
            ..PodResourcesCalls::default()
        };
        for _ in 0..2 {
            totals.admissions(&metrics, &counters);
            totals.journal_syncs(&metrics, 4);
            totals.pod_resources(&metrics, asked);
        }
        let took = ("vendor.com/gpu".into(), Duration::from_millis(20));
        let activity = PluginActivity {
            registrations: [("vendor.com/gpu".into(), 1)].into(),
            allocations: [took].into(),
        };
        totals.device_plugins(&metrics, activity);
        let text = metrics.expose();
        for line in [
            "kubelet_cpu_manager_pinning_requests_total 3",
            "kubelet_container_aligned_compute_resources_count{scope=\"pod\",boundary=\"numa_node\"} 2",
            "kubelet_pod_resources_endpoint_requests_total{server_api_version=\"v1\"} 3",
            "pinfold_journal_syncs_total 4",
            "kubelet_pod_resources_endpoint_errors_get{server_api_version=\"v1\"} 1",
            "kubelet_device_plugin_registration_total{resource_name=\"vendor.com/gpu\"} 1",
            "kubelet_device_plugin_alloc_duration_seconds_count{resource_name=\"vendor.com/gpu\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
