//! The rules of the cache, one by one.

use std::sync::Arc;
use std::time::Instant;

use pinfold_core::name::PodUid;

use super::node::TestNode;
use super::{cache, observed_pod, policy, seconds};
use crate::cache::pod_info::{self, PodInfo};
use crate::cache::{Cache, CachePolicy, ReportedDialect, ReserveError};
use crate::config::Fallback;
use crate::engine::filter::NodeVerdict;
use crate::engine::reason::RejectionClass;
use crate::weights::Weights;

pub(super) fn class(cache: &mut Cache, uid: &str, cpus: u32, node: &str) -> Option<RejectionClass> {
    let info = observed_pod(uid, cpus, "1Gi", None, "Pending").info;
    match cache.filter(&info, &[node]).remove(0) {
        NodeVerdict::Fits => None,
        NodeVerdict::Rejected(class, _) => Some(class),
    }
}

/// A policy under which nodes with stale reports pass.
pub(super) fn lenient() -> CachePolicy {
    let mut lenient = policy();
    lenient.nodes.stale_report = Fallback::Pass;
    lenient
}

#[test]
fn a_node_is_evaluated_by_the_rules_of_its_kubelet() {
    let now = Instant::now();
    let strict = TestNode::new("strict", "single-numa-node", "container");
    let loose = TestNode::new("loose", "none", "container");
    let mut cache = cache(&[&strict, &loose], now);
    // NUMA node 0 has three CPUs that are not reserved, node 1 has four.
    assert_eq!(class(&mut cache, "a", 4, "strict"), None);
    assert_eq!(
        class(&mut cache, "a", 5, "strict"),
        Some(RejectionClass::Numa)
    );
    assert_eq!(class(&mut cache, "a", 5, "loose"), None);
    assert_eq!(
        class(&mut cache, "a", 8, "loose"),
        Some(RejectionClass::Numa)
    );
    assert_eq!(
        class(&mut cache, "a", 9, "loose"),
        Some(RejectionClass::Resources)
    );
    assert_eq!(
        class(&mut cache, "a", 1, "elsewhere"),
        Some(RejectionClass::UnknownNode)
    );
    let info = observed_pod("a", 5, "1Gi", None, "Pending").info;
    let verdicts = cache.filter(&info, &["strict"]);
    let text = "NUMA: cpu: 5 asked, at most 4 free on one NUMA node";
    let rejected = NodeVerdict::Rejected(RejectionClass::Numa, text.to_owned());
    assert_eq!(verdicts, [rejected]);
}

#[test]
fn a_reserved_pod_counts_until_the_report_lists_it() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.reserve(&first, &"a".into(), now).expect("free");
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    let again = cache.reserve(&first, &"a".into(), now);
    assert!(matches!(again, Err(ReserveError::AlreadyPlaced(_))));
    // A report from before the pod was admitted changes nothing.
    node.terminate(&"none".into());
    cache.apply_pod(observed_pod("first", 4, "1Gi", Some("a"), "Pending"), now);
    assert_eq!(cache.reservations().count(), 0);
    let (name, mut report) = node.report(now);
    report.version = "late".to_owned();
    cache.apply_report(&name, report, now);
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    assert!(node.admit(first.request.pod()));
    let (name, report) = node.report(now);
    cache.apply_report(&name, report, now);
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    assert_eq!(class(&mut cache, "second", 3, "a"), None);
}

#[test]
fn a_deleted_pod_frees_its_resources_before_the_next_report() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "single-numa-node", "container");
    let first = observed_pod("first", 4, "1Gi", Some("a"), "Running");
    assert!(node.admit(first.info.request.pod()));
    let mut cache = cache(&[&node], now);
    cache.apply_pod(first, now);
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    cache.delete_pod(&"first".into(), now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
    // The same report again does not restore the pod.
    let (name, mut report) = node.report(now);
    report.version = "late".to_owned();
    cache.apply_report(&name, report, now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
}

#[test]
fn a_pod_that_only_the_report_lists_counts_until_the_next_list_of_pods() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let unknown = observed_pod("unknown", 4, "1Gi", Some("a"), "Running");
    assert!(node.admit(unknown.info.request.pod()));
    let later = now + seconds(1);
    let (name, report) = node.report(later);
    cache.apply_report(&name, report, later);
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    let last = now + seconds(2);
    cache.replace_pods(Vec::new(), last, last);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
}

