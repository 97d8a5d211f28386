//! Calls of the plugin of kube-scheduler: every pod is evaluated or rejected with a message, whatever was watched before.
#![no_main]

use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use pinfold_scheduler::cache::node::{parse_node, parse_numa, parse_report};
use pinfold_scheduler::cache::{Cache, CachePolicy, pod_info};
use pinfold_scheduler::engine::Engine;
use pinfold_scheduler::engine::wire::WirePod;
use pinfold_scheduler::{EngineConfig, Weights};

fuzz_target!(|bytes: &[u8]| {
    let now = std::time::Instant::now();
    let config = EngineConfig::default();
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
    let engine = Engine::new(Arc::new(Mutex::new(cache)), Weights::default());
    let pod = WirePod {
        uid: "u".to_owned(),
        resource_version: String::new(),
        json: bytes.to_vec(),
    };
    match engine.pod_info(Some(&pod)) {
        Ok(Some(info)) => {
            let answer = engine.cache().pre_filter(&info, &Weights::default());
            let nodes = answer.fitting.names.names.len();
            let rejected: usize = answer.rejections.iter().map(|group| group.nodes.count()).sum();
            assert_eq!(answer.scores.len() + rejected, nodes, "every node has a verdict");
            if engine.reserve(&info, &"a".into(), now).is_ok() {
                engine.unreserve(info.uid(), false, now);
            }
        }
        Ok(None) => assert!(bytes.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
