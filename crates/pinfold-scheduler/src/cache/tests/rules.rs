//! The rules of the cache, one by one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_core::name::PodUid;

use super::node::TestNode;
use super::{cache, observed_pod, policy, seconds};
use crate::cache::pod_info::{self, PodInfo};
use crate::cache::{Cache, CachePolicy, ProblemKind, ReportedDialect, ReserveError};
use crate::config::Fallback;
use crate::extender::filter::NodeVerdict;
use crate::extender::reason::{self, RejectionClass};
use crate::requeue::RejectedPods;

fn class(cache: &mut Cache, uid: &str, cpus: u32, node: &str) -> Option<RejectionClass> {
    let info = observed_pod(uid, cpus, "1Gi", None, "Pending").info;
    match cache.filter(&info, &[node]).remove(0) {
        NodeVerdict::Fits => None,
        NodeVerdict::Rejected(class, _) => Some(class),
    }
}

/// A policy under which nodes with stale reports pass.
fn lenient() -> CachePolicy {
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
    cache.mark_bound(first.uid());
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
fn a_released_reservation_frees_its_resources() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.release(first.uid(), now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
    assert_eq!(cache.reservations().count(), 0);
}

#[test]
fn an_unconfirmed_reservation_expires_after_a_pod_event_that_is_later_than_its_timeout() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.apply_pod(observed_pod("first", 4, "1Gi", None, "Pending"), now);
    cache.reserve(&first, &"a".into(), now).expect("free");
    let late = now + seconds(3600);
    cache.tick(late);
    assert_eq!(
        cache.reservations().count(),
        1,
        "no pod event since the timeout"
    );
    cache.record_pod_event(late);
    cache.tick(late);
    assert_eq!(cache.reservations().count(), 0);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
    let problems = cache.take_problems();
    let kinds: Vec<ProblemKind> = problems.iter().map(|problem| problem.kind).collect();
    assert!(kinds.contains(&ProblemKind::BindingTimedOut), "{kinds:?}");
}

