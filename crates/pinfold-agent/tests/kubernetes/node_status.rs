//! The condition and the startup taint of the Node.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_agent::kubernetes::{
    ApiServerClient, ClientOptions, NodeStatusConfig, Readiness, SyncEvent, Timing,
};
use serde_json::{Value, json};

use super::server::{Answer, Server, status};
use super::{Log, eventually, logged, quick};

const NODE: &str = "/api/v1/nodes/worker-1";
const TAINT: &str = "pinfold.dev/agent-not-ready:NoSchedule";

/// A server with a Node. Patches of its taints need the newest resource version.
fn server(node: Value) -> (Server, Arc<Mutex<Value>>) {
    let node = Arc::new(Mutex::new(node));
    let shared = Arc::clone(&node);
    let server = Server::start(move |asked| {
        let mut node = shared.lock().unwrap();
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", NODE) => Answer::Json(200, node.clone()),
            ("PATCH", "/api/v1/nodes/worker-1/status") => {
                node["status"]["conditions"] = asked.body["status"]["conditions"].clone();
                bump(&mut node);
                Answer::Json(200, node.clone())
            }
            ("PATCH", NODE) => {
                let version = &asked.body["metadata"]["resourceVersion"];
                if *version != node["metadata"]["resourceVersion"] {
                    return status(409, "the object has been modified");
                }
                node["spec"]["taints"] = asked.body["spec"]["taints"].clone();
                bump(&mut node);
                Answer::Json(200, node.clone())
            }
            _ => Answer::Never,
        }
    });
    (server, node)
}

fn bump(node: &mut Value) {
    let version = node["metadata"]["resourceVersion"].as_str().unwrap();
    let next = version.parse::<u64>().unwrap() + 1;
    node["metadata"]["resourceVersion"] = json!(next.to_string());
}

fn connect(
    server: &Server,
    timing: Timing,
    node_status: NodeStatusConfig,
) -> (ApiServerClient, Log) {
    let log = Log::default();
    let sink = Arc::clone(&log);
    let options = ClientOptions {
        timing,
        node_status,
        ..ClientOptions::default()
    };
    let connection = server.connection();
    let client = ApiServerClient::start_with(&connection, "worker-1", options, move |event| {
        sink.lock().unwrap().push(event);
    });
    (client.unwrap(), log)
}

fn readiness(ready: bool, message: &str) -> Readiness {
    Readiness {
        ready,
        reason: if ready {
            "AgentReady"
        } else {
            "RuntimeDisconnected"
        },
        message: message.to_owned(),
    }
}

fn condition() -> NodeStatusConfig {
    NodeStatusConfig {
        condition: true,
        startup_taint: None,
    }
}

const STATUS: &str = "/api/v1/nodes/worker-1/status";
const LONG: Duration = Duration::from_secs(60);

#[test]
fn the_condition_is_patched_on_changes_only_and_keeps_the_time_of_its_transition() {
    let since = "2026-01-01T00:00:00Z";
    let (server, node) = server(json!({
        "metadata": { "resourceVersion": "1" },
        "status": { "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z" },
            { "type": "PinfoldReady", "status": "True", "lastTransitionTime": since },
        ] },
    }));
    let (client, _) = connect(&server, quick(), condition());
    let own = || node.lock().unwrap()["status"]["conditions"][0].clone();
    let status = client.node_status().unwrap();
    for _ in 0..3 {
        status.set(readiness(true, "the agent pins containers"));
        status.wait_written(LONG);
    }
    assert_eq!(
        server.count("PATCH", STATUS),
        1,
        "an equal one is not written"
    );
    assert_eq!(own()["type"], "PinfoldReady");
    assert_eq!(own()["status"], "True");
    assert_eq!(own()["reason"], "AgentReady");
    assert_eq!(
        own()["lastTransitionTime"],
        since,
        "a restart is no transition"
    );
    assert_ne!(own()["lastHeartbeatTime"], since);
    status.set(readiness(false, "no runtime"));
    status.wait_written(LONG);
    let lost = own();
    assert_eq!(lost["status"], "False");
    assert_eq!(lost["reason"], "RuntimeDisconnected");
    assert_ne!(lost["lastTransitionTime"], since);
    status.set(readiness(false, "no runtime, and the disk is full"));
    status.wait_written(LONG);
    assert_eq!(own()["message"], "no runtime, and the disk is full");
    assert_eq!(own()["lastTransitionTime"], lost["lastTransitionTime"]);
    assert_eq!(server.count("PATCH", STATUS), 3);
    let asked = server.asked();
    let patch = asked.iter().find(|asked| asked.method == "PATCH").unwrap();
    // Other conditions of the Node are merged by their type.
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    assert_eq!(server.count("GET", NODE), 1);
}

