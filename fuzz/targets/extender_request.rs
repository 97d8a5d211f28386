//! Requests of kube-scheduler: every request is answered or rejected with a message, and does not affect the next one.
#![no_main]

use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use pinfold_scheduler::cache::node::{parse_node, parse_numa, parse_report};
use pinfold_scheduler::cache::{Cache, CachePolicy, pod_info};
use pinfold_scheduler::extender::Extender;
use pinfold_scheduler::extender::wire::BindingArgs;
use pinfold_scheduler::{ExtenderConfig, Weights};

fuzz_target!(|bytes: &[u8]| {
    let now = std::time::Instant::now();
    let config = ExtenderConfig::default();
    let mut cache = Cache::new(CachePolicy {
        nodes: config.nodes,
        reports: config.reports,
    });
    let node = serde_json::json!({
        "metadata": { "name": "a" }, "status": { "allocatable": { "cpu": "8", "pods": "10" } },
    });
    cache.apply_node(parse_node(&node.to_string()).expect("a node"), now);
    // The same bytes as watched objects.
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(node) = parse_node(text) {
            cache.apply_node(node, now);
        }
        if let Ok((name, report)) = parse_report(text, now) {
            cache.apply_report(&name, report, now);
        }
        if let Ok((name, report)) = parse_numa(text, now) {
            cache.apply_numa(&name, report, now);
        }
        if let Ok(pod) = pod_info::parse(text) {
            cache.apply_pod(pod, now);
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
