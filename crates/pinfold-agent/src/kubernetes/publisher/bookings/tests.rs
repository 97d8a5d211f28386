//! What the agent writes while pods start and end, and what vc-scheduler keeps of it.

use std::sync::Arc;
use std::time::Duration;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::PodUid;
use pinfold_kube::pod::ApiPod;
use pinfold_kube::pod_fingerprint::{ExclusiveKinds, FingerprintMethod};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Bookings, LONGEST_HOLD, Step, Then, free};
use crate::kubernetes::pod_cache::CachedPod;
use crate::kubernetes::pod_set::PodSetFingerprint;

fn object(free: &str) -> Value {
    let mut cpu = json!({ "capacity": 8 });
    if !free.is_empty() {
        cpu["allocatable"] = free.into();
    }
    json!({ "spec": { "numares": { "cpu": cpu } } })
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse(list).expect("a list")
}

fn pod(uid: &str, cpu: &str, phase: &str) -> CachedPod {
    let amounts = json!({ "cpu": cpu, "memory": "1Mi" });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": uid, "namespace": "default", "uid": uid },
        "spec": { "nodeName": "worker-1", "containers": [
            { "name": "main", "image": "i", "resources": { "requests": amounts, "limits": amounts } },
        ] },
        "status": { "phase": phase },
    });
    let pod = ApiPod::parse(&pod.to_string()).expect("a pod");
    CachedPod {
        containers: pod.containers,
        phase: pod.phase,
        status_phase: pod.status_phase,
        object: Arc::new(pod.object),
    }
}

fn report(accounted: &[&str]) -> PodSetFingerprint {
    PodSetFingerprint {
        method: FingerprintMethod::All,
        accounted: accounted.iter().map(|uid| PodUid::from(*uid)).collect(),
        tracked: ExclusiveKinds {
            cpus: true,
            ..ExclusiveKinds::default()
        },
    }
}

/// What vc-scheduler knows: the free CPUs of the last write, and its copy without the CPUs that it booked.
struct Scheduler {
    read: CpuSet,
    copy: CpuSet,
}

impl Scheduler {
    fn reads(&mut self, object: &Value) {
        let free = free(object).expect("CPUs");
        let replaces = self.read.len() <= free.len() || self.copy.len() >= free.len();
        if replaces {
            self.copy = free.clone();
        }
        self.read = free;
    }
}

#[test]
fn cpus_that_are_taken_and_freed_at_once_are_written_in_two_steps() {
    let bookings = Bookings::default();
    let now = Instant::now();
    // A pod with CPU 1 ended, and one with CPUs 2-4 started.
    let (before, after) = (object("2-7"), object("1,5-7"));
    let mut scheduler = Scheduler {
        read: cpus("2-7"),
        copy: cpus("5-7"),
    };
    let Step::Part(part, Then::AtOnce) = bookings.step(&before, &after, now) else {
        panic!("two writes");
    };
    assert_eq!(part, object("5-7"));
    scheduler.reads(&part);
    assert_eq!(bookings.step(&part, &after, now), Step::All(None));
    scheduler.reads(&after);
    assert_eq!(scheduler.copy, cpus("1,5-7"));
    // In one write vc-scheduler does not see that CPU 1 is free.
    let mut at_once = Scheduler {
        read: cpus("2-7"),
        copy: cpus("5-7"),
    };
    at_once.reads(&after);
    assert_eq!(at_once.copy, cpus("5-7"));
}

#[test]
fn freed_cpus_wait_for_a_bound_pod_so_that_its_booking_lasts() {
    let mut bookings = Bookings::default();
    let now = Instant::now();
    bookings.update(&report(&["old"]), &[pod("new", "2", "Pending")], now);
    let (before, after) = (object("2-7"), object("0-7"));
    let end = now + LONGEST_HOLD;
    assert_eq!(bookings.step(&before, &after, now), Step::Hold(end, false));
    // vc-scheduler takes a write of the same CPUs for one with more.
    assert_eq!(bookings.step(&before, &before, now), Step::Hold(end, false));
    // CPUs that are taken are written meanwhile.
    let taken = object("0-1,4-7");
    assert_eq!(
        bookings.step(&before, &taken, now),
        Step::Part(object("4-7"), Then::Until(end))
    );
    let only_taken = object("4-7");
    assert_eq!(bookings.step(&before, &only_taken, now), Step::All(None));
    // The kubelet gave it its CPUs.
    bookings.update(&report(&["new"]), &[pod("new", "2", "Running")], now);
    assert_eq!(
        bookings.step(&before, &object("0-1,4-7"), now),
        Step::Part(object("4-7"), Then::AtOnce)
    );
    assert_eq!(bookings.ended, None);
}

