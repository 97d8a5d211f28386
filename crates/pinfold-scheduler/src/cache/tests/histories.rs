//! Random histories: whatever is delayed, nothing is promised that a node then rejects, and when everything was heard
//! nobody is kept waiting whom a node would let in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_core::name::{NodeName, PodUid};
use proptest::prelude::*;

use super::node::Node;
use super::{cache, found};
use crate::cache::node::{Heard, Reported};
use crate::cache::pod::{Asked, Found};
use crate::extender::filter::Said;

#[derive(Clone, Debug)]
enum Step {
    /// A pod comes and is bound if a node takes it; whether the binding fails.
    Come { cpus: u32, gib: u32, fails: bool },
    /// The kubelet of a node lets the next pod in that is bound to it.
    Sync(usize),
    /// A pod ends.
    End(usize),
    /// A node reports.
    Report(usize),
    /// The cache hears the next news of pods.
    HearPods,
    /// The cache hears the next report.
    HearReport,
    /// The watch of pods is lost: everything is listed again.
    Relist,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..5, 1_u32..6, prop::bool::weighted(0.1))
            .prop_map(|(cpus, gib, fails)| Step::Come { cpus, gib, fails }),
        4 => (0_usize..2).prop_map(Step::Sync),
        2 => (0_usize..8).prop_map(Step::End),
        3 => (0_usize..2).prop_map(Step::Report),
        4 => Just(Step::HearPods),
        3 => Just(Step::HearReport),
        1 => Just(Step::Relist),
    ]
}

struct Tenancy {
    asked: Arc<Asked>,
    cpus: u32,
    gib: u32,
    node: usize,
    admitted: bool,
}

enum News {
    There(Found),
    Gone(PodUid),
}

/// Plays a history. What the API server knows, what the nodes know and what the cache knows are three things.
fn play(policies: [&str; 2], scope: &str, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let start = Instant::now();
    let mut clock = 1_u64;
    let mut tick = || {
        clock += 1;
        start + Duration::from_millis(clock * 10)
    };
    let mut nodes = [
        Node::new("n0", policies[0], scope),
        Node::new("n1", policies[1], scope),
    ];
    let mut cache = cache(&[&nodes[0], &nodes[1]], start);
    let mut there: BTreeMap<PodUid, Tenancy> = BTreeMap::new();
    let mut bound: [VecDeque<PodUid>; 2] = Default::default();
    let mut news: VecDeque<News> = VecDeque::new();
    let mut reports: VecDeque<(NodeName, Heard<Reported>)> = VecDeque::new();
    let mut number = 0;
    // In the end everything happens and is heard.
    let end = [
        Step::Sync(0),
        Step::Sync(1),
        Step::HearPods,
        Step::Report(0),
        Step::Report(1),
        Step::HearReport,
    ];
    let end = end.iter().cycle().take(6 * 60).cloned();
    let seen = |tenancy: &Tenancy, uid: &PodUid| {
        let phase = if tenancy.admitted {
            "Running"
        } else {
            "Pending"
        };
        let memory = format!("{}Gi", tenancy.gib);
        let name = format!("n{}", tenancy.node);
        found(uid.as_str(), tenancy.cpus, &memory, Some(&name), phase)
    };
    for step in steps.into_iter().chain(end) {
        let now = tick();
        match step {
            Step::Come { cpus, gib, fails } => {
                number += 1;
                let uid = format!("p{number}");
                let asked = found(&uid, cpus, &format!("{gib}Gi"), None, "Pending").asked;
                let said = cache.filter(&asked, &["n0", "n1"]);
                let Some(node) = said.iter().position(|said| *said == Said::Yes) else {
                    continue;
                };
                let name = NodeName::from(format!("n{node}"));
                let reserved = cache.reserve(&asked, &name, now);
                prop_assert!(reserved.is_ok(), "filter said yes: {:?}", reserved.err());
                if fails {
                    cache.release(asked.uid(), now);
                    continue;
                }
                cache.bound(asked.uid());
                let tenancy = Tenancy {
                    asked: asked.clone(),
                    cpus,
                    gib,
                    node,
                    admitted: false,
                };
                news.push_back(News::There(seen(&tenancy, asked.uid())));
                bound[node].push_back(asked.uid().clone());
                there.insert(asked.uid().clone(), tenancy);
            }
            Step::Sync(node) => {
                let Some(uid) = bound[node].pop_front() else {
                    continue;
                };
                if let Some(tenancy) = there.get_mut(&uid) {
                    let admitted = nodes[node].admit(tenancy.asked.ask.pod());
                    prop_assert!(admitted, "{uid} was bound to n{node} and rejected there");
                    tenancy.admitted = true;
                    news.push_back(News::There(seen(tenancy, &uid)));
                }
            }
            Step::End(at) => {
                // Only who runs can end: a kubelet finishes what it has begun.
                let running = there.iter().filter(|(_, tenancy)| tenancy.admitted);
                let uids: Vec<PodUid> = running.map(|(uid, _)| uid.clone()).collect();
                if let Some(uid) = uids.get(at)
                    && let Some(tenancy) = there.remove(uid)
                {
                    nodes[tenancy.node].over(uid);
                    news.push_back(News::Gone(uid.clone()));
                }
            }
            Step::Report(node) => reports.push_back(nodes[node].report(now)),
            Step::HearPods => match news.pop_front() {
                Some(News::There(found)) => cache.put_pod(found, now),
                Some(News::Gone(uid)) => cache.forget_pod(&uid, now),
                None => {}
            },
            Step::HearReport => {
                if let Some((name, mut heard)) = reports.pop_front() {
                    heard.at = now;
                    cache.put_report(&name, heard, now);
                }
            }
            Step::Relist => {
                news.clear();
                let all = there.iter().map(|(uid, tenancy)| seen(tenancy, uid));
                let all = all.collect();
                cache.replace_pods(all, now, now);
            }
        }
    }
    prop_assert_eq!(cache.reservations().count(), 0, "every promise ends");
    for cpus in 1..6 {
        for gib in [1, 4, 8] {
            let memory = format!("{gib}Gi");
            let asked = found("last", cpus, &memory, None, "Pending").asked;
            let said = cache.filter(&asked, &["n0", "n1"]);
            for (node, said) in nodes.iter().zip(said) {
                let room = |class| class == crate::extender::reason::Class::Room;
                match said {
                    Said::Yes => prop_assert!(node.would_admit(asked.ask.pod()), "{}", node.name),
                    // The sums are kept by the scheduler, not by these nodes.
                    Said::No(class, _) if room(class) => {}
                    Said::No(_, why) => prop_assert!(
                        !node.would_admit(asked.ask.pod()),
                        "{cpus} CPUs and {memory} kept from {}: {why}",
                        node.name
                    ),
                }
            }
        }
    }
    Ok(())
}

