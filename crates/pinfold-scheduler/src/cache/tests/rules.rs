//! Rules one by one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_core::name::PodUid;

use super::node::Node;
use super::{cache, found, policy, seconds};
use crate::cache::pod::Asked;
use crate::cache::{Cache, Kind, NotReserved, Policy};
use crate::config::Doubt;
use crate::extender::filter::Said;
use crate::extender::reason::{self, Class};
use crate::wake::Waiting;

fn class(cache: &mut Cache, uid: &str, cpus: u32, node: &str) -> Option<Class> {
    let asked = found(uid, cpus, "1Gi", None, "Pending").asked;
    match cache.filter(&asked, &[node]).remove(0) {
        Said::Yes => None,
        Said::No(class, _) => Some(class),
    }
}

/// Nodes in doubt are not rejected.
fn lenient() -> Policy {
    let mut lenient = policy();
    lenient.nodes.behind = Doubt::Pass;
    lenient
}

#[test]
fn a_node_is_asked_as_its_kubelet_would_be() {
    let now = Instant::now();
    let strict = Node::new("strict", "single-numa-node", "container");
    let loose = Node::new("loose", "none", "container");
    let mut cache = cache(&[&strict, &loose], now);
    // NUMA node 0 has three CPUs that are not reserved, node 1 has four.
    assert_eq!(class(&mut cache, "a", 4, "strict"), None);
    assert_eq!(class(&mut cache, "a", 5, "strict"), Some(Class::Numa));
    assert_eq!(class(&mut cache, "a", 5, "loose"), None);
    assert_eq!(class(&mut cache, "a", 8, "loose"), Some(Class::Numa));
    assert_eq!(class(&mut cache, "a", 9, "loose"), Some(Class::Room));
    assert_eq!(class(&mut cache, "a", 1, "elsewhere"), Some(Class::Unknown));
    let asked = found("a", 5, "1Gi", None, "Pending").asked;
    let said = cache.filter(&asked, &["strict"]);
    let words = "NUMA: cpu: 5 asked, at most 4 free on one NUMA node";
    assert_eq!(said, [Said::No(Class::Numa, words.to_owned())]);
}

#[test]
fn a_promise_counts_at_once_and_until_the_report_has_the_pod() {
    let now = Instant::now();
    let mut node = Node::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = found("first", 4, "1Gi", None, "Pending").asked;
    cache.reserve(&first, &"a".into(), now).expect("free");
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
    let again = cache.reserve(&first, &"a".into(), now);
    assert!(matches!(again, Err(NotReserved::Already(_))));
    cache.bound(first.uid());
    // The report that was made before it changes nothing.
    node.over(&"nobody".into());
    cache.put_pod(found("first", 4, "1Gi", Some("a"), "Pending"), now);
    assert_eq!(cache.reservations().count(), 0);
    let (name, mut heard) = node.report(now);
    heard.version = "late".to_owned();
    cache.put_report(&name, heard, now);
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
    assert!(node.admit(first.ask.pod()));
    let (name, heard) = node.report(now);
    cache.put_report(&name, heard, now);
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
    assert_eq!(class(&mut cache, "second", 3, "a"), None);
}