#[test]
fn a_report_that_lacks_a_running_pod_becomes_stale() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    cache.apply_pod(observed_pod("first", 2, "1Gi", Some("a"), "Running"), now);
    assert_eq!(class(&mut cache, "second", 1, "a"), None);
    cache.tick(now + seconds(61));
    assert_eq!(
        class(&mut cache, "second", 1, "a"),
        Some(RejectionClass::StaleReport)
    );
    let shared = serde_json::json!({
        "metadata": { "name": "plain", "namespace": "default", "uid": "plain" },
        "spec": { "containers": [{ "name": "main", "image": "i" }] },
    });
    let shared = pod_info::parse(&shared.to_string());
    let shared = shared.expect("a pod").info;
    assert_eq!(
        cache.filter(&shared, &["a"]),
        [NodeVerdict::Fits],
        "a pod without NUMA needs"
    );
    cache.delete_pod(&"first".into(), now + seconds(62));
    assert_eq!(class(&mut cache, "second", 1, "a"), None);
}

#[test]
fn a_report_without_pods_counts_pods_that_started_before_it_arrived() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = Cache::new(policy());
    cache.apply_node(node.info(), now);
    let (name, report) = node.report_without_pods(now);
    cache.apply_report(&name, report, now);
    assert_eq!(
        cache.nodes().map(|(_, node)| node.dialect).last(),
        Some(ReportedDialect::Kubelet)
    );
    let first = observed_pod("first", 4, "1Gi", Some("a"), "Running");
    cache.apply_pod(first.clone(), now);
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    assert!(node.admit(first.info.request.pod()));
    let later = now + seconds(5);
    let (name, report) = node.report_without_pods(later);
    cache.apply_report(&name, report, later);
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    assert_eq!(
        class(&mut cache, "second", 3, "a"),
        None,
        "not counted twice"
    );
}

#[test]
fn an_invalid_report_affects_only_its_node() {
    let now = Instant::now();
    let (a, b) = (
        TestNode::new("a", "single-numa-node", "container"),
        TestNode::new("b", "single-numa-node", "container"),
    );
    let mut cache = cache(&[&a, &b], now);
    let (name, report) = a.invalid_report(now);
    cache.apply_report(&name, report, now);
    assert_eq!(
        class(&mut cache, "x", 1, "a"),
        Some(RejectionClass::InvalidReport)
    );
    assert_eq!(class(&mut cache, "x", 1, "b"), None);
    let problems = cache.take_problems();
    let of_a = problems.iter().any(|problem| problem.object == "a");
    assert!(of_a, "{problems:?}");
    let (name, report) = a.report(now);
    cache.apply_report(&name, report, now);
    assert_eq!(class(&mut cache, "x", 1, "a"), None);
}

#[test]
fn a_deleted_node_admits_no_pod_and_keeps_reservations_until_their_pods_are_deleted() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.delete_node(&"a".into(), now);
    assert_eq!(
        class(&mut cache, "second", 1, "a"),
        Some(RejectionClass::UnknownNode)
    );
    cache.delete_pod(&PodUid::from("first"), now);
    assert_eq!(cache.reservations().count(), 0);
    cache.apply_node(node.info(), now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
}

