//! Whether a node takes a further pod beside its unreported ones.

use std::sync::Arc;
use std::time::Instant;

use super::node::TestNode;
use super::rules::{class, lenient};
use super::{cache, observed_pod, seconds};
use crate::cache::pod_info::{self, PodInfo};
use crate::cache::{Cache, ReserveError};
use crate::engine::filter::NodeVerdict;
use crate::engine::reason::RejectionClass;

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
    let no_headroom = NodeVerdict::Rejected(
        RejectionClass::NoHeadroom,
        RejectionClass::NoHeadroom.text().to_owned(),
    );
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
fn a_pod_is_not_reserved_where_a_deletion_after_the_filter_made_placements_uncertain() {
    let now = Instant::now();
    let (_, mut cache) = tight(now);
    let [first, small] =
        ["first", "small"].map(|uid| observed_pod(uid, 1, "1Gi", None, "Pending").info);
    cache.reserve(&first, &"a".into(), now).expect("free");
    assert_eq!(cache.filter(&small, &["a"]), [NodeVerdict::Fits]);
    cache.delete_pod(&"low".into(), now);
    let rejected = cache.reserve(&small, &"a".into(), now);
    assert!(
        matches!(rejected, Err(ReserveError::NoHeadroom)),
        "{rejected:?}"
    );
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
    let no_headroom = NodeVerdict::Rejected(
        RejectionClass::NoHeadroom,
        RejectionClass::NoHeadroom.text().to_owned(),
    );
    assert_eq!(verdict(&mut cache, &pair), no_headroom);
    assert_eq!(verdict(&mut cache, &single), NodeVerdict::Fits);
    cache.tick(now + seconds(3));
    assert_eq!(verdict(&mut cache, &pair), NodeVerdict::Fits);
    node.terminate(&"p".into());
    cache.delete_pod(&"p".into(), now + seconds(3));
    assert!(!node.would_admit(pair.request.pod()));
}

#[test]
fn nodes_that_reject_by_the_sums_only_need_no_headroom() {
    let now = Instant::now();
    let with_memory = TestNode::new("memory", "best-effort", "container");
    let nodes = [
        ("none", TestNode::without_memory_manager("none", "none")),
        (
            "best-effort",
            TestNode::without_memory_manager("best-effort", "best-effort"),
        ),
        ("memory", with_memory),
        (
            "single",
            TestNode::without_memory_manager("single", "single-numa-node"),
        ),
    ];
    for (name, node) in nodes {
        let mut cache = cache(&[&node], now);
        for uid in ["first", "second"] {
            let info = observed_pod(uid, 2, "1Gi", None, "Pending").info;
            cache.reserve(&info, &name.into(), now).expect("free");
        }
        // Three CPUs are free, and no slot of three.
        let expected = match name {
            "none" | "best-effort" => None,
            "memory" => Some(RejectionClass::NoHeadroom),
            _ => Some(RejectionClass::Numa),
        };
        assert_eq!(class(&mut cache, "third", 3, name), expected, "{name}");
    }
}

#[test]
fn equal_pods_fill_all_numa_nodes_without_waiting_for_reports() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    // Three and four CPUs: one slot of two and two.
    for uid in ["first", "second", "third"] {
        let info = observed_pod(uid, 2, "1Gi", None, "Pending").info;
        cache.reserve(&info, &"a".into(), now).expect("a slot");
    }
    assert_eq!(
        class(&mut cache, "fourth", 2, "a"),
        Some(RejectionClass::Numa)
    );
}
