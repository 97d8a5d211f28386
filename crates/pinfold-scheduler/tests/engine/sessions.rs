//! Sessions: one kube-scheduler at a time, and what remains of the one before.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use pinfold_daemon::http::DaemonStatus;
use pinfold_scheduler::cache::CachePolicy;
use pinfold_scheduler::engine::Engine;
use pinfold_scheduler::engine::wire::{ConnectRequest, VERSION};
use pinfold_scheduler::server::EngineServer;
use pinfold_scheduler::{Cache, EngineConfig, metrics};
use tonic::Code;

use super::cluster::{RunningEngine, objects, pod};

#[test]
fn calls_need_a_session_of_the_same_version_and_the_latest_one_is_served() {
    let engine = RunningEngine::start(&objects(&["a"]));
    let small = pod("small", 1);
    let mut first = engine.scheduler(1);
    let early = first.pre_filter(&small).unwrap_err();
    assert_eq!(early.code(), Code::FailedPrecondition, "{early}");
    let request = ConnectRequest {
        version: VERSION + 1,
        scheduler: 1,
        reservations: Vec::new(),
        dialects: None,
    };
    let newer = first.runtime.block_on(first.calls.connect(request));
    let message = newer.unwrap_err().message().to_owned();
    assert!(message.contains("use both of one release"), "{message}");
    first.connect_with(&[]);
    assert_eq!(first.fitting(&small), ["a"]);
    let mut second = engine.connected(2);
    assert_eq!(second.fitting(&small), ["a"]);
    let replaced = first.pre_filter(&small).unwrap_err();
    assert_eq!(replaced.code(), Code::Aborted, "{replaced}");
}

#[test]
fn a_new_session_starts_with_a_new_list_of_pods() {
    let shared = objects(&["a"]);
    let engine = RunningEngine::start(&shared);
    // Bound by another scheduler: the watch of the fake API server has no events.
    let mut bound = pod("bound", 4);
    bound["spec"]["nodeName"] = "a".into();
    shared.lock().unwrap().pods.push(bound);
    let mut scheduler = engine.connected(1);
    scheduler.reserve(&pod("first", 4), "a").unwrap();
    assert_eq!(scheduler.fitting(&pod("second", 1)), Vec::<String>::new());
}

#[test]
fn reservations_of_an_earlier_scheduler_stay_and_its_pods_may_only_go_to_the_same_node() {
    let shared = objects(&["a", "b"]);
    shared.lock().unwrap().pods.push(pod("first", 4));
    let engine = RunningEngine::start(&shared);
    let mut before = engine.connected(1);
    assert_eq!(before.reserve(&pod("first", 4), "a").unwrap().rejection, "");
    let mut after = engine.connected(2);
    assert_eq!(after.fitting(&pod("first", 4)), ["a"]);
    assert_eq!(after.reserve(&pod("first", 4), "a").unwrap().rejection, "");
}

#[test]
fn a_session_that_starts_again_has_the_reservations_that_it_names_and_no_others() {
    let shared = objects(&["a"]);
    for name in ["kept", "lost"] {
        shared.lock().unwrap().pods.push(pod(name, 4));
    }
    let engine = RunningEngine::start(&shared);
    let mut scheduler = engine.connected(1);
    for name in ["kept", "lost"] {
        assert_eq!(scheduler.reserve(&pod(name, 4), "a").unwrap().rejection, "");
    }
    assert_eq!(scheduler.fitting(&pod("third", 4)), Vec::<String>::new());
    scheduler.connect_with(&[(&pod("kept", 4), "a")]);
    assert_eq!(scheduler.fitting(&pod("third", 4)), ["a"]);
    scheduler.reserve(&pod("third", 4), "a").unwrap();
    assert_eq!(scheduler.fitting(&pod("fourth", 1)), Vec::<String>::new());
    // After a restart of the engine the scheduler names them all.
    drop(scheduler);
    let restarted = RunningEngine::start(&shared);
    let mut scheduler = restarted.scheduler(1);
    scheduler.connect_with(&[(&pod("kept", 4), "a"), (&pod("lost", 4), "a")]);
    assert_eq!(scheduler.fitting(&pod("third", 1)), Vec::<String>::new());
}

#[test]
fn a_bound_pod_keeps_its_place_if_a_session_starts_again_before_the_watch_shows_it() {
    let engine = RunningEngine::start(&objects(&["a"]));
    let mut scheduler = engine.connected(1);
    for name in ["bound", "other"] {
        assert_eq!(scheduler.reserve(&pod(name, 4), "a").unwrap().rejection, "");
    }
    scheduler.connect_naming(&[("uid-bound", "a"), ("uid-deleted", "a")]);
    scheduler.reserve(&pod("third", 4), "a").unwrap();
    assert_eq!(scheduler.fitting(&pod("fourth", 1)), Vec::<String>::new());
}

#[test]
fn after_a_restart_a_reservation_without_the_pods_object_is_that_of_the_listed_pod() {
    let shared = objects(&["a"]);
    shared.lock().unwrap().pods.push(pod("listed", 4));
    let engine = RunningEngine::start(&shared);
    let mut scheduler = engine.scheduler(1);
    scheduler.connect_naming(&[("uid-listed", "a")]);
    scheduler.reserve(&pod("second", 4), "a").unwrap();
    assert_eq!(scheduler.fitting(&pod("third", 1)), Vec::<String>::new());
}

#[test]
fn a_reservation_whose_answer_was_lost_does_not_keep_its_pod_from_another_node() {
    let engine = RunningEngine::start(&objects(&["a", "b"]));
    let mut scheduler = engine.connected(1);
    for node in ["a", "b"] {
        let reply = scheduler.reserve(&pod("first", 4), node).unwrap();
        assert_eq!(reply.rejection, "", "{node}");
    }
    for name in ["second", "third"] {
        let reply = scheduler.reserve(&pod(name, 4), "a").unwrap();
        assert_eq!(reply.rejection, "", "{name}");
    }
}

#[test]
fn a_readiness_probe_never_waits_for_the_cache() {
    let config = EngineConfig::default();
    let cache = Arc::new(Mutex::new(Cache::new(CachePolicy {
        nodes: config.nodes,
        reports: config.reports,
    })));
    let engine = Engine::new(cache.clone(), config.weights);
    let server = EngineServer::new(engine, Arc::default(), Arc::new(metrics::registry()));
    let _locked = cache.lock().unwrap();
    let (answer, answered) = mpsc::channel();
    thread::spawn(move || answer.send(server.health()));
    let health = answered.recv_timeout(Duration::from_secs(60));
    assert!(!health.unwrap().not_ready.is_empty(), "nothing was listed");
}