#[test]
fn a_reserved_pod_that_another_scheduler_bound_elsewhere_is_moved() {
    let now = Instant::now();
    let (a, b) = (
        TestNode::new("a", "single-numa-node", "container"),
        TestNode::new("b", "single-numa-node", "container"),
    );
    let mut cache = cache(&[&a, &b], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.apply_pod(observed_pod("first", 4, "1Gi", Some("b"), "Pending"), now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
    assert_eq!(
        class(&mut cache, "second", 4, "b"),
        Some(RejectionClass::Numa)
    );
}

#[test]
fn a_node_is_evaluated_with_pods_added_and_removed() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "single-numa-node", "container");
    let mut pods = Vec::new();
    // Three CPUs of node 0, then two and two of node 1.
    for (uid, cpus) in [("three", 3), ("two", 2), ("also-two", 2)] {
        let pod = observed_pod(uid, cpus, "1Gi", Some("a"), "Running");
        assert!(node.admit(pod.info.request.pod()), "{uid}");
        pods.push(pod);
    }
    let mut cache = cache(&[&node], now);
    for pod in pods {
        cache.apply_pod(pod, now);
    }
    let info = |uid: &str, cpus: u32| observed_pod(uid, cpus, "1Gi", None, "Pending").info;
    let fits = |cpus: u32, added: &[Arc<PodInfo>], removed: &[&str]| {
        let removed = removed.iter().map(|uid| (*uid).into()).collect();
        let verdict = cache.filter_changed(&info("big", cpus), &"a".into(), added, &removed, now);
        verdict == NodeVerdict::Fits
    };
    assert!(!fits(3, &[], &[]));
    assert!(fits(3, &[], &["three"]), "one eviction is enough");
    assert!(
        !fits(4, &[], &["three", "two"]),
        "in sum, but on no NUMA node"
    );
    assert!(fits(4, &[], &["two", "also-two"]));
    assert!(!fits(5, &[], &["three", "two", "also-two"]));
    let nominated = [info("nominated", 3)];
    assert!(!fits(1, &nominated, &["three"]), "a nominated pod takes it");
    assert!(fits(2, &nominated, &["three", "two"]));
    assert!(
        fits(3, &[info("three", 3)], &["three"]),
        "a pod is not added to the node that has it"
    );
}

#[test]
fn a_reservation_on_a_koordinator_node_has_cpus() {
    let now = Instant::now();
    let node = TestNode::new("a", "none", "container").under_koordinator();
    let mut cache = cache(&[&node], now);
    assert_eq!(
        cache.nodes().map(|(_, node)| node.dialect).last(),
        Some(ReportedDialect::Koordinator)
    );
    let mut pod = super::pod_json("lsr", 2, "1Gi", None, "Pending");
    pod["metadata"]["labels"] = serde_json::json!({
        "koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod",
    });
    let info = pod_info::parse(&pod.to_string()).expect("a pod").info;
    assert_eq!(cache.filter(&info, &["a"]), [NodeVerdict::Fits]);
    let reserved = cache.reserve(&info, &"a".into(), now).expect("free");
    assert_eq!(reserved.placement.cpus.len(), 2);
    assert_eq!(reserved.generation.as_deref(), Some("7"));
}

#[test]
fn pods_placed_after_a_released_reservation_are_placed_again_without_it() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    cache.set_policy(lenient(), now);
    let first = observed_pod("first", 3, "1Gi", None, "Pending").info;
    let second = observed_pod("second", 3, "1Gi", None, "Pending").info;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.reserve(&second, &"a".into(), now).expect("free");
    cache.release(first.uid(), now);
    // The kubelet admits only the second pod and places it on NUMA node 0.
    assert!(node.admit(second.request.pod()));
    assert_eq!(class(&mut cache, "third", 4, "a"), None);
    assert!(
        node.would_admit(
            observed_pod("third", 4, "1Gi", None, "Pending")
                .info
                .request
                .pod()
        )
    );
}

#[test]
fn a_new_node_takes_no_pods_with_numa_needs_before_its_first_report() {
    let now = Instant::now();
    let node = TestNode::new("fresh", "single-numa-node", "container");
    let mut cache = cache(&[], now);
    cache.apply_node(node.info(), now);
    assert_eq!(
        class(&mut cache, "early", 1, "fresh"),
        Some(RejectionClass::NoReport)
    );
    let (name, report) = node.report(now);
    cache.apply_report(&name, report, now);
    assert_eq!(class(&mut cache, "early", 1, "fresh"), None);
}

