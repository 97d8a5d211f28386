//! Calls of the plugin, and malformed calls.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use pinfold_scheduler::engine::wire::{
    FilterNodeRequest, PreFilterRequest, RejectionKind, RequeuesRequest, WirePod,
};
use serde_json::{Value, json};
use tonic::Code;

use super::cluster::{RunningEngine, objects, pod, wire};

#[test]
fn pre_filter_answers_about_all_nodes_with_scores_and_grouped_reasons() {
    let engine = RunningEngine::start(&objects(&["a", "b"]));
    let mut scheduler = engine.connected(1);
    let small = scheduler.pre_filter(&pod("small", 2)).unwrap();
    assert_eq!(small.nodes, ["a", "b"]);
    assert_eq!(small.fits, [0b11]);
    assert_eq!(small.scores.len(), 2);
    assert_eq!(small.scores[0], small.scores[1], "equal nodes");
    assert!((1..=100).contains(&small.scores[0]), "{:?}", small.scores);
    let large = scheduler.pre_filter(&pod("large", 5)).unwrap();
    assert_eq!(large.fits, [0]);
    let [rejection] = large.rejections.as_slice() else {
        panic!("{large:?}");
    };
    let reason = "NUMA: cpu: 5 asked, at most 4 free on one NUMA node";
    assert_eq!(rejection.reason, reason, "equal causes have equal texts");
    assert_eq!(rejection.kind(), RejectionKind::Resolvable);
    assert_eq!(rejection.nodes, [0b11]);
}

#[test]
fn names_are_sent_once_per_generation_and_objects_only_if_the_engine_lacks_them() {
    let shared = objects(&["a"]);
    shared.lock().unwrap().pods.push(pod("listed", 2));
    let engine = RunningEngine::start(&shared);
    let mut scheduler = engine.connected(1);
    let mut ask = |name: &str, nodes_generation: u64| {
        let pod = WirePod {
            json: Vec::new(),
            ..wire(&pod(name, 2))
        };
        let request = PreFilterRequest {
            scheduler: 1,
            pod: Some(pod),
            nodes_generation,
            pods_version: 0,
            nominated_node: String::new(),
        };
        let reply = scheduler.calls.pre_filter(request);
        scheduler.runtime.block_on(reply).unwrap().into_inner()
    };
    assert!(ask("new", 0).unknown_pod);
    let first = ask("listed", 0);
    assert!(!first.unknown_pod);
    assert_eq!(first.nodes, ["a"]);
    let second = ask("listed", first.nodes_generation);
    assert_eq!(second.nodes, Vec::<String>::new());
    assert_eq!(second.fits, [1]);
}

#[test]
fn a_reserved_pod_counts_until_it_is_released() {
    let engine = RunningEngine::start(&objects(&["a"]));
    let mut scheduler = engine.connected(1);
    for name in ["first", "second"] {
        let reply = scheduler.reserve(&pod(name, 4), "a").unwrap();
        assert_eq!(reply.rejection, "", "{name}");
    }
    let third = pod("third", 1);
    assert_eq!(scheduler.fitting(&third), Vec::<String>::new());
    let reply = scheduler.reserve(&third, "a").unwrap();
    assert_eq!(reply.rejection, "Insufficient cpu");
    scheduler.unreserve("uid-first", false);
    assert_eq!(scheduler.fitting(&third), ["a"]);
    // The binding of the second may have happened: its place stays taken.
    scheduler.unreserve("uid-second", true);
    assert_eq!(scheduler.fitting(&pod("wide", 4)), ["a"]);
    assert_eq!(
        scheduler.reserve(&pod("wide", 4), "a").unwrap().rejection,
        ""
    );
    assert_eq!(scheduler.fitting(&third), Vec::<String>::new());
    let (_, metrics) = engine.get("/metrics");
    assert!(
        metrics.contains("pinfold_reservations{state=\"unconfirmed\"} 1"),
        "{metrics}"
    );
}

#[test]
fn a_node_is_evaluated_with_nominated_pods_and_without_victims() {
    let shared = objects(&["a"]);
    for name in ["left", "right"] {
        let mut there = pod(name, 3);
        there["spec"]["nodeName"] = "a".into();
        shared.lock().unwrap().pods.push(there);
    }
    let engine = RunningEngine::start(&shared);
    let mut scheduler = engine.connected(1);
    let wide = pod("wide", 2);
    let rejection = scheduler.filter_node(&wide, "a", &[], &[]).unwrap();
    assert_eq!(rejection.kind(), RejectionKind::Resolvable, "{rejection:?}");
    let after = scheduler.filter_node(&wide, "a", &[], &["uid-left"]);
    assert_eq!(after, None);
    let nominated = pod("nominated", 3);
    let taken = scheduler.filter_node(&wide, "a", &[&nominated], &["uid-left"]);
    assert!(taken.is_some());
    let unknown = scheduler.filter_node(&wide, "nowhere", &[], &[]).unwrap();
    assert_eq!(unknown.kind(), RejectionKind::Unresolvable);
}

