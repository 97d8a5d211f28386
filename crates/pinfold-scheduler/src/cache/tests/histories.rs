//! Random histories with delayed watch events: no pod is reserved on a node that rejects it, and once all events have
//! arrived no pod is rejected that a node would admit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_core::name::{NodeName, PodUid};
use proptest::prelude::*;

use super::node::TestNode;
use super::{cache, observed_pod};
use crate::cache::node::{Observed, TopologyReport};
use crate::cache::pod_info::{ObservedPod, PodInfo};
use crate::engine::filter::NodeVerdict;

#[derive(Clone, Debug)]
enum Step {
    /// A pod is created, and bound if a node fits; `fails` if the binding fails.
    Create { cpus: u32, gib: u32, fails: bool },
    /// The kubelet of a node admits the next pod that is bound to it.
    Admit(usize),
    /// A running pod terminates.
    Terminate(usize),
    /// A node writes its report.
    Report(usize),
    /// The cache receives the next pod event.
    ReceivePod,
    /// The cache receives the next report.
    ReceiveReport,
    /// The pod watch fails, and pods are listed again.
    Relist,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..5, 1_u32..6, prop::bool::weighted(0.1))
            .prop_map(|(cpus, gib, fails)| Step::Create { cpus, gib, fails }),
        4 => (0_usize..2).prop_map(Step::Admit),
        2 => (0_usize..8).prop_map(Step::Terminate),
        3 => (0_usize..2).prop_map(Step::Report),
        4 => Just(Step::ReceivePod),
        3 => Just(Step::ReceiveReport),
        1 => Just(Step::Relist),
    ]
}

/// A pod that is bound to a node.
struct BoundPod {
    info: Arc<PodInfo>,
    cpus: u32,
    gib: u32,
    node: usize,
    admitted: bool,
}

enum PodEvent {
    Applied(ObservedPod),
    Deleted(PodUid),
}

/// Runs a history. The API server, the nodes and the cache may each be at a different point of it.
fn run(policies: [&str; 2], scope: &str, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let start = Instant::now();
    let mut clock = 1_u64;
    let mut tick = || {
        clock += 1;
        start + Duration::from_millis(clock * 10)
    };
    let mut nodes = [
        TestNode::new("n0", policies[0], scope),
        TestNode::new("n1", policies[1], scope),
    ];
    let mut cache = cache(&[&nodes[0], &nodes[1]], start);
    let mut pods: BTreeMap<PodUid, BoundPod> = BTreeMap::new();
    let mut bound: [VecDeque<PodUid>; 2] = Default::default();
    let mut events: VecDeque<PodEvent> = VecDeque::new();
    let mut reports: VecDeque<(NodeName, Observed<TopologyReport>)> = VecDeque::new();
    let mut number = 0;
    // At the end all pods are admitted, reported and received.
    let end = [
        Step::Admit(0),
        Step::Admit(1),
        Step::ReceivePod,
        Step::Report(0),
        Step::Report(1),
        Step::ReceiveReport,
    ];
    let end = end.iter().cycle().take(6 * 60).cloned();
    let event_of = |pod: &BoundPod, uid: &PodUid| {
        let phase = if pod.admitted { "Running" } else { "Pending" };
        let memory = format!("{}Gi", pod.gib);
        let name = format!("n{}", pod.node);
        observed_pod(uid.as_str(), pod.cpus, &memory, Some(&name), phase)
    };
    for step in steps.into_iter().chain(end) {
        let now = tick();
        match step {
            Step::Create { cpus, gib, fails } => {
                number += 1;
                let uid = format!("p{number}");
                let info = observed_pod(&uid, cpus, &format!("{gib}Gi"), None, "Pending").info;
                let verdicts = cache.filter(&info, &["n0", "n1"]);
                let Some(node) = verdicts
                    .iter()
                    .position(|verdict| *verdict == NodeVerdict::Fits)
                else {
                    continue;
                };
                let name = NodeName::from(format!("n{node}"));
                let reserved = cache.reserve(&info, &name, now);
                prop_assert!(
                    reserved.is_ok(),
                    "filter passed the node: {:?}",
                    reserved.err()
                );
                if fails {
                    cache.release(info.uid(), now);
                    continue;
                }
                let pod = BoundPod {
                    info: info.clone(),
                    cpus,
                    gib,
                    node,
                    admitted: false,
                };
                events.push_back(PodEvent::Applied(event_of(&pod, info.uid())));
                bound[node].push_back(info.uid().clone());
                pods.insert(info.uid().clone(), pod);
            }
            Step::Admit(node) => {
                let Some(uid) = bound[node].pop_front() else {
                    continue;
                };
                if let Some(pod) = pods.get_mut(&uid) {
                    let admitted = nodes[node].admit(pod.info.request.pod());
                    prop_assert!(admitted, "{uid} was bound to n{node} and rejected pods");
                    pod.admitted = true;
                    events.push_back(PodEvent::Applied(event_of(pod, &uid)));
                }
            }
            Step::Terminate(at) => {
                // Only admitted pods terminate.
                let running = pods.iter().filter(|(_, pod)| pod.admitted);
                let uids: Vec<PodUid> = running.map(|(uid, _)| uid.clone()).collect();
                if let Some(uid) = uids.get(at)
                    && let Some(pod) = pods.remove(uid)
                {
                    nodes[pod.node].terminate(uid);
                    events.push_back(PodEvent::Deleted(uid.clone()));
                }
            }
            Step::Report(node) => reports.push_back(nodes[node].report(now)),
            Step::ReceivePod => match events.pop_front() {
                Some(PodEvent::Applied(pod)) => cache.apply_pod(pod, now),
                Some(PodEvent::Deleted(uid)) => cache.delete_pod(&uid, now),
                None => {}
            },
            Step::ReceiveReport => {
                if let Some((name, mut report)) = reports.pop_front() {
                    report.received = now;
                    cache.apply_report(&name, report, now);
                }
            }
            Step::Relist => {
                events.clear();
                let all = pods.iter().map(|(uid, pod)| event_of(pod, uid));
                let all = all.collect();
                cache.replace_pods(all, now, now);
            }
        }
    }
    prop_assert_eq!(
        cache.reservations().count(),
        0,
        "all reservations are confirmed"
    );
    for cpus in 1..6 {
        for gib in [1, 4, 8] {
            let memory = format!("{gib}Gi");
            let info = observed_pod("last", cpus, &memory, None, "Pending").info;
            let verdicts = cache.filter(&info, &["n0", "n1"]);
            for (node, verdict) in nodes.iter().zip(verdicts) {
                let is_sum = |class| class == crate::engine::reason::RejectionClass::Resources;
                match verdict {
                    NodeVerdict::Fits => {
                        prop_assert!(node.would_admit(info.request.pod()), "{}", node.name);
                    }
                    // The test nodes do not check the sums of requests.
                    NodeVerdict::Rejected(class, _) if is_sum(class) => {}
                    NodeVerdict::Rejected(_, reason) => prop_assert!(
                        !node.would_admit(info.request.pod()),
                        "{cpus} CPUs and {memory} rejected on {}: {reason}",
                        node.name
                    ),
                }
            }
        }
    }
    Ok(())
}

