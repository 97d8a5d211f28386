//! Tests of the cache with ledgers that act as the kubelets of the nodes.

mod dialects;
mod headroom;
mod histories;
mod node;
mod reports;
mod requeue;
mod reservations;
mod rules;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::pod_info::{self, ObservedPod};
use super::{Cache, CachePolicy};
use crate::config::EngineConfig;

fn policy() -> CachePolicy {
    let config = EngineConfig::default();
    CachePolicy {
        nodes: config.nodes,
        reports: config.reports,
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A Guaranteed pod as the API server sends it.
fn pod_json(uid: &str, cpus: u32, memory: &str, node: Option<&str>, phase: &str) -> Value {
    let amounts = json!({ "cpu": cpus.to_string(), "memory": memory });
    let mut pod = json!({
        "metadata": { "name": uid, "namespace": "default", "uid": uid, "resourceVersion": "1" },
        "spec": { "containers": [{
            "name": "main", "image": "i", "resources": { "requests": amounts, "limits": amounts },
        }]},
        "status": { "phase": phase },
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

fn observed_pod(
    uid: &str,
    cpus: u32,
    memory: &str,
    node: Option<&str>,
    phase: &str,
) -> ObservedPod {
    pod_info::parse(&pod_json(uid, cpus, memory, node, phase).to_string()).expect("a pod")
}

/// A cache that has listed these nodes and no pods.
fn cache(nodes: &[&node::TestNode], now: Instant) -> Cache {
    let mut cache = Cache::new(policy());
    cache.replace_nodes(nodes.iter().map(|node| node.info()).collect(), now);
    let reports = nodes.iter().map(|node| node.report(now)).collect();
    cache.replace_reports(reports, now);
    cache.replace_numas(Vec::new(), now);
    let later = now + Duration::from_millis(1);
    cache.replace_pods(Vec::new(), later, later);
    cache
}