#[test]
fn an_unconfirmed_binding_is_retried_on_the_same_node_only() {
    let now = Instant::now();
    let nodes = ["a", "b"].map(|name| TestNode::new(name, "single-numa-node", "container"));
    let mut cache = cache(&[&nodes[0], &nodes[1]], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.apply_pod(observed_pod("first", 4, "1Gi", None, "Pending"), now);
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.mark_unconfirmed(first.uid());
    assert_eq!(class(&mut cache, "first", 4, "a"), None);
    assert_eq!(
        class(&mut cache, "first", 4, "b"),
        Some(RejectionClass::Pod)
    );
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    let elsewhere = cache.reserve(&first, &"b".into(), now);
    assert!(matches!(elsewhere, Err(ReserveError::AlreadyPlaced(_))));
    cache
        .reserve(&first, &"a".into(), now)
        .expect("the same node");
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    assert_eq!(cache.reservations().count(), 1);
}

#[test]
fn an_accepted_binding_never_times_out() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.mark_bound(first.uid());
    let late = now + seconds(3600);
    cache.record_pod_event(late);
    cache.tick(late);
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
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
fn the_fewest_victims_free_enough_on_one_numa_node() {
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
    let important = |cpus: u32| {
        let mut pod = super::pod_json("big", cpus, "1Gi", None, "Pending");
        pod["spec"]["priority"] = 1000.into();
        pod_info::parse(&pod.to_string()).expect("a pod").info
    };
    let named: Vec<PodUid> = vec!["two".into(), "three".into()];
    let victims = cache.victims(&important(3), &"a".into(), &named, now);
    assert_eq!(victims, Some(vec!["three".into()]), "one is enough");
    let victims = cache.victims(&important(4), &"a".into(), &named, now);
    assert_eq!(
        victims,
        Some(vec!["two".into(), "also-two".into()]),
        "together they free one NUMA node"
    );
    let victims = cache.victims(&important(5), &"a".into(), &named, now);
    assert_eq!(victims, None, "no NUMA node is that large");
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

/// A cache with one node, a pod reserved on it, and a pod that it rejects until then.
fn full(now: Instant) -> (Cache, Arc<PodInfo>, Arc<PodInfo>) {
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let other = observed_pod("other", 4, "1Gi", None, "Pending").info;
    let pending = observed_pod("pending", 4, "1Gi", None, "Pending").info;
    cache.apply_pod(observed_pod("pending", 4, "1Gi", None, "Pending"), now);
    cache.reserve(&other, &"a".into(), now).expect("free");
    assert_eq!(
        class(&mut cache, "pending", 4, "a"),
        Some(RejectionClass::Numa)
    );
    (cache, other, pending)
}

#[test]
fn a_pod_that_fits_within_the_requeue_interval_is_requeued_after_it() {
    let now = Instant::now();
    let (mut cache, other, pending) = full(now);
    let rejected = RejectedPods::default();
    rejected.add(pending.clone(), now);
    let requeues = |cache: &mut Cache, after: u64| {
        let changed = cache.take_changed();
        let requeues = rejected.requeues(cache, changed, now + Duration::from_secs(after));
        requeues.len()
    };
    assert_eq!(requeues(&mut cache, 0), 0);
    cache.release(other.uid(), now);
    assert_eq!(requeues(&mut cache, 0), 1);
    // Another pod is reserved first, and released within the requeue interval.
    cache.reserve(&other, &"a".into(), now).expect("free");
    assert_eq!(requeues(&mut cache, 1), 0);
    cache.release(other.uid(), now);
    assert_eq!(requeues(&mut cache, 2), 0);
    assert_eq!(requeues(&mut cache, 8), 1);
}

#[test]
fn a_pod_that_was_rejected_before_its_watch_event_is_requeued() {
    let now = Instant::now();
    let mut cache = cache(&[], now);
    let rejected = RejectedPods::default();
    let early = observed_pod("early", 4, "1Gi", None, "Pending").info;
    assert_eq!(
        class(&mut cache, "early", 4, "a"),
        Some(RejectionClass::UnknownNode)
    );
    rejected.add(early.clone(), now);
    let node = TestNode::new("a", "single-numa-node", "container");
    let (name, report) = node.report(now);
    cache.apply_node(node.info(), now);
    cache.apply_report(&name, report, now);
    let changed = cache.take_changed();
    assert_eq!(rejected.requeues(&mut cache, changed, now).len(), 1);
    // Deleted pods are not requeued, nor pods that were not rejected again for a long time.
    let late = now + seconds(3600);
    let requeues = |cache: &mut Cache, at: Instant| {
        let changed = vec![name.clone()];
        rejected.requeues(cache, changed, at).len()
    };
    assert_eq!(requeues(&mut cache, now + seconds(8)), 1);
    cache.delete_pod(early.uid(), now);
    assert_eq!(requeues(&mut cache, now + seconds(16)), 0);
    rejected.add(observed_pod("other", 4, "1Gi", None, "Pending").info, now);
    assert_eq!(requeues(&mut cache, late), 0);
}

#[test]
fn a_node_that_changes_while_it_rejects_a_pod_is_checked_again() {
    let now = Instant::now();
    let (mut cache, other, pending) = full(now);
    let rejected = RejectedPods::default();
    // The node gets room, and its change is processed, before the rejection is added.
    cache.release(other.uid(), now);
    let changed = cache.take_changed();
    assert_eq!(rejected.requeues(&mut cache, changed, now).len(), 0);
    rejected.add(pending.clone(), now);
    let requeues = rejected.requeues(&mut cache, Vec::new(), now + seconds(1));
    assert_eq!(requeues.len(), 1);
    // The API server is unreachable.
    for requeue in requeues {
        rejected.retry(requeue);
    }
    assert_eq!(
        rejected
            .requeues(&mut cache, Vec::new(), now + seconds(2))
            .len(),
        1
    );
    assert_eq!(
        rejected
            .requeues(&mut cache, Vec::new(), now + seconds(9))
            .len(),
        0
    );
}

/// A node with two pods: NUMA node 0 has 1 CPU and 6 GiB left, node 1 has 2 CPUs and 4 GiB.
fn tight(now: Instant) -> (TestNode, Cache) {
    let mut node = TestNode::new("a", "single-numa-node", "container");
    let pods = [("low", 2, "1Gi"), ("high", 2, "4Gi")];
    let pods =
        pods.map(|(uid, cpus, memory)| observed_pod(uid, cpus, memory, Some("a"), "Running"));
    for pod in &pods {
        assert!(node.admit(pod.info.request.pod()));
    }
    let mut cache = cache(&[&node], now);
    for pod in pods {
        cache.apply_pod(pod, now);
    }
    (node, cache)
}

#[test]
fn a_pod_is_not_reserved_where_a_deletion_could_make_it_misfit() {
    let now = Instant::now();
    let (mut node, mut cache) = tight(now);
    let info =
        |uid: &str, cpus: u32, memory: &str| observed_pod(uid, cpus, memory, None, "Pending").info;
    // `first` is placed on NUMA node 1; but if `low` is deleted before, on node 0, where it takes memory from `large`.
    let first = info("first", 2, "2Gi");
    cache.reserve(&first, &"a".into(), now).expect("free");
    let large = info("large", 1, "6Gi");
    let no_headroom =
        NodeVerdict::Rejected(RejectionClass::NoHeadroom, reason::NO_HEADROOM.to_owned());
    assert_eq!(cache.filter(&large, &["a"]), [no_headroom]);
    let rejected = cache.reserve(&large, &"a".into(), now);
    assert!(
        matches!(rejected, Err(ReserveError::NoHeadroom)),
        "{rejected:?}"
    );
    assert!(node.admit(first.request.pod()));
    let (name, report) = node.report(now);
    cache.apply_report(&name, report, now);
    cache.reserve(&large, &"a".into(), now).expect("room");
    assert!(node.admit(large.request.pod()));
}

#[test]
fn pods_that_fit_together_on_one_numa_node_are_reserved_at_once() {
    let now = Instant::now();
    let node = TestNode::new("a", "restricted", "container");
    let mut cache = cache(&[&node], now);
    // NUMA node 1 has four CPUs and 8 GiB.
    for (uid, cpus, memory) in [
        ("first", 1, "4Gi"),
        ("second", 2, "2Gi"),
        ("third", 1, "2Gi"),
    ] {
        let info = observed_pod(uid, cpus, memory, None, "Pending").info;
        cache.reserve(&info, &"a".into(), now).expect("free");
    }
    assert_eq!(
        class(&mut cache, "fourth", 1, "a"),
        Some(RejectionClass::NoHeadroom)
    );
    // A released reservation gives its headroom back.
    cache.release(&"second".into(), now);
    assert_eq!(class(&mut cache, "fourth", 1, "a"), None);
    assert_eq!(
        class(&mut cache, "fourth", 3, "a"),
        Some(RejectionClass::NoHeadroom)
    );
}

#[test]
fn headroom_is_not_required_where_stale_reports_pass() {
    let now = Instant::now();
    let (_, mut cache) = tight(now);
    cache.set_policy(lenient(), now);
    for (uid, cpus, memory) in [("first", 2, "2Gi"), ("large", 1, "6Gi")] {
        let info = observed_pod(uid, cpus, memory, None, "Pending").info;
        cache.reserve(&info, &"a".into(), now).expect("free");
    }
}

/// A Guaranteed pod of two containers, with CPUs and memory of each.
fn two_containers(uid: &str, amounts: [(u32, &str); 2]) -> Arc<PodInfo> {
    let mut pod = super::pod_json(uid, 1, "1Gi", None, "Pending");
    let containers = amounts.map(|(cpus, memory)| {
        let amounts = serde_json::json!({ "cpu": cpus.to_string(), "memory": memory });
        serde_json::json!({
            "name": format!("c{cpus}"), "image": "i",
            "resources": { "requests": amounts, "limits": amounts },
        })
    });
    pod["spec"]["containers"] = containers.to_vec().into();
    pod_info::parse(&pod.to_string()).expect("a pod").info
}

#[test]
fn a_pod_of_several_containers_waits_until_a_burst_of_deletions_is_over() {
    let now = Instant::now();
    let mut node = TestNode::new("a", "single-numa-node", "container");
    // Free afterwards: one CPU and 5 GiB on NUMA node 0, no CPU and 1 GiB on NUMA node 1.
    for (uid, cpus, memory) in [
        ("p", 1, "1Gi"),
        ("q", 1, "1Gi"),
        ("r", 2, "6Gi"),
        ("s", 2, "1Gi"),
    ] {
        let info = observed_pod(uid, cpus, memory, Some("a"), "Running").info;
        assert!(node.admit(info.request.pod()));
    }
    let mut cache = cache(&[&node], now);
    for (uid, cpus, memory) in [
        ("p", 1, "1Gi"),
        ("q", 1, "1Gi"),
        ("r", 2, "6Gi"),
        ("s", 2, "1Gi"),
    ] {
        cache.apply_pod(observed_pod(uid, cpus, memory, Some("a"), "Running"), now);
    }
    let pair = two_containers("pair", [(2, "1Gi"), (1, "5Gi")]);
    let single = observed_pod("single", 2, "1Gi", None, "Pending").info;
    node.terminate(&"s".into());
    cache.delete_pod(&"s".into(), now);
    // The kubelet would admit it now, but not if another pod is deleted first.
    assert!(node.would_admit(pair.request.pod()));
    let verdict = |cache: &mut Cache, info: &Arc<PodInfo>| cache.filter(info, &["a"]).remove(0);
    let no_headroom =
        NodeVerdict::Rejected(RejectionClass::NoHeadroom, reason::NO_HEADROOM.to_owned());
    assert_eq!(verdict(&mut cache, &pair), no_headroom);
    assert_eq!(verdict(&mut cache, &single), NodeVerdict::Fits);
    cache.tick(now + seconds(3));
    assert_eq!(verdict(&mut cache, &pair), NodeVerdict::Fits);
    node.terminate(&"p".into());
    cache.delete_pod(&"p".into(), now + seconds(3));
    assert!(!node.would_admit(pair.request.pod()));
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