#[test]
fn a_rejected_pod_is_named_when_a_node_takes_it() {
    let engine = RunningEngine::start(&objects(&["a"]));
    let mut scheduler = engine.connected(1);
    for name in ["first", "second"] {
        scheduler.reserve(&pod(name, 4), "a").unwrap();
    }
    assert_eq!(scheduler.fitting(&pod("third", 3)), Vec::<String>::new());
    scheduler.unreserve("uid-first", false);
    let reply = scheduler.calls.requeues(RequeuesRequest { scheduler: 1 });
    let reply = scheduler.runtime.block_on(reply).unwrap().into_inner();
    assert_eq!(reply.pods, ["uid-third"]);
}

#[test]
fn a_pod_whose_reservation_is_rejected_is_named_again_if_another_node_took_it() {
    let engine = RunningEngine::start(&objects(&["a", "b"]));
    let mut scheduler = engine.connected(1);
    let late = pod("late", 3);
    assert_eq!(scheduler.fitting(&late), ["a", "b"]);
    for name in ["first", "second"] {
        assert_eq!(scheduler.reserve(&pod(name, 4), "a").unwrap().rejection, "");
    }
    let reply = scheduler.reserve(&late, "a").unwrap();
    assert_eq!(reply.rejection, "Insufficient cpu");
    let reply = scheduler.calls.requeues(RequeuesRequest { scheduler: 1 });
    let reply = scheduler.runtime.block_on(reply).unwrap().into_inner();
    assert_eq!(reply.pods, ["uid-late"], "no node changed in its favour");
}

#[test]
fn a_malformed_call_is_rejected_and_the_next_one_is_answered() {
    let engine = RunningEngine::start(&objects(&["a"]));
    let mut garbage = UnixStream::connect(&engine.socket).unwrap();
    let _ = garbage.write_all(&[0x47; 4096]);
    let _ = garbage.read_to_end(&mut Vec::new());
    let mut scheduler = engine.connected(1);
    let code = |result: Result<_, tonic::Status>| {
        let result: Result<pinfold_scheduler::engine::wire::PreFilterReply, _> = result;
        result.unwrap_err().code()
    };
    let mut odd = pod("odd", 2);
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "two".into();
    assert_eq!(code(scheduler.pre_filter(&odd)), Code::InvalidArgument);
    let mut nameless = pod("nameless", 2);
    nameless["metadata"]["uid"] = "".into();
    assert_eq!(code(scheduler.pre_filter(&nameless)), Code::InvalidArgument);
    let mut huge = pod("huge", 2);
    huge["metadata"]["annotations"] = json!({ "a": "x".repeat(8 << 20) });
    assert_eq!(code(scheduler.pre_filter(&huge)), Code::OutOfRange);
    let removed: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let request = FilterNodeRequest {
        scheduler: 1,
        pod: Some(wire(&pod("many", 1))),
        node: "a".to_owned(),
        added: Vec::new(),
        removed,
    };
    let many = scheduler
        .runtime
        .block_on(scheduler.calls.filter_node(request));
    assert_eq!(many.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(scheduler.fitting(&pod("small", 2)), ["a"]);
}

#[test]
fn the_reservation_on_a_koordinator_node_has_the_cpus_in_an_annotation() {
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
    let engine = RunningEngine::start(&objects);
    let mut scheduler = engine.connected(1);
    let mut lsr = pod("lsr", 2);
    lsr["metadata"]["labels"] = json!({
        "koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod",
    });
    let evaluated = scheduler.pre_filter(&lsr).unwrap();
    assert_eq!(evaluated.fits, [1]);
    assert!(
        evaluated.checks_all_pods,
        "Koordinator's rules apply to all pods"
    );
    let annotations = scheduler.reserve(&lsr, "a").unwrap().annotations;
    assert_eq!(annotations["pinfold.dev/generation"], "12");
    let status = &annotations["scheduling.koordinator.sh/resource-status"];
    let status: Value = serde_json::from_str(status).unwrap();
    assert_eq!(status["cpuset"], "0-1", "{status}");
}
