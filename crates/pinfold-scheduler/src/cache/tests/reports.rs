//! Which pods a report counts, and what a pod counts with.

use std::time::Instant;

use serde_json::{Value, json};

use super::node::TestNode;
use super::rules::class;
use super::{cache, observed_pod, pod_json, policy, seconds};
use crate::cache::pod_info::{self, ObservedPod};
use crate::cache::{Cache, ProblemKind};
use crate::engine::reason::RejectionClass;

#[test]
fn the_fingerprint_of_a_report_says_which_pods_it_counts() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = Cache::new(policy());
    cache.apply_node(node.info(), now);
    for (uid, after) in [("first", 0), ("second", 1)] {
        let pod = observed_pod(uid, 3, "1Gi", Some("a"), "Running");
        cache.apply_pod(pod, now + seconds(after));
    }
    let first = observed_pod("first", 3, "1Gi", Some("a"), "Running");
    assert!(node.admit(first.info.request.pod()));
    // It was written between both starts, and arrives after them.
    let later = now + seconds(5);
    let (name, report) = node.report_with_fingerprint(&["first"], later);
    cache.apply_report(&name, report, later);
    assert_eq!(class(&mut cache, "next", 1, "a"), None);
    assert_eq!(
        class(&mut cache, "next", 2, "a"),
        Some(RejectionClass::Numa),
        "the second pod counts in addition"
    );
    // The fingerprint of pods that the cache does not know says nothing.
    let (name, report) = node.report_with_fingerprint(&["first", "another"], later);
    cache.apply_report(&name, report, later);
    assert_eq!(
        class(&mut cache, "next", 2, "a"),
        None,
        "both started before the report arrived"
    );
}

/// A bound pod of four CPUs whose user asks for seven, with these conditions.
fn resized(conditions: &Value) -> ObservedPod {
    let mut pod = pod_json("resized", 7, "1Gi", Some("a"), "Running");
    let held = json!({ "cpu": "4", "memory": "1Gi" });
    pod["status"]["containerStatuses"] =
        json!([{ "name": "main", "allocatedResources": held, "resources": { "requests": held } }]);
    pod["status"]["conditions"] = conditions.clone();
    pod["metadata"]["resourceVersion"] = "2".into();
    pod_info::parse(&pod.to_string()).expect("a pod")
}

#[test]
fn a_resize_that_is_in_flight_counts_and_an_infeasible_one_does_not() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "none", "container");
    let mut cache = cache(&[&node], now);
    let before = observed_pod("resized", 4, "1Gi", Some("a"), "Running");
    assert!(node.admit(before.info.request.pod()));
    cache.apply_pod(before, now);
    let (name, report) = node.report(now);
    cache.apply_report(&name, report, now);
    assert_eq!(class(&mut cache, "next", 2, "a"), None);
    let reason =
        |reason: &str| json!([{ "type": "PodResizePending", "status": "True", "reason": reason }]);
    cache.apply_pod(resized(&reason("Deferred")), now);
    assert_eq!(
        class(&mut cache, "next", 2, "a"),
        Some(RejectionClass::Resources),
        "the kubelet grants it as soon as it can"
    );
    cache.apply_pod(resized(&reason("Infeasible")), now);
    assert_eq!(
        class(&mut cache, "next", 2, "a"),
        None,
        "it would block the node for ever"
    );
}

/// The Node object of a kubelet of this version.
fn with_version(node: &TestNode, version: &str) -> crate::cache::node::NodeInfo {
    let mut object = node.object();
    object["status"]["nodeInfo"] = json!({ "kubeletVersion": version });
    crate::cache::node::parse_node(&object.to_string()).expect("a node")
}

#[test]
fn a_node_is_evaluated_by_the_rules_of_the_version_that_it_reports() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    // With pod-level resources, kubelets since 1.34 assign nothing exclusively. Older ones do not see them.
    let mut pod = pod_json("wide", 5, "1Gi", None, "Pending");
    pod["spec"]["resources"] = pod["spec"]["containers"][0]["resources"].clone();
    let info = pod_info::parse(&pod.to_string()).expect("a pod").info;
    let fits = |cache: &mut Cache| cache.pre_filter(&info, &Default::default()).scores.len();
    for (version, expected) in [("v1.33.5", 0), ("v1.36.4", 1), ("v1.99.0", 1), ("kwok", 1)] {
        cache.apply_node(with_version(&node, version), now);
        assert_eq!(fits(&mut cache), expected, "{version}");
    }
    cache.take_problems();
    cache.apply_node(with_version(&node, "v1.28.0"), now);
    assert_eq!(
        class(&mut cache, "small", 1, "a"),
        Some(RejectionClass::InvalidReport)
    );
    let problems = cache.take_problems();
    let [problem] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert_eq!(
        (problem.kind, problem.object.as_str()),
        (ProblemKind::InvalidReport, "a")
    );
    assert!(
        problem.message.contains("kubeletVersion"),
        "{}",
        problem.message
    );
}
