//! What kube-scheduler asks, and what nobody should ask.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::cluster::{Extender, node, objects, pod};

#[test]
fn nodes_are_named_or_sent_and_come_back_the_same_way() {
    let extender = Extender::start(&objects(&["a", "b"])).ready();
    let small = extender.filter(&pod("small", 2), &["b", "a"]);
    assert_eq!(small["NodeNames"], json!(["b", "a"]), "{small}");
    assert_eq!(small["Nodes"], Value::Null);
    assert_eq!(small["Error"], "");
    let large = extender.filter(&pod("large", 5), &["a", "b", "c"]);
    assert_eq!(large["NodeNames"], json!([]));
    let words = "NUMA: cpu: 5 asked, at most 4 free on one NUMA node";
    assert_eq!(large["FailedNodes"]["a"], words);
    assert_eq!(
        large["FailedNodes"]["b"], words,
        "equal troubles have equal words"
    );
    assert!(
        large["FailedNodes"]["c"]
            .as_str()
            .is_some_and(|words| words.contains("not heard"))
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
fn nodes_are_scored_by_how_much_better_than_the_worst_they_are() {
    let extender = Extender::start(&objects(&["a", "b"])).ready();
    let ask = |names: &[&str]| {
        let args = json!({ "Pod": pod("small", 2), "NodeNames": names });
        let (code, scores) = extender.post("/prioritize", &args);
        assert_eq!(code, 200);
        scores.as_array().cloned().unwrap_or_default()
    };
    let scores = ask(&["a", "b", "nowhere"]);
    let hosts: Vec<&Value> = scores.iter().map(|score| &score["Host"]).collect();
    assert_eq!(hosts, ["a", "b"], "nobody knows the third");
    for score in &scores {
        let found = score["Score"].as_i64().unwrap_or(-1);
        assert!((1..=10).contains(&found), "{score}");
    }
    assert_eq!(scores[0]["Score"], scores[1]["Score"], "they are alike");
    assert!(ask(&["a", "b"]).is_empty(), "none is better than the other");
}

#[test]
fn who_leaves_is_named_by_id_and_hopeless_nodes_are_dropped() {
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
        "there is room without anybody leaving"
    );
    let whole = json!({ "Pods": [pod("x", 1)], "NumPDBViolations": 0 });
    let args = json!({ "Pod": pod("large", 5), "NodeNameToVictims": { "a": whole } });
    let (_, answer) = extender.post("/preempt", &args);
    assert_eq!(answer["NodeNameToMetaVictims"], json!({}));
}

#[test]
fn whoever_was_not_named_counts_as_protected() {
    let shared = objects(&["a"]);
    // Two of three CPUs on each NUMA node: four are free on none of them, whoever of the first one leaves.
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
    // kube-scheduler's own choice may have left meanwhile.
    let other = ask(&["uid-gone"]);
    assert_eq!(
        other,
        json!({ "Pods": [{ "UID": "uid-second" }], "NumPDBViolations": 1 })
    );
}

#[test]
fn a_request_that_makes_no_sense_is_rejected_and_the_next_is_answered() {
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
            .is_some_and(|words| words.contains("two")),
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
    assert_eq!(&answer, b"HTTP/1.1 413", "not even read");
    assert_eq!(
        extender.filter(&pod("small", 2), &["a"])["NodeNames"],
        json!(["a"])
    );
}
