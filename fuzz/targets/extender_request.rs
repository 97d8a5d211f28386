//! Requests of kube-scheduler: every request is answered or rejected with a message, and does not affect the next one.
#![no_main]

use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use pinfold_scheduler::cache::node::{read_node, read_numa, read_report};
use pinfold_scheduler::cache::{Cache, Policy, pod};
use pinfold_scheduler::extender::Extender;
use pinfold_scheduler::extender::wire::BindingArgs;
use pinfold_scheduler::{SchedulerConfig, Weights};

fuzz_target!(|bytes: &[u8]| {
    let now = std::time::Instant::now();
    let config = SchedulerConfig::default();
    let mut cache = Cache::new(Policy {
        nodes: config.nodes,
        reports: config.reports,
    });
    let node = serde_json::json!({
        "metadata": { "name": "a" }, "status": { "allocatable": { "cpu": "8", "pods": "10" } },
    });
    cache.put_node(read_node(node).expect("a node"), now);
    // The same bytes as watched objects.
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) {
        if let Ok(node) = read_node(value.clone()) {
            cache.put_node(node, now);
        }
        if let Ok((name, report)) = read_report(value.clone(), now) {
            cache.put_report(&name, report, now);
        }
        if let Ok((name, report)) = read_numa(value.clone(), now) {
            cache.put_numa(&name, report, now);
        }
        if let Ok(found) = pod::read(value) {
            cache.put_pod(found, now);
        }
    }
    let extender = Extender::new(Arc::new(Mutex::new(cache)), Weights::default());
    if let Ok((answer, _)) = extender.filter(bytes) {
        let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
        assert!(answer["FailedNodes"].is_object());
    }
    let _ = extender
        .prioritize(bytes)
        .map_err(|error| error.to_string());
    let _ = extender.preempt(bytes).map_err(|error| error.to_string());
    let _: Result<BindingArgs, _> = serde_json::from_slice(bytes);
});