#[test]
fn an_answer_about_all_nodes_groups_equal_reasons_and_has_a_score_per_fitting_node() {
    let now = Instant::now();
    let nodes = ["a", "b", "c"].map(|name| TestNode::new(name, "single-numa-node", "container"));
    let wide = TestNode::new("wide", "none", "container");
    let mut cache = cache(&[&nodes[0], &nodes[1], &nodes[2], &wide], now);
    let info = observed_pod("five", 5, "1Gi", None, "Pending").info;
    let answer = cache.pre_filter(&info, &Weights::default());
    let names: Vec<&str> = answer
        .fitting
        .names
        .names
        .iter()
        .map(pinfold_core::name::NodeName::as_str)
        .collect();
    assert_eq!(names, ["a", "b", "c", "wide"]);
    assert_eq!(answer.fitting.fits.as_bytes(), [0b1000]);
    assert_eq!(answer.scores.len(), 1);
    let [group] = answer.rejections.as_slice() else {
        panic!("{:?}", answer.rejections);
    };
    assert_eq!(group.nodes.as_bytes(), [0b0111]);
    assert_eq!(
        group.reason,
        "NUMA: cpu: 5 asked, at most 4 free on one NUMA node"
    );
    let generation = answer.fitting.names.generation;
    cache.delete_node(&"b".into(), now);
    let answer = cache.pre_filter(&info, &Weights::default());
    assert_eq!(answer.fitting.names.names.len(), 3);
    assert_ne!(answer.fitting.names.generation, generation);
}

#[test]
fn a_pod_that_claims_the_uid_of_a_mirror_pod_does_not_change_or_delete_it() {
    use pinfold_kube::pod::PodIdentity;
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let mirror = |name: &str, cpus: u32| {
        let mut pod = super::pod_json(name, cpus, "1Gi", Some("a"), "Running");
        pod["metadata"]["annotations"] = serde_json::json!({ "kubernetes.io/config.mirror": "0c5f1a2b3d4e5f60718293a4b5c6d7e8" });
        pod.to_string()
    };
    let uid = PodUid::from("0c5f1a2b3d4e5f60718293a4b5c6d7e8");
    let parse = |json: &str| pod_info::parse(json).expect("a pod");
    cache.apply_pod(parse(&mirror("etcd-a", 2)), now);
    let other = mirror("other", 1);
    cache.apply_pod(parse(&other), now);
    let cached = |cache: &Cache| cache.pod(&uid).map(|pod| pod.info.name.clone());
    assert_eq!(cached(&cache).as_deref(), Some("etcd-a"));
    let identity = PodIdentity::parse(&other).expect("metadata");
    assert_eq!(identity.uid, uid);
    cache.delete_identified_pod(&identity, now);
    assert_eq!(cached(&cache).as_deref(), Some("etcd-a"));
    let identity = PodIdentity::parse(&mirror("etcd-a", 2)).expect("metadata");
    cache.delete_identified_pod(&identity, now);
    assert_eq!(cached(&cache), None);
}

#[test]
fn a_list_of_pods_builds_each_node_once() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "single-numa-node", "container");
    let pods = ["p", "q", "r", "s"].map(|uid| observed_pod(uid, 1, "1Gi", Some("a"), "Running"));
    for pod in &pods {
        assert!(node.admit(pod.info.request.pod()));
    }
    let mut cache = cache(&[&node], now);
    let generation = |cache: &Cache| cache.cluster.generation(&"a".into()).expect("a node");
    let before = generation(&cache);
    let later = now + seconds(1);
    cache.replace_pods(pods.to_vec(), later, later);
    assert_eq!(generation(&cache) - before, 1, "generations count changes");
    assert_eq!(class(&mut cache, "next", 2, "a"), None);
    let before = generation(&cache);
    cache.replace_pods(Vec::new(), later + seconds(1), later + seconds(1));
    assert!(
        generation(&cache) - before <= 2,
        "once for the pods, once for the report"
    );
    cache.tick(later + seconds(9));
    assert_eq!(class(&mut cache, "next", 4, "a"), None);
}
