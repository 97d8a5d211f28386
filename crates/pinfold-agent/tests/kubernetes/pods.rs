//! Following the pods of the node.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use pinfold_agent::kubernetes::Remark;
use pinfold_core::name::PodUid;
use serde_json::{Value, json};

use crate::server::{Answer, Server, status};
use crate::{eventually, link, quick, remarked};

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

/// Watches that the test holds in its hand, one after the other.
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

const SHORT: Duration = Duration::from_millis(1);

#[test]
fn pods_are_listed_in_pages_then_followed_and_forgotten() {
    let (send, receive) = watches(1);
    let server = Server::start(move |asked| match asked.query.as_str() {
        query if query.contains("watch=1") => next(&receive),
        query if query.ends_with("continue=") => listed("10", &[pod("a", "uid-a", "3")], "more/&="),
        _ => listed("10", &[pod("b", "uid-b", "4")], ""),
    });
    let (link, _) = link(&server, quick());
    let pods = link.pods();
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
    let a = pods.get(&PodUid::from("uid-a"), Duration::ZERO).unwrap();
    assert_eq!(a.meta.labels["koordinator.sh/qosClass"], "LSR");
    assert_eq!(a.meta.annotations["note"], "\u{7f}\u{feff}");
    assert_eq!(a.pod.containers.len(), 1);
    assert!(a.meta.rest.iter().all(|(key, _)| key != "managedFields"));

    send[0]
        .send(event("ADDED", &pod("c", "uid-c", "11")))
        .unwrap();
    eventually("a new pod is heard of", || {
        pods.get(&"uid-c".into(), SHORT).is_some()
    });
    let mut changed = pod("c", "uid-c", "12");
    changed["metadata"]["annotations"] = json!({ "cpuset": "0-1" });
    send[0].send(event("MODIFIED", &changed)).unwrap();
    eventually("its new annotation is known", || {
        let c = pods.get(&"uid-c".into(), SHORT);
        c.is_some_and(|c| c.meta.annotations.contains_key("cpuset"))
    });
    send[0]
        .send(event("DELETED", &pod("a", "uid-a", "13")))
        .unwrap();
    eventually("a deleted pod is forgotten", || {
        pods.get(&"uid-a".into(), SHORT).is_none()
    });
}

#[test]
fn a_lost_watch_goes_on_from_the_last_version_that_was_heard_of() {
    let (mut send, receive) = watches(3);
    let server = Server::start(move |asked| match asked.query.contains("watch=1") {
        true => next(&receive),
        false => listed("10", &[], ""),
    });
    let (link, _) = link(&server, quick());
    send[0]
        .send(event("ADDED", &pod("a", "uid-a", "11")))
        .unwrap();
    send[0].send(bookmark("20")).unwrap();
    eventually("the pod is heard of", || {
        link.pods().get(&"uid-a".into(), SHORT).is_some()
    });
    // The connection ends, with half of a line.
    drop(send.remove(0));
    eventually("the next watch begins", || {
        versions_watched(&server).len() == 2
    });
    send[0]
        .send(event("ADDED", &pod("b", "uid-b", "21")))
        .unwrap();
    eventually("nothing is missed", || {
        link.pods().get(&"uid-b".into(), SHORT).is_some()
    });
    drop(send.remove(0));
    eventually("and once more", || versions_watched(&server).len() == 3);
    assert_eq!(versions_watched(&server), ["10", "20", "21"]);
    assert_eq!(link.counts().lists.get(), 1);
    assert!(link.pods().get(&"uid-a".into(), SHORT).is_some());
}

#[test]
fn a_history_that_is_gone_is_listed_anew_and_pods_that_went_meanwhile_are_forgotten() {
    for in_stream in [false, true] {
        let (mut send, receive) = watches(1);
        let lists = Mutex::new(0);
        let server = Server::start(move |asked| {
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
        let (link, _) = link(&server, quick());
        let gone = json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410 } });
        if in_stream {
            send.remove(0).send(gone.to_string()).unwrap();
        }
        eventually("what is there now is known", || {
            link.pods().get(&"uid-b".into(), SHORT).is_some()
        });
        assert!(link.pods().get(&"uid-a".into(), SHORT).is_none());
        eventually("it is followed", || {
            versions_watched(&server).last().is_some_and(|v| v == "30")
        });
    }
}