/// So many histories are played; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn nothing_is_promised_that_a_node_rejects_and_nobody_waits_for_nothing(
        policies in prop::sample::select(vec![
            ["single-numa-node", "restricted"],
            ["best-effort", "none"],
            ["restricted", "best-effort"],
        ]),
        scope in prop::sample::select(vec!["container", "pod"]),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        play(policies, scope, steps)?;
    }
}

/// A pod of so many CPUs comes, and its binding succeeds.
fn come(cpus: u32) -> Step {
    come_with(cpus, 1)
}

fn come_with(cpus: u32, gib: u32) -> Step {
    Step::Come {
        cpus,
        gib,
        fails: false,
    }
}

#[test]
fn who_came_before_a_pod_left_is_not_guessed_at_from_a_list_or_an_old_report() {
    use Step::{End, HearReport, Relist, Report, Sync};
    let unseen = vec![
        come(2),
        come(2),
        Sync(0),
        Sync(0),
        End(0),
        Relist,
        come(1),
        come(3),
    ];
    let old_report = vec![
        come(2),
        Sync(0),
        Relist,
        come(2),
        Report(0),
        Sync(0),
        End(0),
        Relist,
        come(1),
        HearReport,
        come(3),
    ];
    for steps in [unseen, old_report] {
        let played = play(["restricted", "best-effort"], "container", steps);
        played.expect("nothing is promised that a node rejects");
    }
}

#[test]
fn whoever_leaves_early_takes_no_place_from_those_who_were_promised_one() {
    use Step::{End, Sync};
    let unheard = vec![
        come(1),
        come(2),
        Sync(0),
        come(1),
        come_with(2, 3),
        come(2),
        come_with(2, 3),
        come_with(1, 5),
        Sync(1),
        Sync(0),
        End(2),
        come_with(1, 5),
    ];
    let played = play(["restricted", "best-effort"], "container", unheard);
    played.expect("nothing is promised that a node rejects");
}
