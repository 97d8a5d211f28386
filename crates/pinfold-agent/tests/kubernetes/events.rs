//! Events about pods.

use std::sync::Mutex;

use pinfold_agent::kubernetes::{MAX_MESSAGE, Warning};
use serde_json::json;

use crate::server::{Answer, Server, status};
use crate::{eventually, link, quick};

const PATH: &str = "/api/v1/namespaces/default/events";

fn warning(pod: &str, message: &str) -> Warning {
    Warning {
        namespace: "default".to_owned(),
        name: pod.to_owned(),
        uid: "uid".into(),
        reason: "TopologyAffinityError".to_owned(),
        message: message.to_owned(),
    }
}

/// A server that takes events and does not speak of pods.
fn server() -> Server {
    Server::start(|asked| match asked.path.starts_with(PATH) {
        true => Answer::Json(201, json!({})),
        false => Answer::Never,
    })
}

#[test]
fn a_warning_becomes_an_event_of_the_pod_that_fits_the_server() {
    let server = server();
    let (link, _) = link(&server, quick());
    let name = format!("{}-.", "p".repeat(252));
    link.events().warn(warning(&name, &"ä".repeat(2000)));
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
fn the_same_warning_again_raises_the_count_of_the_same_event() {
    let server = server();
    let (link, _) = link(&server, quick());
    link.events().warn(warning("a", "no room"));
    eventually("it is sent", || link.counts().events_sent.get() == 1);
    for _ in 0..4 {
        link.events().warn(warning("a", "no room"));
    }
    link.events().warn(warning("a", "still no room"));
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
    let name = |asked: &crate::server::Asked| {
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
fn a_server_in_trouble_is_tried_again_and_a_rejection_is_not() {
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
            1 | 2 => status(500, "away"),
            _ => Answer::Json(201, json!({})),
        }
    });
    let (link, _) = link(&server, quick());
    link.events().warn(warning("a", "no room"));
    eventually("it is sent in the end", || {
        link.counts().events_sent.get() == 1
    });
    assert_eq!(server.count("POST", PATH), 3);
    let gone = Warning {
        namespace: "gone".to_owned(),
        ..warning("a", "no room")
    };
    link.events().warn(gone);
    eventually("it is dropped", || link.counts().events_dropped.get() == 1);
    assert_eq!(server.count("POST", "/api/v1/namespaces/gone"), 1);
}

#[test]
fn an_event_that_the_server_forgot_is_written_anew() {
    let server =
        Server::start(
            |asked| match (asked.path.contains("/events"), asked.method.as_str()) {
                (true, "PATCH") => status(404, "not found"),
                (true, _) => Answer::Json(201, json!({})),
                (false, _) => Answer::Never,
            },
        );
    let (link, _) = link(&server, quick());
    link.events().warn(warning("a", "no room"));
    eventually("it is sent", || link.counts().events_sent.get() == 1);
    link.events().warn(warning("a", "no room"));
    eventually("it is sent again", || server.count("POST", PATH) == 2);
}

#[test]
fn more_warnings_than_anybody_reads_are_dropped_and_counted() {
    let server = Server::start(|_| Answer::Never);
    let (link, _) = link(&server, quick());
    for i in 0..1000 {
        link.events().warn(warning("a", &format!("number {i}")));
    }
    eventually("most are dropped", || {
        link.counts().events_dropped.get() >= 400
    });
}