#[test]
fn a_list_that_expires_between_two_pages_begins_again() {
    let pages = Mutex::new(0);
    let server = Server::start(move |asked| {
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
    let (link, _) = link(&server, quick());
    eventually("the new list is known", || link.pods().all().is_some());
    assert!(link.pods().get(&"uid-new".into(), SHORT).is_some());
    assert!(link.pods().get(&"uid-old".into(), SHORT).is_none());
}

#[test]
fn a_server_in_trouble_is_asked_again_until_it_answers() {
    let answers = Mutex::new(0);
    let server = Server::start(move |asked| {
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
    let (link, said) = link(&server, quick());
    eventually("the pods are known in the end", || {
        link.pods().get(&"uid-a".into(), SHORT).is_some()
    });
    remarked(&said, "the trouble is told", |remark| {
        remark.to_string().contains("etcd is away")
    });
    let said = said.lock().unwrap();
    let behind = said
        .iter()
        .filter(|remark| matches!(remark, Remark::PodsBehind { .. }));
    assert!(
        behind.count() < 6,
        "a failure that goes on is told once: {said:?}"
    );
}

#[test]
fn nonsense_in_a_watch_leads_back_to_a_list() {
    let lines = [
        "not json",
        "{}",
        "[]",
        r#"{"type":"ERROR","object":{"code":500,"message":"broken"}}"#,
    ];
    let (mut send, receive) = watches(lines.len());
    let server = Server::start(move |asked| match asked.query.contains("watch=1") {
        true => next(&receive),
        false => listed("10", &[pod("a", "uid-a", "3")], ""),
    });
    let (link, _) = link(&server, quick());
    for (i, line) in lines.into_iter().enumerate() {
        send.remove(0).send(line.to_owned()).unwrap();
        let lists = u64::try_from(i).unwrap() + 2;
        eventually(line, || link.counts().lists.get() >= lists);
    }
    assert!(link.pods().get(&"uid-a".into(), SHORT).is_some());
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let server = Server::start(|_| Answer::Flood);
    let (link, said) = link(&server, quick());
    remarked(&said, "it is told", |remark| {
        remark.to_string().contains("expected at most")
    });
    assert!(link.pods().all().is_none());
}

#[test]
fn a_pod_that_makes_no_sense_is_passed_over_with_a_remark() {
    let mut odd = pod("odd", "uid-odd", "4");
    odd["spec"]["containers"] = 7.into();
    let items = [
        odd,
        json!(null),
        json!({ "metadata": { "uid": [] } }),
        pod("a", "uid-a", "3"),
    ];
    let server = Server::start(move |asked| match asked.query.contains("watch=1") {
        true => Answer::Never,
        false => listed("10", &items, ""),
    });
    let (link, said) = link(&server, quick());
    eventually("the other one is known", || {
        link.pods().get(&"uid-a".into(), SHORT).is_some()
    });
    assert_eq!(link.pods().all().unwrap().len(), 1);
    remarked(&said, "it is told", |remark| {
        remark.to_string().contains("default/odd")
    });
}

#[test]
fn a_pod_from_a_file_of_the_kubelet_is_known_by_the_kubelets_id() {
    let mut mirror = pod("etcd", "uid-in-the-cluster", "3");
    mirror["metadata"]["annotations"] =
        json!({ "kubernetes.io/config.mirror": "hash-of-the-file" });
    let deleted = event("DELETED", &mirror);
    let (send, receive) = watches(1);
    let server = Server::start(move |asked| match asked.query.contains("watch=1") {
        true => next(&receive),
        false => listed("10", &[mirror.clone()], ""),
    });
    let (link, _) = link(&server, quick());
    eventually("it is known", || {
        link.pods().get(&"hash-of-the-file".into(), SHORT).is_some()
    });
    assert!(
        link.pods()
            .get(&"uid-in-the-cluster".into(), SHORT)
            .is_none()
    );
    send[0].send(deleted).unwrap();
    eventually("and forgotten", || {
        link.pods().get(&"hash-of-the-file".into(), SHORT).is_none()
    });
}

#[test]
fn whoever_waits_for_a_pod_hears_of_it_when_it_comes_and_gives_up_when_it_does_not() {
    let (send, receive) = watches(1);
    let server = Server::start(move |asked| match asked.query.contains("watch=1") {
        true => next(&receive),
        false => listed("10", &[], ""),
    });
    let (link, _) = link(&server, quick());
    assert!(
        link.pods()
            .get(&"uid-a".into(), Duration::from_secs(3600))
            .is_none()
    );
    let pods = link.pods().clone();
    let waiting = std::thread::spawn(move || {
        let mut tries = (0..120).map(|_| pods.get(&"uid-a".into(), Duration::from_secs(3600)));
        tries.find_map(|pod| pod)
    });
    send[0]
        .send(event("ADDED", &pod("a", "uid-a", "11")))
        .unwrap();
    assert_eq!(waiting.join().unwrap().unwrap().meta.name, "a");
}