#[test]
fn an_unchanged_condition_is_written_again_at_the_heartbeat() {
    let (server, _) = server(json!({ "metadata": { "resourceVersion": "1" } }));
    let timing = Timing {
        heartbeat: Duration::from_millis(5),
        ..quick()
    };
    let (client, _) = connect(&server, timing, condition());
    client.node_status().unwrap().set(readiness(true, "ready"));
    eventually("three heartbeats", || server.count("PATCH", STATUS) >= 3);
}

#[test]
fn a_condition_that_may_not_be_written_is_logged_once_and_tried_again() {
    let failed = Arc::new(Mutex::new(0));
    let tries = Arc::clone(&failed);
    let server = Server::start(move |asked| match asked.path.starts_with(NODE) {
        true => {
            *tries.lock().unwrap() += 1;
            status(403, "forbidden")
        }
        false => Answer::Never,
    });
    let (client, log) = connect(&server, quick(), condition());
    client.node_status().unwrap().set(readiness(true, "ready"));
    eventually("it is tried again", || *failed.lock().unwrap() >= 3);
    let log = log.lock().unwrap();
    let refused = log.iter().filter(|event| {
        matches!(event, SyncEvent::PublishFailed { resource, .. } if resource == "nodes/status")
    });
    assert_eq!(refused.count(), 1);
}

#[test]
fn the_startup_taint_is_removed_when_the_agent_is_ready_and_others_stay() {
    let other = json!({ "key": "dedicated", "value": "db", "effect": "NoSchedule" });
    let same_key = json!({ "key": "pinfold.dev/agent-not-ready", "effect": "NoExecute" });
    let own = json!({ "key": "pinfold.dev/agent-not-ready", "effect": "NoSchedule" });
    let (server, node) = server(json!({
        "metadata": { "resourceVersion": "1" },
        "spec": { "taints": [other, own, same_key] },
    }));
    let config = NodeStatusConfig {
        condition: true,
        startup_taint: Some(TAINT.parse().unwrap()),
    };
    let (client, log) = connect(&server, quick(), config);
    let status = client.node_status().unwrap();
    status.set(readiness(false, "no runtime"));
    status.wait_written(LONG);
    let taints = || node.lock().unwrap()["spec"]["taints"].clone();
    assert_eq!(taints().as_array().unwrap().len(), 3, "not ready yet");
    status.set(readiness(true, "ready"));
    status.wait_written(LONG);
    assert_eq!(taints(), json!([other, same_key]));
    logged(
        &log,
        "the removal is logged",
        |event| matches!(event, SyncEvent::TaintRemoved { taint } if taint == TAINT),
    );
    status.set(readiness(false, "lost"));
    status.set(readiness(true, "ready again"));
    status.wait_written(LONG);
    assert_eq!(
        server.count("PATCH", NODE) - server.count("PATCH", STATUS),
        1
    );
}

#[test]
fn without_options_nothing_is_written_to_the_node() {
    let (server, _) = server(json!({ "metadata": { "resourceVersion": "1" } }));
    let (client, _) = connect(&server, quick(), NodeStatusConfig::default());
    assert!(client.node_status().is_none());
    assert!(TAINT.parse::<pinfold_agent::kubernetes::Taint>().is_ok());
    for wrong in [
        "",
        "key",
        "key:Now",
        ":NoSchedule",
        "a b:NoSchedule",
        "k=v:NoSchedule",
    ] {
        assert!(
            wrong.parse::<pinfold_agent::kubernetes::Taint>().is_err(),
            "{wrong}"
        );
    }
}
