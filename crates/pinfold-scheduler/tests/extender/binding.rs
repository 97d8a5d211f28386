//! Binding: reserved first, sent in one request, released if it failed.

use serde_json::{Value, json};

use super::cluster::{Extender, Shared, objects, pod};

/// The bindings that were sent to the API server, oldest first.
fn sent_bindings(extender: &Extender) -> Vec<Value> {
    let asked = extender.api.asked().into_iter();
    let bindings = asked.filter(|asked| asked.path.ends_with("/binding"));
    bindings.map(|asked| asked.body).collect()
}

fn put(objects: &Shared, pod: Value) {
    objects.lock().unwrap().pods.push(pod);
}

#[test]
fn a_binding_has_preconditions_and_counts_at_once() {
    let objects = objects(&["a"]);
    let extender = Extender::start(&objects).ready();
    extender.filter(&pod("first", 4), &["a"]);
    assert_eq!(extender.bind("first", "a"), "");
    let bindings = sent_bindings(&extender);
    assert_eq!(bindings.len(), 1);
    let meta = &bindings[0]["metadata"];
    assert_eq!(meta["uid"], "uid-first");
    assert_eq!(meta["resourceVersion"], "41");
    assert_eq!(bindings[0]["target"]["name"], "a");
    extender.filter(&pod("second", 4), &["a"]);
    assert_eq!(extender.bind("second", "a"), "", "the other NUMA node");
    let third = extender.filter(&pod("third", 1), &["a"]);
    assert_eq!(third["FailedNodes"]["a"], "Insufficient cpu");
    put(&objects, pod("third", 1));
    let error = extender.bind("third", "a");
    assert!(
        error.contains("rejects the pod now: Insufficient cpu"),
        "{error}"
    );
    assert_eq!(sent_bindings(&extender).len(), 2, "no binding was sent");
    let (_, metrics) = super::cluster::exchange(
        std::net::TcpStream::connect(extender.probes).unwrap(),
        "GET",
        "/metrics",
        b"",
    );
    assert!(
        metrics.contains("pinfold_extender_bindings_total{result=\"bound\"} 2"),
        "{metrics}"
    );
    assert!(
        metrics.contains("pinfold_reservations{state=\"bound\"} 2"),
        "{metrics}"
    );
}

#[test]
fn a_rejected_binding_releases_its_reservation() {
    let objects = objects(&["a"]);
    let extender = Extender::start(&objects).ready();
    for code in [403, 404, 422] {
        objects.lock().unwrap().bindings.push(code);
        extender.filter(&pod("first", 4), &["a"]);
        let error = extender.bind("first", "a");
        assert!(error.contains("as configured by the test"), "{error}");
    }
    for name in ["x", "y"] {
        extender.filter(&pod(name, 4), &["a"]);
        assert_eq!(extender.bind(name, "a"), "", "{name}");
    }
}

#[test]
fn a_pod_that_changed_is_read_again_and_bound_in_its_new_version() {
    let objects = objects(&["a"]);
    let extender = Extender::start(&objects).ready();
    extender.filter(&pod("first", 4), &["a"]);
    let mut newer = pod("first", 4);
    newer["metadata"]["resourceVersion"] = "42".into();
    put(&objects, newer);
    objects.lock().unwrap().bindings.push(409);
    assert_eq!(extender.bind("first", "a"), "");
    let versions: Vec<Value> = sent_bindings(&extender)
        .iter()
        .map(|binding| binding["metadata"]["resourceVersion"].clone())
        .collect();
    assert_eq!(versions, ["41", "42"]);
}

#[test]
fn a_binding_without_a_response_is_checked_with_a_get() {
    let objects = objects(&["a"]);
    let extender = Extender::start(&objects).ready();
    extender.filter(&pod("first", 4), &["a"]);
    let mut bound = pod("first", 4);
    bound["spec"]["nodeName"] = "a".into();
    put(&objects, bound);
    objects.lock().unwrap().bindings.push(500);
    assert_eq!(extender.bind("first", "a"), "", "the pod is bound");
    extender.filter(&pod("second", 4), &["a"]);
    put(&objects, pod("second", 4));
    objects.lock().unwrap().bindings.push(500);
    assert_ne!(extender.bind("second", "a"), "", "the pod is not bound");
    extender.filter(&pod("third", 4), &["a"]);
    assert_eq!(
        extender.bind("third", "a"),
        "",
        "its reservation was released"
    );
}

#[test]
fn a_pod_with_another_uid_is_not_bound() {
    let objects = objects(&["a"]);
    let extender = Extender::start(&objects).ready();
    let mut other = pod("first", 4);
    other["metadata"]["uid"] = "another".into();
    put(&objects, other);
    let error = extender.bind("first", "a");
    assert!(
        error.contains("pod default/first has another uid"),
        "{error}"
    );
    assert_eq!(sent_bindings(&extender), Vec::<Value>::new());
}

#[test]
fn the_binding_to_a_koordinator_node_has_the_cpus_in_an_annotation() {
    let objects = objects(&["a"]);
    let detail: Vec<Value> = (0..8)
        .map(|cpu| json!({ "id": cpu, "core": cpu, "socket": cpu / 4, "node": cpu / 4 }))
        .collect();
    {
        let mut objects = objects.lock().unwrap();
        let report = &mut objects.reports[0];
        report["topologyPolicies"] = json!(["None"]);
        report["attributes"] = json!([]);
        report["metadata"]["annotations"] = json!({
            "node.koordinator.sh/cpu-topology": json!({ "detail": detail }).to_string(),
            "kubelet.koordinator.sh/cpu-manager-policy": "{\"policy\":\"none\"}",
            "pinfold.dev/generation": "12",
        });
    }
    let extender = Extender::start(&objects).ready();
    let mut lsr = pod("lsr", 2);
    lsr["metadata"]["labels"] = json!({
        "koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod",
    });
    assert_eq!(extender.filter(&lsr, &["a"])["NodeNames"], json!(["a"]));
    assert_eq!(extender.bind("lsr", "a"), "");
    let bindings = sent_bindings(&extender);
    let annotations = &bindings[0]["metadata"]["annotations"];
    assert_eq!(annotations["pinfold.dev/generation"], "12", "{annotations}");
    let status = annotations["scheduling.koordinator.sh/resource-status"].as_str();
    let status: Value = serde_json::from_str(status.unwrap_or_default()).unwrap_or_default();
    assert_eq!(status["cpuset"], "0-1", "{status}");
}
