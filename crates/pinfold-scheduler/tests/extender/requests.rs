//! Requests of kube-scheduler, and malformed requests.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::cluster::{Extender, node, objects, pod};

#[test]
fn filter_returns_names_for_names_and_nodes_for_nodes() {
    let extender = Extender::start(&objects(&["a", "b"])).ready();
    let small = extender.filter(&pod("small", 2), &["b", "a"]);
    assert_eq!(small["NodeNames"], json!(["b", "a"]), "{small}");
    assert_eq!(small["Nodes"], Value::Null);
    assert_eq!(small["Error"], "");
    let large = extender.filter(&pod("large", 5), &["a", "b", "c"]);
    assert_eq!(large["NodeNames"], json!([]));
    let reason = "NUMA: cpu: 5 asked, at most 4 free on one NUMA node";
    assert_eq!(large["FailedNodes"]["a"], reason);
    assert_eq!(
        large["FailedNodes"]["b"], reason,
        "equal causes have equal texts"
    );
    assert!(
        large["FailedNodes"]["c"]
            .as_str()
            .is_some_and(|reason| reason.contains("does not know"))
    );
    let mut whole = node("a");
    whole["metadata"]["labels"] = json!({ "kept": "as it was" });
    let args = json!({ "Pod": pod("small", 2), "Nodes": { "items": [whole, node("c")] } });
    let (code, answer) = extender.post("/filter", &args);
    assert_eq!(code, 200);
    assert_eq!(answer["NodeNames"], Value::Null);
    assert_eq!(answer["Nodes"]["items"], json!([whole]));
    assert!(answer["FailedNodes"]["c"].is_string());
}

#[test]
fn scores_are_relative_to_the_worst_node() {
    let extender = Extender::start(&objects(&["a", "b"])).ready();
    let ask = |names: &[&str]| {
        let args = json!({ "Pod": pod("small", 2), "NodeNames": names });
        let (code, scores) = extender.post("/prioritize", &args);
        assert_eq!(code, 200);
        scores.as_array().cloned().unwrap_or_default()
    };
    let scores = ask(&["a", "b", "nowhere"]);
    let hosts: Vec<&Value> = scores.iter().map(|score| &score["Host"]).collect();
    assert_eq!(hosts, ["a", "b"], "the third is unknown");
    for score in &scores {
        let found = score["Score"].as_i64().unwrap_or(-1);
        assert!((1..=10).contains(&found), "{score}");
    }
    assert_eq!(scores[0]["Score"], scores[1]["Score"], "equal nodes");
    assert!(ask(&["a", "b"]).is_empty(), "no difference");
}

#[test]
fn victims_are_returned_by_uid_and_nodes_where_evictions_do_not_help_are_left_out() {
    let extender = Extender::start(&objects(&["a"])).ready();
    let victims = json!({ "Pods": [{ "UID": "uid-x" }], "NumPDBViolations": 1 });
    let args = json!({
        "Pod": pod("small", 2),
        "NodeNameToVictims": null,
        "NodeNameToMetaVictims": { "a": victims, "nowhere": victims },
    });
    let (code, answer) = extender.post("/preempt", &args);
    assert_eq!(code, 200, "{answer}");
    let expected = json!({ "a": { "Pods": [], "NumPDBViolations": 1 } });
    assert_eq!(
        answer["NodeNameToMetaVictims"], expected,
        "the pod fits without evictions"
    );
    let whole = json!({ "Pods": [pod("x", 1)], "NumPDBViolations": 0 });
    let args = json!({ "Pod": pod("large", 5), "NodeNameToVictims": { "a": whole } });
    let (_, answer) = extender.post("/preempt", &args);
    assert_eq!(answer["NodeNameToMetaVictims"], json!({}));
}

#[test]
fn added_victims_count_as_violations_of_disruption_budgets() {
    let shared = objects(&["a"]);
    // Three of four CPUs on each NUMA node are taken: four are free on one of them after one eviction.
    for name in ["first", "second"] {
        let mut there = pod(name, 3);
        there["spec"]["nodeName"] = "a".into();
        there["spec"]["priority"] = (-1).into();
        shared.lock().unwrap().pods.push(there);
    }
    let extender = Extender::start(&shared).ready();
    let ask = |named: &[&str]| {
        let pods: Vec<Value> = named.iter().map(|uid| json!({ "UID": uid })).collect();
        let victims = json!({ "Pods": pods, "NumPDBViolations": 0 });
        let args = json!({ "Pod": pod("wide", 4), "NodeNameToMetaVictims": { "a": victims } });
        extender.post("/preempt", &args).1["NodeNameToMetaVictims"]["a"].clone()
    };
    let named = ask(&["uid-second"]);
    assert_eq!(
        named,
        json!({ "Pods": [{ "UID": "uid-second" }], "NumPDBViolations": 0 })
    );
    // kube-scheduler's victim may have been deleted meanwhile.
    let other = ask(&["uid-gone"]);
    assert_eq!(
        other,
        json!({ "Pods": [{ "UID": "uid-second" }], "NumPDBViolations": 1 })
    );
}

#[test]
fn a_malformed_request_is_rejected_and_the_next_one_is_answered() {
    let extender = Extender::start(&objects(&["a"])).ready();
    let deep = "[".repeat(100_000);
    let bad: [(&str, &str, &[u8], u16); 8] = [
        ("POST", "/filter", b"", 400),
        ("POST", "/filter", b"{}", 400),
        ("POST", "/filter", b"{\"Pod\": 3, \"NodeNames\": []}", 400),
        ("POST", "/filter", deep.as_bytes(), 400),
        ("POST", "/bind", b"{\"PodName\": 1}", 400),
        ("POST", "/preempt", b"\xff\xfe", 400),
        ("GET", "/filter", b"", 405),
        ("POST", "/elsewhere", b"{}", 404),
    ];
    for (method, path, body, expected) in bad {
        let (code, answer) = extender.send(method, path, body);
        assert_eq!(code, expected, "{path}: {answer}");
        assert!(answer.contains("Error"), "{answer}");
    }
    let mut odd = pod("odd", 2);
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "two".into();
    let (code, answer) = extender.post("/filter", &json!({ "Pod": odd, "NodeNames": ["a"] }));
    assert_eq!(code, 400);
    assert!(
        answer["Error"]
            .as_str()
            .is_some_and(|error| error.contains("two")),
        "{answer}"
    );
    let mut stream = TcpStream::connect(extender.address).unwrap();
    let head = format!(
        "POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        33 << 20
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413", "rejected by its length");
    assert_eq!(
        extender.filter(&pod("small", 2), &["a"])["NodeNames"],
        json!(["a"])
    );
}
