//! How long reservations count.

use std::time::Instant;

use super::node::TestNode;
use super::rules::class;
use super::{cache, observed_pod, seconds};
use crate::cache::{ProblemKind, ReserveError};
use crate::engine::reason::RejectionClass;

#[test]
fn an_unconfirmed_reservation_expires_after_a_pod_event_that_is_later_than_its_timeout() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.apply_pod(observed_pod("first", 4, "1Gi", None, "Pending"), now);
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.mark_unconfirmed(first.uid(), now);
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
    cache.mark_unconfirmed(first.uid(), now);
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
fn a_reservation_that_the_scheduler_holds_never_times_out() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.reserve(&first, &"a".into(), now).expect("free");
    let late = now + seconds(3600);
    cache.record_pod_event(late);
    cache.tick(late);
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
}

#[test]
fn a_restored_reservation_counts_although_the_node_was_not_asked() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let held = observed_pod("held", 4, "1Gi", None, "Pending").info;
    cache.restore_reservation(&held, &"a".into(), now);
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    cache.restore_reservation(&held, &"a".into(), now);
    assert_eq!(cache.reservations().count(), 1);
    cache.apply_pod(observed_pod("held", 4, "1Gi", Some("a"), "Pending"), now);
    assert_eq!(cache.reservations().count(), 0);
    cache.restore_reservation(&held, &"a".into(), now);
    assert_eq!(cache.reservations().count(), 0, "it is bound");
}

#[test]
fn reservations_of_a_scheduler_that_is_gone_stay_until_their_result_is_known() {
    let now = Instant::now();
    let node = TestNode::new("a", "single-numa-node", "container");
    let mut cache = cache(&[&node], now);
    let first = observed_pod("first", 4, "1Gi", None, "Pending").info;
    cache.apply_pod(observed_pod("first", 4, "1Gi", None, "Pending"), now);
    cache.reserve(&first, &"a".into(), now).expect("free");
    cache.mark_all_unconfirmed(now + seconds(100));
    cache.record_pod_event(now + seconds(120));
    cache.tick(now + seconds(120));
    assert_eq!(
        class(&mut cache, "second", 4, "a"),
        Some(RejectionClass::Numa)
    );
    cache.record_pod_event(now + seconds(131));
    cache.tick(now + seconds(131));
    assert_eq!(class(&mut cache, "second", 4, "a"), None);
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