#[test]
fn a_promise_that_failed_is_free_again() {
    let now = Instant::now();
    let node = Node::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = found("first", 4, "1Gi", None, "Pending").asked;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.release(first.uid(), now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
    assert_eq!(cache.reservations().count(), 0);
}

#[test]
fn a_promise_of_unknown_outcome_ends_when_news_came_in_after_its_time() {
    let now = Instant::now();
    let node = Node::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = found("first", 4, "1Gi", None, "Pending").asked;
    cache.put_pod(found("first", 4, "1Gi", None, "Pending"), now);
    cache.reserve(&first, &"a".into(), now).expect("free");
    let late = now + seconds(3600);
    cache.tick(late);
    assert_eq!(cache.reservations().count(), 1, "nothing was heard since");
    cache.pods_heard(late);
    cache.tick(late);
    assert_eq!(cache.reservations().count(), 0);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
    let told = cache.take_problems();
    assert!(
        told.iter()
            .any(|told| told.event == "reservation timed out")
    );
}

#[test]
fn a_binding_of_unknown_outcome_is_tried_again_on_the_same_node_only() {
    let now = Instant::now();
    let nodes = ["a", "b"].map(|name| Node::new(name, "single-numa-node", "container"));
    let mut cache = cache(&[&nodes[0], &nodes[1]], now);
    let first = found("first", 4, "1Gi", None, "Pending").asked;
    cache.put_pod(found("first", 4, "1Gi", None, "Pending"), now);
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.doubt(first.uid());
    assert_eq!(class(&mut cache, "first", 4, "a"), None);
    assert_eq!(class(&mut cache, "first", 4, "b"), Some(Class::Pod));
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
    let elsewhere = cache.reserve(&first, &"b".into(), now);
    assert!(matches!(elsewhere, Err(NotReserved::Already(_))));
    cache
        .reserve(&first, &"a".into(), now)
        .expect("its own place");
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
    assert_eq!(cache.reservations().count(), 1);
}

#[test]
fn a_binding_that_the_server_took_is_never_given_up_by_time() {
    let now = Instant::now();
    let node = Node::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = found("first", 4, "1Gi", None, "Pending").asked;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.bound(first.uid());
    let late = now + seconds(3600);
    cache.pods_heard(late);
    cache.tick(late);
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
}

#[test]
fn who_left_is_gone_before_the_report_says_so() {
    let now = Instant::now();
    let mut node = Node::new("a", "single-numa-node", "container");
    let first = found("first", 4, "1Gi", Some("a"), "Running");
    assert!(node.admit(first.asked.ask.pod()));
    let mut cache = cache(&[&node], now);
    cache.put_pod(first, now);
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
    cache.forget_pod(&"first".into(), now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
    // A late repetition of the same report does not bring it back.
    let (name, mut heard) = node.report(now);
    heard.version = "late".to_owned();
    cache.put_report(&name, heard, now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
}

#[test]
fn whom_only_the_report_knows_counts_until_all_pods_were_listed_after_it() {
    let now = Instant::now();
    let mut node = Node::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let stranger = found("stranger", 4, "1Gi", Some("a"), "Running");
    assert!(node.admit(stranger.asked.ask.pod()));
    let later = now + seconds(1);
    let (name, heard) = node.report(later);
    cache.put_report(&name, heard, later);
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
    let last = now + seconds(2);
    cache.replace_pods(Vec::new(), last, last);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
}

#[test]
fn a_report_that_lacks_a_running_pod_is_behind_and_not_trusted() {
    let now = Instant::now();
    let node = Node::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    cache.put_pod(found("first", 2, "1Gi", Some("a"), "Running"), now);
    assert_eq!(class(&mut cache, "second", 1, "a"), None);
    cache.tick(now + seconds(61));
    assert_eq!(class(&mut cache, "second", 1, "a"), Some(Class::Behind));
    let shared = super::pod::read(serde_json::json!({
        "metadata": { "name": "plain", "namespace": "default", "uid": "plain" },
        "spec": { "containers": [{ "name": "main", "image": "i" }] },
    }));
    let shared = shared.expect("a pod").asked;
    assert_eq!(
        cache.filter(&shared, &["a"]),
        [Said::Yes],
        "it needs nothing"
    );
    cache.forget_pod(&"first".into(), now + seconds(62));
    assert_eq!(class(&mut cache, "second", 1, "a"), None);
}

#[test]
fn a_reporter_that_names_no_pods_is_believed_when_it_must_have_looked() {
    let now = Instant::now();
    let mut node = Node::new("a", "single-numa-node", "container");
    let mut cache = Cache::new(policy());
    cache.put_node(node.found(), now);
    let (name, heard) = node.counts(now);
    cache.put_report(&name, heard, now);
    assert_eq!(
        cache.nodes().map(|(_, node)| node.kind).last(),
        Some(Kind::Kubelet)
    );
    let first = found("first", 4, "1Gi", Some("a"), "Running");
    cache.put_pod(first.clone(), now);
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
    assert!(node.admit(first.asked.ask.pod()));
    let later = now + seconds(5);
    let (name, heard) = node.counts(later);
    cache.put_report(&name, heard, later);
    assert_eq!(class(&mut cache, "second", 4, "a"), Some(Class::Numa));
    assert_eq!(
        class(&mut cache, "second", 3, "a"),
        None,
        "not counted twice"
    );
}

#[test]
fn nonsense_about_one_node_disturbs_no_other() {
    let now = Instant::now();
    let (a, b) = (
        Node::new("a", "single-numa-node", "container"),
        Node::new("b", "single-numa-node", "container"),
    );
    let mut cache = cache(&[&a, &b], now);
    let (name, heard) = a.nonsense(now);
    cache.put_report(&name, heard, now);
    assert_eq!(class(&mut cache, "x", 1, "a"), Some(Class::Unreadable));
    assert_eq!(class(&mut cache, "x", 1, "b"), None);
    let told = cache.take_problems();
    assert!(told.iter().any(|told| told.what == "a"), "{told:?}");
    let (name, heard) = a.report(now);
    cache.put_report(&name, heard, now);
    assert_eq!(class(&mut cache, "x", 1, "a"), None);
}

#[test]
fn a_node_that_was_deleted_takes_nobody_and_its_promises_end_with_their_pods() {
    let now = Instant::now();
    let node = Node::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = found("first", 4, "1Gi", None, "Pending").asked;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.forget_node(&"a".into(), now);
    assert_eq!(class(&mut cache, "second", 1, "a"), Some(Class::Unknown));
    cache.forget_pod(&PodUid::from("first"), now);
    assert_eq!(cache.reservations().count(), 0);
    cache.put_node(node.found(), now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
}

#[test]
fn a_pod_that_somebody_else_put_elsewhere_is_there_and_not_here() {
    let now = Instant::now();
    let (a, b) = (
        Node::new("a", "single-numa-node", "container"),
        Node::new("b", "single-numa-node", "container"),
    );
    let mut cache = cache(&[&a, &b], now);
    let first = found("first", 4, "1Gi", None, "Pending").asked;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.put_pod(found("first", 4, "1Gi", Some("b"), "Pending"), now);
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
    assert_eq!(class(&mut cache, "second", 4, "b"), Some(Class::Numa));
}

#[test]
fn the_fewest_victims_are_those_that_free_an_aligned_place() {
    let now = Instant::now();
    let mut node = Node::new("a", "single-numa-node", "container");
    let mut pods = Vec::new();
    // Three CPUs of node 0, then two and two of node 1.
    for (uid, cpus) in [("three", 3), ("two", 2), ("also-two", 2)] {
        let pod = found(uid, cpus, "1Gi", Some("a"), "Running");
        assert!(node.admit(pod.asked.ask.pod()), "{uid}");
        pods.push(pod);
    }
    let mut cache = cache(&[&node], now);
    for pod in pods {
        cache.put_pod(pod, now);
    }
    let important = |cpus: u32| {
        let mut pod = super::pod_json("big", cpus, "1Gi", None, "Pending");
        pod["spec"]["priority"] = 1000.into();
        super::pod::read(pod).expect("a pod").asked
    };
    let named: Vec<PodUid> = vec!["two".into(), "three".into()];
    let victims = cache.victims(&important(3), &"a".into(), &named, now);
    assert_eq!(victims, Some(vec!["three".into()]), "one is enough");
    let victims = cache.victims(&important(4), &"a".into(), &named, now);
    assert_eq!(
        victims,
        Some(vec!["two".into(), "also-two".into()]),
        "together they are aligned"
    );
    let victims = cache.victims(&important(5), &"a".into(), &named, now);
    assert_eq!(victims, None, "nobody's leaving makes a NUMA node larger");
}

#[test]
fn a_binding_under_koordinator_says_which_cpus() {
    let now = Instant::now();
    let node = Node::new("a", "none", "container").under_koordinator();
    let mut cache = cache(&[&node], now);
    assert_eq!(
        cache.nodes().map(|(_, node)| node.kind).last(),
        Some(Kind::Koordinator)
    );
    let mut pod = super::pod_json("lsr", 2, "1Gi", None, "Pending");
    pod["metadata"]["labels"] = serde_json::json!({
        "koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod",
    });
    let asked = super::pod::read(pod).expect("a pod").asked;
    assert_eq!(cache.filter(&asked, &["a"]), [Said::Yes]);
    let reserved = cache.reserve(&asked, &"a".into(), now).expect("free");
    assert_eq!(reserved.placement.cpus.len(), 2);
    assert_eq!(reserved.generation.as_deref(), Some("7"));
}

#[test]
fn who_was_placed_after_a_pod_that_never_came_is_placed_without_it() {
    let now = Instant::now();
    let mut node = Node::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    cache.set_policy(lenient(), now);
    let first = found("first", 3, "1Gi", None, "Pending").asked;
    let second = found("second", 3, "1Gi", None, "Pending").asked;
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.reserve(&second, &"a".into(), now).expect("free");
    cache.release(first.uid(), now);
    // The kubelet sees the second one alone and gives it NUMA node 0.
    assert!(node.admit(second.ask.pod()));
    assert_eq!(class(&mut cache, "third", 4, "a"), None);
    assert!(node.would_admit(found("third", 4, "1Gi", None, "Pending").asked.ask.pod()));
}

/// A node that was promised to one pod, and that one, and another that waits for it.
fn full(now: Instant) -> (Cache, Arc<Asked>, Arc<Asked>) {
    let node = Node::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let other = found("other", 4, "1Gi", None, "Pending").asked;
    let waits = found("waits", 4, "1Gi", None, "Pending").asked;
    cache.put_pod(found("waits", 4, "1Gi", None, "Pending"), now);
    cache.reserve(&other, &"a".into(), now).expect("free");
    assert_eq!(class(&mut cache, "waits", 4, "a"), Some(Class::Numa));
    (cache, other, waits)
}

#[test]
fn a_place_that_comes_free_while_a_pod_rests_is_told_it_later() {
    let now = Instant::now();
    let (mut cache, other, waits) = full(now);
    let waiting = Waiting::default();
    waiting.rejected(waits.clone(), now);
    let free = |cache: &mut Cache, after: u64| {
        let changed = cache.take_changed();
        let freed = waiting.freed(cache, changed, now + Duration::from_secs(after));
        freed.len()
    };
    assert_eq!(free(&mut cache, 0), 0);
    cache.release(other.uid(), now);
    assert_eq!(free(&mut cache, 0), 1);
    // Somebody is quicker, and leaves again while the pod rests.
    cache.reserve(&other, &"a".into(), now).expect("free");
    assert_eq!(free(&mut cache, 1), 0);
    cache.release(other.uid(), now);
    assert_eq!(free(&mut cache, 2), 0);
    assert_eq!(free(&mut cache, 8), 1);
}

#[test]
fn a_pod_that_was_rejected_before_anybody_heard_of_it_is_told_of_its_place() {
    let now = Instant::now();
    let mut cache = cache(&[], now);
    let waiting = Waiting::default();
    let early = found("early", 4, "1Gi", None, "Pending").asked;
    assert_eq!(class(&mut cache, "early", 4, "a"), Some(Class::Unknown));
    waiting.rejected(early.clone(), now);
    let node = Node::new("a", "single-numa-node", "container");
    let (name, heard) = node.report(now);
    cache.put_node(node.found(), now);
    cache.put_report(&name, heard, now);
    let changed = cache.take_changed();
    assert_eq!(waiting.freed(&mut cache, changed, now).len(), 1);
    // Who is gone is not told anything, nor who has not been asked about for long.
    let late = now + seconds(3600);
    let woken = |cache: &mut Cache, at: Instant| waiting.freed(cache, vec![name.clone()], at).len();
    assert_eq!(woken(&mut cache, now + seconds(8)), 1);
    cache.forget_pod(early.uid(), now);
    assert_eq!(woken(&mut cache, now + seconds(16)), 0);
    waiting.rejected(found("stranger", 4, "1Gi", None, "Pending").asked, now);
    assert_eq!(woken(&mut cache, late), 0);
}

#[test]
fn a_node_that_changes_while_it_rejects_a_pod_is_looked_at_again() {
    let now = Instant::now();
    let (mut cache, other, waits) = full(now);
    let waiting = Waiting::default();
    // Its place comes free, and that is looked at, before the rejection is written down.
    cache.release(other.uid(), now);
    let changed = cache.take_changed();
    assert_eq!(waiting.freed(&mut cache, changed, now).len(), 0);
    waiting.rejected(waits.clone(), now);
    let freed = waiting.freed(&mut cache, Vec::new(), now + seconds(1));
    assert_eq!(freed.len(), 1);
    // The API server was away.
    for free in freed {
        waiting.not_touched(free);
    }
    assert_eq!(
        waiting
            .freed(&mut cache, Vec::new(), now + seconds(2))
            .len(),
        1
    );
    assert_eq!(
        waiting
            .freed(&mut cache, Vec::new(), now + seconds(9))
            .len(),
        0
    );
}

/// A node with two pods: NUMA node 0 keeps 1 CPU and 6 GiB, node 1 keeps 2 CPUs and 4 GiB.
fn tight(now: Instant) -> (Node, Cache) {
    let mut node = Node::new("a", "single-numa-node", "container");
    let there = [("low", 2, "1Gi"), ("high", 2, "4Gi")];
    let there = there.map(|(uid, cpus, memory)| found(uid, cpus, memory, Some("a"), "Running"));
    for pod in &there {
        assert!(node.admit(pod.asked.ask.pod()));
    }
    let mut cache = cache(&[&node], now);
    for pod in there {
        cache.put_pod(pod, now);
    }
    (node, cache)
}

#[test]
fn a_place_that_hangs_on_who_leaves_first_is_not_promised() {
    let now = Instant::now();
    let (mut node, mut cache) = tight(now);
    let asked =
        |uid: &str, cpus: u32, memory: &str| found(uid, cpus, memory, None, "Pending").asked;
    // It will be on node 1; but on node 0, where it takes memory from the next one, if `low` leaves before.
    let first = asked("first", 2, "2Gi");
    cache.reserve(&first, &"a".into(), now).expect("free");
    let large = asked("large", 1, "6Gi");
    let busy = Said::No(Class::Busy, reason::BUSY.to_owned());
    assert_eq!(cache.filter(&large, &["a"]), [busy]);
    let rejected = cache.reserve(&large, &"a".into(), now);
    assert!(
        matches!(rejected, Err(NotReserved::NotFirm)),
        "{rejected:?}"
    );
    assert!(node.admit(first.ask.pod()));
    let (name, heard) = node.report(now);
    cache.put_report(&name, heard, now);
    cache.reserve(&large, &"a".into(), now).expect("its place");
    assert!(node.admit(large.ask.pod()));
}

#[test]
fn who_fits_on_one_numa_node_together_is_promised_at_once() {
    let now = Instant::now();
    let node = Node::new("a", "restricted", "container");
    let mut cache = cache(&[&node], now);
    // NUMA node 1 has four CPUs and 8 GiB.
    for (uid, cpus, memory) in [
        ("first", 1, "4Gi"),
        ("second", 2, "2Gi"),
        ("third", 1, "2Gi"),
    ] {
        let asked = found(uid, cpus, memory, None, "Pending").asked;
        cache.reserve(&asked, &"a".into(), now).expect("free");
    }
    assert_eq!(class(&mut cache, "fourth", 1, "a"), Some(Class::Busy));
    // A promise that is taken back leaves what it would have taken.
    cache.release(&"second".into(), now);
    assert_eq!(class(&mut cache, "fourth", 1, "a"), None);
    assert_eq!(class(&mut cache, "fourth", 3, "a"), Some(Class::Busy));
}

#[test]
fn a_place_that_hangs_on_who_leaves_first_is_promised_where_doubts_pass() {
    let now = Instant::now();
    let (_, mut cache) = tight(now);
    cache.set_policy(lenient(), now);
    for (uid, cpus, memory) in [("first", 2, "2Gi"), ("large", 1, "6Gi")] {
        let asked = found(uid, cpus, memory, None, "Pending").asked;
        cache.reserve(&asked, &"a".into(), now).expect("free");
    }
}
