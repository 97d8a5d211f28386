//! Kubernetes events about pods.

use std::sync::Mutex;

use pinfold_agent::kubernetes::{MAX_MESSAGE, Warning};
use serde_json::json;

use super::server::{Answer, Server, status};
use super::{connect, eventually, quick};

const PATH: &str = "/api/v1/namespaces/default/events";

fn warning(pod: &str, message: &str) -> Warning {
    Warning {
        kind: "Pod",
        namespace: "default".to_owned(),
        name: pod.to_owned(),
        uid: "uid".into(),
        reason: "TopologyAffinityError".to_owned(),
        message: message.to_owned(),
    }
}

/// A server that accepts events and never responds to other requests.
fn server() -> Server {
    Server::start(|asked| match asked.path.starts_with(PATH) {
        true => Answer::Json(201, json!({})),
        false => Answer::Never,
    })
}

#[test]
fn a_warning_becomes_a_valid_event_of_the_pod() {
    let server = server();
    let (client, _) = connect(&server, quick());
    let name = format!("{}-.", "p".repeat(252));
    client.events().warn(warning(&name, &"ä".repeat(2000)));
    eventually("it is sent", || server.count("POST", PATH) == 1);
    let asked = server.asked();
    let event = &asked
        .iter()
        .find(|asked| asked.method == "POST")
        .unwrap()
        .body;
    assert!(event["message"].as_str().unwrap().len() <= MAX_MESSAGE);
    assert!(event["metadata"]["name"].as_str().unwrap().len() <= 253);
    assert_eq!(event["involvedObject"]["uid"], "uid");
    assert_eq!(event["involvedObject"]["kind"], "Pod");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["reason"], "TopologyAffinityError");
    assert_eq!(
        event["source"],
        json!({ "component": "pinfold-agent", "host": "worker-1" })
    );
    assert_eq!(
        event["lastTimestamp"].as_str().unwrap().len(),
        "2026-01-01T00:00:00Z".len()
    );
}

#[test]
fn a_repeated_warning_increments_the_count_of_the_event() {
    let server = server();
    let (client, _) = connect(&server, quick());
    client.events().warn(warning("a", "no room"));
    eventually("it is sent", || client.counts().events_sent.get() == 1);
    for _ in 0..4 {
        client.events().warn(warning("a", "no room"));
    }
    client.events().warn(warning("a", "still no room"));
    let last = || {
        server
            .asked()
            .iter()
            .rfind(|asked| asked.method == "PATCH")
            .cloned()
    };
    eventually("the count is right", || {
        last().is_some_and(|asked| asked.body["count"] == 5)
    });
    eventually("another message is another event", || {
        server.count("POST", PATH) == 2
    });
    let name = |asked: &super::server::Asked| {
        asked.body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let first = server
        .asked()
        .into_iter()
        .find(|asked| asked.method == "POST")
        .unwrap();
    assert_eq!(last().unwrap().path, format!("{PATH}/{}", name(&first)));
}

#[test]
fn a_server_error_is_retried_and_a_rejection_is_not() {
    let answers = Mutex::new(0);
    let server = Server::start(move |asked| {
        if !asked.path.contains("/events") {
            return Answer::Never;
        }
        if asked.path.contains("/gone/") {
            return status(403, "the namespace is being terminated");
        }
        let mut answers = answers.lock().unwrap();
        *answers += 1;
        match *answers {
            1 | 2 => status(500, "unavailable"),
            _ => Answer::Json(201, json!({})),
        }
    });
    let (client, _) = connect(&server, quick());
    client.events().warn(warning("a", "no room"));
    eventually("it is sent", || client.counts().events_sent.get() == 1);
    assert_eq!(server.count("POST", PATH), 3);
    let gone = Warning {
        kind: "Pod",
        namespace: "gone".to_owned(),
        ..warning("a", "no room")
    };
    client.events().warn(gone);
    eventually("it is dropped", || {
        client.counts().events_dropped.get() == 1
    });
    assert_eq!(server.count("POST", "/api/v1/namespaces/gone"), 1);
}

#[test]
fn an_event_that_the_server_has_deleted_is_created_again() {
    let server =
        Server::start(
            |asked| match (asked.path.contains("/events"), asked.method.as_str()) {
                (true, "PATCH") => status(404, "not found"),
                (true, _) => Answer::Json(201, json!({})),
                (false, _) => Answer::Never,
            },
        );
    let (client, _) = connect(&server, quick());
    client.events().warn(warning("a", "no room"));
    eventually("it is sent", || client.counts().events_sent.get() == 1);
    client.events().warn(warning("a", "no room"));
    eventually("it is sent again", || server.count("POST", PATH) == 2);
}

#[test]
fn warnings_beyond_the_queue_limit_are_dropped_and_counted() {
    let server = Server::start(|_| Answer::Never);
    let (client, _) = connect(&server, quick());
    for i in 0..1000 {
        client.events().warn(warning("a", &format!("number {i}")));
    }
    eventually("most are dropped", || {
        client.counts().events_dropped.get() >= 400
    });
}
