//! Listing and watching the pods of the node.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use pinfold_agent::kubernetes::SyncEvent;
use pinfold_kube::pod::PodIdentity;
use serde_json::{Value, json};

use super::server::{Answer, Asked, Server, status};
use super::{connect, eventually, logged, quick};

fn pod(name: &str, uid: &str, version: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": uid, "resourceVersion": version,
            "labels": { "koordinator.sh/qosClass": "LSR" },
            "annotations": { "note": "\u{7f}\u{feff}" },
            "managedFields": [{ "manager": "kubelet" }],
        },
        "spec": {
            "nodeName": "worker-1",
            "containers": [{ "name": "main", "image": "i", "resources": { "limits": { "cpu": "2", "memory": "1Gi" } } }],
        },
        "status": { "phase": "Running" },
    })
}

fn identity(uid: &str, name: &str) -> PodIdentity {
    PodIdentity {
        uid: uid.into(),
        name: format!("default/{name}"),
    }
}

fn listed(version: &str, items: &[Value], next: &str) -> Answer {
    let metadata = json!({ "resourceVersion": version, "continue": next });
    Answer::Json(
        200,
        json!({ "kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items }),
    )
}

fn event(kind: &str, object: &Value) -> String {
    let mut object = object.clone();
    object["kind"] = "Pod".into();
    object["apiVersion"] = "v1".into();
    json!({ "type": kind, "object": object }).to_string()
}

fn bookmark(version: &str) -> String {
    event(
        "BOOKMARK",
        &json!({ "metadata": { "resourceVersion": version } }),
    )
}

/// Watch responses that the test sends through channels, one per watch request.
fn watches(count: usize) -> (Vec<Sender<String>>, Mutex<Vec<Receiver<String>>>) {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
    receivers.reverse();
    (senders, Mutex::new(receivers))
}

fn next(watches: &Mutex<Vec<Receiver<String>>>) -> Answer {
    let watch = watches.lock().unwrap().pop();
    watch.map_or(Answer::Never, Answer::Lines)
}

fn versions_watched(server: &Server) -> Vec<String> {
    let asked = server.asked();
    let watched = asked.iter().filter(|asked| asked.query.contains("watch=1"));
    watched
        .map(|asked| {
            asked
                .query
                .rsplit('=')
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

/// A server that has pods and nothing else.
fn server(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Server {
    Server::start_for("/api/v1/pods", answer)
}

const SHORT: Duration = Duration::from_millis(1);

#[test]
fn pods_are_listed_in_pages_and_then_watched() {
    let (send, receive) = watches(1);
    let server = server(move |asked| match asked.query.as_str() {
        query if query.contains("watch=1") => next(&receive),
        query if query.ends_with("continue=") => listed("10", &[pod("a", "uid-a", "3")], "more/&="),
        _ => listed("10", &[pod("b", "uid-b", "4")], ""),
    });
    let (client, _) = connect(&server, quick());
    let pods = client.pods();
    eventually("both pages are known", || {
        pods.all().is_some_and(|all| all.len() == 2)
    });
    assert_eq!(
        server.asked()[1].query.rsplit_once("continue=").unwrap().1,
        "more%2F%26%3D"
    );
    assert!(
        server.asked()[0]
            .query
            .contains("fieldSelector=spec.nodeName%3Dworker-1")
    );
    let a = pods.get(&identity("uid-a", "a"), Duration::ZERO).unwrap();
    assert_eq!(a.meta.labels["koordinator.sh/qosClass"], "LSR");
    assert_eq!(a.meta.annotations["note"], "\u{7f}\u{feff}");
    assert_eq!(a.pod.containers.len(), 1);
    assert!(a.meta.rest.iter().all(|(key, _)| key != "managedFields"));

    send[0]
        .send(event("ADDED", &pod("c", "uid-c", "11")))
        .unwrap();
    eventually("the added pod is in the cache", || {
        pods.get(&identity("uid-c", "c"), SHORT).is_some()
    });
    let mut changed = pod("c", "uid-c", "12");
    changed["metadata"]["annotations"] = json!({ "cpuset": "0-1" });
    send[0].send(event("MODIFIED", &changed)).unwrap();
    eventually("its new annotation is known", || {
        let c = pods.get(&identity("uid-c", "c"), SHORT);
        c.is_some_and(|c| c.meta.annotations.contains_key("cpuset"))
    });
    send[0]
        .send(event("DELETED", &pod("a", "uid-a", "13")))
        .unwrap();
    eventually("the deleted pod is removed", || {
        pods.get(&identity("uid-a", "a"), SHORT).is_none()
    });
}

#[test]
fn a_broken_watch_resumes_from_the_last_resource_version() {
    let (mut send, receive) = watches(3);
    let server = server(move |asked| match asked.query.contains("watch=1") {
        true => next(&receive),
        false => listed("10", &[], ""),
    });
    let (client, _) = connect(&server, quick());
    send[0]
        .send(event("ADDED", &pod("a", "uid-a", "11")))
        .unwrap();
    send[0].send(bookmark("20")).unwrap();
    eventually("the pod is in the cache", || {
        client.pods().get(&identity("uid-a", "a"), SHORT).is_some()
    });
    // The connection ends in the middle of a line.
    drop(send.remove(0));
    eventually("the next watch begins", || {
        versions_watched(&server).len() == 2
    });
    send[0]
        .send(event("ADDED", &pod("b", "uid-b", "21")))
        .unwrap();
    eventually("nothing is missed", || {
        client.pods().get(&identity("uid-b", "b"), SHORT).is_some()
    });
    drop(send.remove(0));
    eventually("and once more", || versions_watched(&server).len() == 3);
    assert_eq!(versions_watched(&server), ["10", "20", "21"]);
    assert_eq!(client.counts().lists.get(), 1);
    assert!(client.pods().get(&identity("uid-a", "a"), SHORT).is_some());
}

#[test]
fn an_expired_resource_version_leads_to_a_new_list_that_removes_deleted_pods() {
    for in_stream in [false, true] {
        let (mut send, receive) = watches(1);
        let lists = Mutex::new(0);
        let server = server(move |asked| {
            if asked.query.contains("resourceVersion=10") {
                return match in_stream {
                    true => next(&receive),
                    false => status(410, "too old resource version"),
                };
            }
            if asked.query.contains("watch=1") {
                return Answer::Never;
            }
            let mut lists = lists.lock().unwrap();
            *lists += 1;
            match *lists {
                1 => listed("10", &[pod("a", "uid-a", "3")], ""),
                _ => listed("30", &[pod("b", "uid-b", "29")], ""),
            }
        });
        let (client, _) = connect(&server, quick());
        let gone = json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410 } });
        if in_stream {
            send.remove(0).send(gone.to_string()).unwrap();
        }
        eventually("the new list is in the cache", || {
            client.pods().get(&identity("uid-b", "b"), SHORT).is_some()
        });
        assert!(client.pods().get(&identity("uid-a", "a"), SHORT).is_none());
        eventually("the watch starts from the new list", || {
            versions_watched(&server).last().is_some_and(|v| v == "30")
        });
    }
}

#[test]
fn a_list_that_expires_between_two_pages_is_restarted() {
    let pages = Mutex::new(0);
    let server = server(move |asked| {
        if asked.query.contains("watch=1") {
            return Answer::Never;
        }
        let mut pages = pages.lock().unwrap();
        *pages += 1;
        match *pages {
            1 => listed("10", &[pod("old", "uid-old", "3")], "next"),
            2 => status(410, "the continue token is too old"),
            _ => listed("20", &[pod("new", "uid-new", "15")], ""),
        }
    });
    let (client, _) = connect(&server, quick());
    eventually("the new list is known", || client.pods().all().is_some());
    assert!(
        client
            .pods()
            .get(&identity("uid-new", "new"), SHORT)
            .is_some()
    );
    assert!(
        client
            .pods()
            .get(&identity("uid-old", "old"), SHORT)
            .is_none()
    );
}

#[test]
fn a_failed_list_is_retried_until_it_succeeds() {
    let answers = Mutex::new(0);
    let server = server(move |asked| {
        if asked.query.contains("watch=1") {
            return Answer::Never;
        }
        let mut answers = answers.lock().unwrap();
        *answers += 1;
        match *answers {
            1 | 2 => status(500, "etcd is away"),
            3 => Answer::Text(200, "<html>a proxy".to_owned()),
            4 => Answer::Json(200, json!({ "items": 7 })),
            5 => Answer::Json(200, json!({ "items": [] })),
            6 => Answer::Json(200, json!([])),
            _ => listed("10", &[pod("a", "uid-a", "3")], ""),
        }
    });
    let (client, log) = connect(&server, quick());
    eventually("the pods are known in the end", || {
        client.pods().get(&identity("uid-a", "a"), SHORT).is_some()
    });
    logged(&log, "the error is logged", |event| {
        event.to_string().contains("etcd is away")
    });
    let log = log.lock().unwrap();
    let behind = log
        .iter()
        .filter(|event| matches!(event, SyncEvent::PodWatchFailed { .. }));
    assert!(
        behind.count() < 6,
        "a repeated failure is logged once: {log:?}"
    );
}

#[test]
fn an_invalid_watch_event_leads_to_a_new_list() {
    let lines = [
        "not json",
        "{}",
        "[]",
        r#"{"type":"ERROR","object":{"code":500,"message":"broken"}}"#,
    ];
    let (mut send, receive) = watches(lines.len());
    let server = server(move |asked| match asked.query.contains("watch=1") {
        true => next(&receive),
        false => listed("10", &[pod("a", "uid-a", "3")], ""),
    });
    let (client, _) = connect(&server, quick());
    for (i, line) in lines.into_iter().enumerate() {
        send.remove(0).send(line.to_owned()).unwrap();
        let lists = u64::try_from(i).unwrap() + 2;
        eventually(line, || client.counts().lists.get() >= lists);
    }
    assert!(client.pods().get(&identity("uid-a", "a"), SHORT).is_some());
}

#[test]
fn an_endless_response_is_aborted() {
    let server = server(|_| Answer::Flood);
    let (client, log) = connect(&server, quick());
    logged(&log, "it is logged", |event| {
        event.to_string().contains("expected at most")
    });
    assert!(client.pods().all().is_none());
}

#[test]
fn an_invalid_pod_is_skipped_and_logged() {
    let mut odd = pod("odd", "uid-odd", "4");
    odd["spec"]["containers"] = 7.into();
    let items = [
        odd,
        json!(null),
        json!({ "metadata": { "uid": [] } }),
        pod("a", "uid-a", "3"),
    ];
    let server = server(move |asked| match asked.query.contains("watch=1") {
        true => Answer::Never,
        false => listed("10", &items, ""),
    });
    let (client, log) = connect(&server, quick());
    eventually("the other one is known", || {
        client.pods().get(&identity("uid-a", "a"), SHORT).is_some()
    });
    assert_eq!(client.pods().all().unwrap().len(), 1);
    logged(&log, "it is logged", |event| {
        event.to_string().contains("default/odd")
    });
}

#[test]
fn a_mirror_pod_is_found_by_the_uid_of_its_static_pod() {
    let mut mirror = pod("etcd", "uid-in-the-cluster", "3");
    mirror["metadata"]["annotations"] =
        json!({ "kubernetes.io/config.mirror": "hash-of-the-file" });
    let deleted = event("DELETED", &mirror);
    let (send, receive) = watches(1);
    let server = server(move |asked| match asked.query.contains("watch=1") {
        true => next(&receive),
        false => listed("10", &[mirror.clone()], ""),
    });
    let (client, _) = connect(&server, quick());
    eventually("it is known", || {
        client
            .pods()
            .get(&identity("hash-of-the-file", "etcd"), SHORT)
            .is_some()
    });
    assert!(
        client
            .pods()
            .get(&identity("uid-in-the-cluster", "etcd"), SHORT)
            .is_none()
    );
    send[0].send(deleted).unwrap();
    eventually("and forgotten", || {
        client
            .pods()
            .get(&identity("hash-of-the-file", "etcd"), SHORT)
            .is_none()
    });
}

#[test]
fn a_pod_that_claims_the_uid_of_a_static_pod_is_not_found_in_its_place() {
    let mirror = |name: &str, uid: &str| {
        let mut pod = pod(name, uid, "3");
        pod["metadata"]["annotations"] =
            json!({ "kubernetes.io/config.mirror": "hash-of-the-file" });
        pod
    };
    let mut real = mirror("etcd", "uid-etcd");
    real["status"]["containerStatuses"] =
        json!([{ "name": "main", "containerID": "containerd://c0ffee" }]);
    let other = mirror("a-first", "uid-other");
    let deleted = event("DELETED", &other);
    let (send, receive) = watches(1);
    let server = server(move |asked| match asked.query.contains("watch=1") {
        true => next(&receive),
        false => listed("10", &[real.clone(), other.clone()], ""),
    });
    let (client, _) = connect(&server, quick());
    let get = |name: &str| {
        let found = client
            .pods()
            .get(&identity("hash-of-the-file", name), SHORT);
        found.map(|pod| pod.meta.name.clone())
    };
    eventually("both are known", || get("a-first").is_some());
    assert_eq!(get("etcd").as_deref(), Some("etcd"));
    let all = client.pods().all().expect("listed");
    let names: Vec<&str> = all
        .iter()
        .map(|pod| pod.object.meta.name.as_str())
        .collect();
    assert_eq!(names, ["etcd"], "the one that runs");
    send[0].send(deleted).unwrap();
    eventually("the other one is deleted", || get("a-first").is_none());
    assert_eq!(get("etcd").as_deref(), Some("etcd"));
}

#[test]
fn get_waits_for_the_watch_event_of_a_pod_until_its_timeout() {
    let (send, receive) = watches(1);
    let server = server(move |asked| match asked.query.contains("watch=1") {
        true => next(&receive),
        false => listed("10", &[], ""),
    });
    let (client, _) = connect(&server, quick());
    assert!(
        client
            .pods()
            .get(&identity("uid-a", "a"), Duration::from_secs(3600))
            .is_none()
    );
    let pods = client.pods().clone();
    let waiting = std::thread::spawn(move || {
        let mut tries =
            (0..120).map(|_| pods.get(&identity("uid-a", "a"), Duration::from_secs(3600)));
        tries.find_map(|pod| pod)
    });
    send[0]
        .send(event("ADDED", &pod("a", "uid-a", "11")))
        .unwrap();
    assert_eq!(waiting.join().unwrap().unwrap().meta.name, "a");
}
