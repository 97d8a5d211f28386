//! Calls that wait for watch events.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pinfold_apiserver::Store;
use pinfold_daemon::Metrics;
use serde_json::{Value, json, value};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tonic::Request;

use super::EngineServer;
use crate::cache::{Cache, CachePolicy, CacheStore};
use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::engine::wire::{EngineCalls, PreFilterRequest, WirePod};
use crate::metrics;

const HOUR: Duration = Duration::from_secs(3600);

/// A server, and the stores of its reflectors: of nodes, pods, reports and Numatopologies.
fn server() -> (EngineServer, [CacheStore; 4]) {
    let EngineConfig { nodes, reports, .. } = EngineConfig::default();
    let cache = Arc::new(Mutex::new(Cache::new(CachePolicy { nodes, reports })));
    let metrics: Arc<Metrics> = Arc::new(metrics::registry());
    let stores = CacheStore::all(&cache, &metrics);
    let engine = Engine::new(cache, EngineConfig::default().weights);
    (EngineServer::new(engine, Arc::default(), metrics), stores)
}

#[test]
fn a_call_waits_until_the_pods_that_kube_scheduler_has_seen_have_arrived() {
    let (server, [mut nodes, mut pods, ..]) = server();
    Runtime::new().expect("a runtime").block_on(async {
        pods.record_version("41");
        server.catch_up(41, HOUR).await;
        server.catch_up(0, HOUR).await;
        let mut waiting = pin!(server.catch_up(42, HOUR));
        nodes.record_version("50");
        pods.record_version("not a number");
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, &mut waiting).await.is_err());
        pods.record_version("43");
        waiting.await;
    });
}

#[test]
fn a_version_that_no_watch_event_brings_is_waited_for_once() {
    let (server, _) = server();
    Runtime::new().expect("a runtime").block_on(async {
        server.catch_up(9, Duration::from_millis(1)).await;
        server.catch_up(9, HOUR).await;
    });
}

/// A list of objects for a store.
fn list(store: &mut CacheStore, objects: &[Value]) {
    let parsed = objects.iter().filter_map(|object| {
        let raw = value::to_raw_value(object).expect("JSON");
        store.parse(&raw)
    });
    let parsed = parsed.collect();
    store.replace(parsed);
}

/// A Guaranteed pod.
fn pod(cpus: u32) -> Value {
    let amounts = json!({ "cpu": cpus.to_string(), "memory": "1Gi" });
    json!({
        "metadata": { "name": "p", "namespace": "n", "uid": format!("with-{cpus}"), "resourceVersion": "1" },
        "spec": { "containers": [{
            "name": "main", "image": "i", "resources": { "requests": amounts, "limits": amounts },
        }]},
    })
}

fn asked(cpus: u32, nominated_node: &str) -> Request<PreFilterRequest> {
    Request::new(PreFilterRequest {
        scheduler: 1,
        pod: Some(WirePod {
            uid: format!("with-{cpus}"),
            resource_version: "1".to_owned(),
            json: Vec::new(),
        }),
        nodes_generation: 0,
        pods_version: 42,
        nominated_node: nominated_node.to_owned(),
    })
}

#[test]
fn pods_that_no_node_takes_wait_for_the_pods_that_kube_scheduler_has_seen_and_others_do_not() {
    let connected = Instant::now();
    let (server, [mut nodes, mut pods, mut reports, mut numas]) = server();
    let server = Arc::new(server);
    server.session.connect(1, connected);
    let amounts = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
    list(
        &mut nodes,
        &[json!({
            "metadata": { "name": "a", "labels": { "pinfold.dev/dialect": "unknown" } },
            "status": { "allocatable": amounts },
        })],
    );
    list(&mut reports, &[]);
    list(&mut numas, &[]);
    list(&mut pods, &[pod(2), pod(5)]);
    pods.record_version("41");
    Runtime::new().expect("a runtime").block_on(async {
        // Polled once.
        let now = Duration::ZERO;
        for nominated in ["", "a"] {
            let reply = timeout(now, server.pre_filter(asked(2, nominated))).await;
            let reply = reply.expect("no wait").expect("a reply").into_inner();
            assert_eq!(reply.fits, [1], "{nominated}");
        }
        let mut wide = pin!(server.pre_filter(asked(5, "")));
        let mut elsewhere = pin!(server.pre_filter(asked(2, "b")));
        assert!(timeout(now, &mut wide).await.is_err());
        assert!(timeout(now, &mut elsewhere).await.is_err());
        pods.record_version("42");
        let reply = wide.await.expect("a reply").into_inner();
        assert_eq!(reply.fits, [0]);
        let reply = elsewhere.await.expect("a reply").into_inner();
        assert_eq!(reply.fits, [1]);
    });
}