#[test]
fn a_pod_that_never_starts_holds_nothing_back_for_longer() {
    let mut bookings = Bookings::default();
    let now = Instant::now();
    let stuck = [pod("stuck", "2", "Pending")];
    bookings.update(&report(&[]), &stuck, now);
    let later = now + LONGEST_HOLD + Duration::from_millis(1);
    bookings.update(&report(&[]), &stuck, later);
    assert_eq!(
        bookings.step(&object("2-7"), &object("0-7"), later),
        Step::All(None)
    );
}

#[test]
fn only_pods_with_cpus_of_their_own_are_booked() {
    let mut bookings = Bookings::default();
    let now = Instant::now();
    let pods = [
        pod("shares", "500m", "Pending"),
        pod("over", "2", "Failed"),
        pod("known", "2", "Running"),
    ];
    bookings.update(&report(&["known"]), &pods, now);
    assert!(bookings.waiting.is_empty());
    let mut without_manager = report(&[]);
    without_manager.tracked = ExclusiveKinds::default();
    bookings.update(&without_manager, &[pod("new", "2", "Pending")], now);
    assert!(bookings.waiting.is_empty());
}

#[test]
fn the_booking_of_a_pod_that_ended_unstarted_is_ended_by_a_write() {
    let mut bookings = Bookings::default();
    let now = Instant::now();
    let (first, second) = (pod("first", "2", "Pending"), pod("second", "1", "Pending"));
    bookings.update(&report(&[]), &[first.clone(), second.clone()], now);
    bookings.update(&report(&[]), &[pod("first", "2", "Failed"), second], now);
    assert_eq!(bookings.ended, Some(PodUid::from("first")));
    // The write would end the booking of the second one, too.
    let same = object("2-7");
    let held = Step::Hold(now + LONGEST_HOLD, true);
    assert_eq!(bookings.step(&same, &same, now), held);
    // CPUs that were taken are a write of their own: vc-scheduler reads the second write as a whole.
    bookings.update(&report(&["second"]), &[pod("second", "1", "Running")], now);
    assert_eq!(bookings.ended, Some(PodUid::from("first")));
    let after = object("3-7");
    assert_eq!(
        bookings.step(&same, &after, now),
        Step::Part(after.clone(), Then::AtOnce)
    );
    let first = Some(PodUid::from("first"));
    assert_eq!(bookings.step(&after, &after, now), Step::All(first));
    bookings.forget();
    assert_eq!(bookings.step(&after, &same, now), Step::All(None));
}

#[test]
fn a_pod_that_got_freed_cpus_ends_the_booking_of_others() {
    let mut bookings = Bookings::default();
    let now = Instant::now();
    let new = |phase| [pod("new", "3", phase)];
    bookings.update(&report(&["old"]), &new("Pending"), now);
    // The pod "old" ended with CPUs 0-1, of which the kubelet gave both and CPU 2 to the new one.
    bookings.update(&report(&["new"]), &new("Running"), now);
    let (before, after) = (object("2-7"), object("3-7"));
    let mut scheduler = Scheduler {
        read: cpus("2-7"),
        copy: cpus("5-7"),
    };
    assert_eq!(
        bookings.step(&before, &after, now),
        Step::Part(after.clone(), Then::AtOnce)
    );
    scheduler.reads(&after);
    assert_eq!(scheduler.copy, cpus("5-7"));
    let ends = Step::All(Some(PodUid::from("new")));
    assert_eq!(bookings.step(&after, &after, now), ends);
    scheduler.reads(&after);
    assert_eq!(scheduler.copy, cpus("3-7"));
    // All of its CPUs were free when it was bound.
    bookings.forget();
    bookings.update(&report(&[]), &[], now);
    bookings.update(&report(&["new"]), &new("Running"), now);
    assert_eq!(bookings.step(&before, &object("5-7"), now), Step::All(None));
}

#[test]
fn objects_without_a_list_of_cpus_are_written_as_a_whole() {
    let bookings = Bookings::default();
    let now = Instant::now();
    assert_eq!(
        bookings.step(&json!({}), &object("1"), now),
        Step::All(None)
    );
    // An empty list is left out.
    assert_eq!(
        bookings.step(&object(""), &object("1"), now),
        Step::All(None)
    );
    let odd = object("x");
    assert_eq!(bookings.step(&odd, &object("1"), now), Step::All(None));
}
