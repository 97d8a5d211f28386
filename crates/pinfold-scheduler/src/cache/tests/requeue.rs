//! Which rejected pods are requeued.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_core::name::PodUid;

use super::node::TestNode;
use super::rules::class;
use super::{cache, observed_pod, seconds};
use crate::cache::Cache;
use crate::cache::pod_info::{self, PodInfo};
use crate::engine::reason::RejectionClass;
use crate::requeue::RejectedPods;
use crate::weights::Weights;

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

/// Evaluates a pod on all nodes, and remembers which rejected it.
fn evaluate(rejected: &RejectedPods, cache: &mut Cache, info: &Arc<PodInfo>, at: Instant) -> usize {
    let answer = cache.pre_filter(info, &Weights::default());
    let fits = answer.fitting.fits.count();
    rejected.add(info.clone(), answer.fitting, answer.postponed, at);
    fits
}

#[test]
fn a_pod_is_requeued_once_when_a_node_that_rejected_it_takes_it() {
    let now = Instant::now();
    let (mut cache, other, pending) = full(now);
    let rejected = RejectedPods::default();
    assert_eq!(evaluate(&rejected, &mut cache, &pending, now), 0);
    let requeues = |cache: &mut Cache, after: u64| {
        let changed = cache.take_changed();
        let requeues = rejected.requeues(cache, changed, now + seconds(after));
        requeues.len()
    };
    assert_eq!(requeues(&mut cache, 0), 0);
    cache.release(other.uid(), now);
    assert_eq!(requeues(&mut cache, 0), 1);
    cache.reserve(&other, &"a".into(), now).expect("free");
    cache.release(other.uid(), now);
    assert_eq!(requeues(&mut cache, 1), 0, "it is in the queue already");
    // It was evaluated again, and the node took it: another plugin rejects it there.
    assert_eq!(
        evaluate(&rejected, &mut cache, &pending, now + seconds(2)),
        1
    );
    cache.reserve(&other, &"a".into(), now).expect("free");
    cache.release(other.uid(), now);
    assert_eq!(requeues(&mut cache, 3), 0, "the node took it before");
    rejected.reject(pending.uid(), &"a".into());
    cache.reserve(&other, &"a".into(), now).expect("free");
    cache.release(other.uid(), now);
    assert_eq!(
        requeues(&mut cache, 4),
        1,
        "the node rejected it in between"
    );
}

#[test]
fn a_pod_that_was_rejected_before_its_watch_event_is_requeued() {
    let now = Instant::now();
    let mut cache = cache(&[], now);
    let rejected = RejectedPods::default();
    let early = observed_pod("early", 4, "1Gi", None, "Pending").info;
    assert_eq!(evaluate(&rejected, &mut cache, &early, now), 0);
    let node = TestNode::new("a", "single-numa-node", "container");
    let (name, report) = node.report(now);
    cache.apply_node(node.info(), now);
    cache.apply_report(&name, report, now);
    let changed = cache.take_changed();
    assert_eq!(rejected.requeues(&mut cache, changed, now).len(), 1);
    // Deleted pods are not requeued, nor pods that were not rejected again for a long time.
    let requeues = |cache: &mut Cache, at: Instant| {
        let changed = vec![name.clone()];
        rejected.requeues(cache, changed, at).len()
    };
    let full = observed_pod("full", 4, "1Gi", None, "Pending").info;
    cache.reserve(&full, &"a".into(), now).expect("free");
    evaluate(&rejected, &mut cache, &early, now);
    cache.release(full.uid(), now);
    cache.delete_pod(early.uid(), now);
    assert_eq!(requeues(&mut cache, now + seconds(16)), 0);
    cache.reserve(&full, &"a".into(), now).expect("free");
    let other = observed_pod("other", 4, "1Gi", None, "Pending").info;
    evaluate(&rejected, &mut cache, &other, now);
    cache.release(full.uid(), now);
    assert_eq!(requeues(&mut cache, now + seconds(3600)), 0);
}

#[test]
fn a_node_that_changes_while_it_rejects_a_pod_is_checked_again() {
    let now = Instant::now();
    let (mut cache, other, pending) = full(now);
    let rejected = RejectedPods::default();
    let answer = cache.pre_filter(&pending, &Weights::default());
    // The node gets room, and its change is processed, before the rejection is added.
    cache.release(other.uid(), now);
    let changed = cache.take_changed();
    assert_eq!(rejected.requeues(&mut cache, changed, now).len(), 0);
    rejected.add(pending.clone(), answer.fitting, false, now);
    let requeues = rejected.requeues(&mut cache, Vec::new(), now + seconds(1));
    assert_eq!(requeues.len(), 1);
}

