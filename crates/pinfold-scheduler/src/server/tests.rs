//! Calls that wait for watch events.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_apiserver::Store;
use pinfold_daemon::Metrics;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::EngineServer;
use crate::cache::{Cache, CachePolicy, CacheStore};
use crate::config::EngineConfig;
use crate::engine::Engine;
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