/// The number of histories; `PROPTEST_CASES` changes it.
fn cases() -> u32 {
    let cases = std::env::var("PROPTEST_CASES").ok();
    cases.and_then(|text| text.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn reserved_pods_are_admitted_and_pods_that_fit_are_not_rejected(
        policies in prop::sample::select(vec![
            ["single-numa-node", "restricted"],
            ["best-effort", "none"],
            ["restricted", "best-effort"],
        ]),
        scope in prop::sample::select(vec!["container", "pod"]),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        run(policies, scope, steps)?;
    }
}

/// A pod with 1 GiB is created, and its binding succeeds.
fn create(cpus: u32) -> Step {
    create_with(cpus, 1)
}

fn create_with(cpus: u32, gib: u32) -> Step {
    Step::Create {
        cpus,
        gib,
        fails: false,
    }
}

#[test]
fn unreported_pods_are_uncertain_after_a_deletion_seen_in_a_list_or_before_an_old_report() {
    use Step::{Admit, ReceiveReport, Relist, Report, Terminate};
    let unlisted = vec![
        create(2),
        create(2),
        Admit(0),
        Admit(0),
        Terminate(0),
        Relist,
        create(1),
        create(3),
    ];
    let old_report = vec![
        create(2),
        Admit(0),
        Relist,
        create(2),
        Report(0),
        Admit(0),
        Terminate(0),
        Relist,
        create(1),
        ReceiveReport,
        create(3),
    ];
    for steps in [unlisted, old_report] {
        let result = run(["restricted", "best-effort"], "container", steps);
        result.expect("no reserved pod is rejected");
    }
}

#[test]
fn an_early_deletion_takes_no_resources_from_reserved_pods() {
    use Step::{Admit, Terminate};
    let steps = vec![
        create(1),
        create(2),
        Admit(0),
        create(1),
        create_with(2, 3),
        create(2),
        create_with(2, 3),
        create_with(1, 5),
        Admit(1),
        Admit(0),
        Terminate(2),
        create_with(1, 5),
    ];
    let result = run(["restricted", "best-effort"], "container", steps);
    result.expect("no reserved pod is rejected");
}