/// A Guaranteed pod of so many containers. In sum they request more than any node of these tests has.
fn many_containers(uid: &str, count: usize) -> Arc<PodInfo> {
    let mut pod = super::pod_json(uid, 1, "1Mi", None, "Pending");
    let amounts = serde_json::json!({ "cpu": "100m", "memory": "1Ki" });
    let containers = (0..count).map(|number| {
        serde_json::json!({ "name": format!("c{number}"), "image": "i",
            "resources": { "requests": amounts, "limits": amounts } })
    });
    pod["spec"]["containers"] = containers.collect();
    pod_info::parse(&pod.to_string()).expect("a pod").info
}

#[test]
fn a_pod_with_too_many_containers_for_all_nodes_is_evaluated_in_parts_and_retried_once_a_second() {
    let now = Instant::now();
    let name = |number: usize| format!("n{number:03}");
    let nodes: Vec<TestNode> = (0..120)
        .map(|number| TestNode::new(&name(number), "single-numa-node", "container"))
        .collect();
    let mut cache = cache(&nodes.iter().collect::<Vec<_>>(), now);
    // No two nodes are in the same state.
    for number in 0..120 {
        let node = name(number);
        let mut pod = super::pod_json(&format!("on-{node}"), 1, "1Mi", Some(&node), "Running");
        let amounts = serde_json::json!({ "cpu": "1m", "memory": format!("{}Ki", number + 1) });
        pod["spec"]["containers"][0]["resources"] = serde_json::json!({ "requests": amounts });
        cache.apply_pod(pod_info::parse(&pod.to_string()).expect("a pod"), now);
    }
    cache.take_changed();
    let rejected = RejectedPods::default();
    let postponed = |cache: &mut Cache, info: &Arc<PodInfo>| {
        let answer = cache.pre_filter(info, &Weights::default());
        rejected.add(info.clone(), answer.fitting, answer.postponed, now);
        let groups = answer.rejections.iter();
        let of_class = groups.filter(|group| group.class == RejectionClass::Postponed);
        of_class.map(|group| group.nodes.count()).sum::<usize>()
    };
    assert_eq!(postponed(&mut cache, &many_containers("big", 1000)), 20);
    let next = many_containers("next", 1000);
    assert_eq!(
        postponed(&mut cache, &next),
        0,
        "the first part is remembered"
    );
    for number in 0..5 {
        let info = many_containers(&format!("big-{number}"), 900 + number);
        assert!(postponed(&mut cache, &info) > 0, "{number}");
    }
    let mut requeued = Vec::new();
    for tenth in 0..30 {
        let at = now + Duration::from_millis(tenth * 100);
        let pods = rejected.requeues(&mut cache, Vec::new(), at);
        assert!(pods.len() <= 1, "{pods:?}");
        requeued.extend(pods);
    }
    let requeued: Vec<&str> = requeued.iter().map(PodUid::as_str).collect();
    assert_eq!(
        requeued,
        ["big", "big-0", "big-1"],
        "one a second, the oldest first"
    );
}

#[test]
fn waiting_pods_are_checked_by_priority_then_by_age_and_few_are_requeued_at_once() {
    let now = Instant::now();
    let (mut cache, other, _) = full(now);
    let rejected = RejectedPods::default();
    for number in 0..300 {
        let uid = format!("waiting-{number}");
        let mut pod = super::pod_json(&uid, 4, "1Gi", None, "Pending");
        pod["spec"]["priority"] = i32::from(number == 250).into();
        let pod = pod_info::parse(&pod.to_string()).expect("a pod");
        let info = pod.info.clone();
        cache.apply_pod(pod, now);
        assert_eq!(evaluate(&rejected, &mut cache, &info, now), 0);
    }
    cache.take_changed();
    cache.release(other.uid(), now);
    let mut all: Vec<PodUid> = Vec::new();
    // Other nodes change all the time.
    for pass in 0..20 {
        let changed = match pass {
            0 => cache.take_changed(),
            _ => vec!["elsewhere".into()],
        };
        let at = now + Duration::from_millis(pass * 100);
        let some = rejected.requeues(&mut cache, changed, at);
        if pass < 10 {
            all.extend(some);
            assert!(all.len() <= 64, "{} in one second", all.len());
        } else {
            all.extend(some);
        }
    }
    let first: Vec<&str> = all.iter().take(3).map(PodUid::as_str).collect();
    assert_eq!(first, ["waiting-250", "waiting-0", "waiting-1"]);
    assert_eq!(all.len(), 128, "the next ones in the next second");
}
