//! Compares plans with brute force: every plan can be executed as written, and none moves fewer pods.

use super::*;
use crate::settings::MemoryManagerPolicy;

/// Executes a plan as written. `None` if a pod is rejected on the way.
pub(super) fn executed(ledger: &Ledger, pod: &Arc<Pod>, plan: &MovePlan) -> Option<Ledger> {
    let mut copy = ledger.clone();
    let known = |other: &PodRef| match other.uid == pod.uid {
        true => pod.clone(),
        false => ledger.state().admitted_pods()[&other.uid].pod.clone(),
    };
    for step in &plan.steps {
        match step {
            MoveStep::Release(other) => drop(copy.release(&other.uid).unwrap()),
            MoveStep::Admit(other) => {
                let admission = copy.admit(&known(other), &mut NoPreference).unwrap();
                admission.decision.assignment()?;
            }
        }
    }
    Some(copy)
}

/// Whether all pods of `outside` are admitted in some order.
fn some_order_works(ledger: &Ledger, outside: &[Arc<Pod>]) -> bool {
    outside.is_empty()
        || (0..outside.len()).any(|at| {
            let (mut copy, mut others) = (ledger.clone(), outside.to_vec());
            let admission = copy.admit(&others.remove(at), &mut NoPreference).unwrap();
            admission.decision.is_admitted() && some_order_works(&copy, &others)
        })
}

/// The sets of exactly `count` pods whose move lets `pod` be admitted.
fn sets_that_work(ledger: &Ledger, pod: &Arc<Pod>, count: u32) -> Vec<Vec<PodUid>> {
    let others: Vec<Arc<Pod>> = ledger
        .admitted_pods()
        .iter()
        .map(|one| one.pod.clone())
        .collect();
    let mut found = Vec::new();
    for set in (0_u32..1 << others.len()).filter(|set| set.count_ones() == count) {
        let chosen = (0..others.len()).filter(|at| set >> at & 1 == 1);
        let mut outside: Vec<Arc<Pod>> = chosen.map(|at| others[at].clone()).collect();
        let mut copy = ledger.clone();
        for one in &outside {
            copy.release(&one.uid).unwrap();
        }
        let uids = outside.iter().map(|one| one.uid.clone()).collect();
        outside.push(pod.clone());
        if some_order_works(&copy, &outside) {
            found.push(uids);
        }
    }
    found
}

fn amount(ledger: &Ledger, uids: &[PodUid]) -> usize {
    uids.iter()
        .map(|uid| ledger.exclusive_cpus(uid).len())
        .sum()
}

/// Checks one result and returns the number of its moves.
fn check(ledger: &Ledger, pod: &Arc<Pod>) -> Option<usize> {
    let found = defragment(ledger, pod, &mut NoPreference, Effort::PLAN).unwrap();
    assert!(found.complete);
    let again = defragment(ledger, pod, &mut NoPreference, Effort::PLAN).unwrap();
    assert_eq!(found, again, "the search is deterministic");
    for fewer in 1..=u32::try_from(found.exhausted).unwrap() {
        let works = sets_that_work(ledger, pod, fewer);
        assert!(works.is_empty(), "{fewer} moves suffice: {works:?}");
    }
    let Some(remedy) = &found.plan else {
        assert_eq!(found.exhausted, Effort::PLAN.moves);
        return None;
    };
    let Alteration::Move(plan) = &remedy.alteration else {
        panic!("only moves are searched");
    };
    assert_eq!(found.exhausted + 1, plan.moves.len());
    let after = executed(ledger, pod, plan).expect("everybody is let in");
    assert_eq!(after.assignment(&pod.uid), Some(remedy.assignment.clone()));
    for one in &plan.moves {
        assert_eq!(ledger.assignment(&one.pod.uid), Some(one.from.clone()));
        assert_eq!(after.assignment(&one.pod.uid), Some(one.to.clone()));
    }
    for other in ledger.admitted_pods() {
        let uid = &other.pod.uid;
        let moved = plan.moves.iter().any(|one| one.pod.uid == *uid);
        let stays = after.assignment(uid) == ledger.assignment(uid);
        assert!(stays || moved, "{uid} was not to move");
    }
    let count = u32::try_from(plan.moves.len()).unwrap();
    let moved: Vec<PodUid> = plan.moves.iter().map(|one| one.pod.uid.clone()).collect();
    for other in sets_that_work(ledger, pod, count) {
        assert!(amount(ledger, &moved) <= amount(ledger, &other));
    }
    Some(plan.moves.len())
}

#[test]
fn no_plan_with_fewer_moves_exists() {
    let (mut counts, mut without) = (BTreeMap::new(), 0);
    for seed in 0..4_000 {
        let mut dice = Dice(seed);
        let fidelity = [Fidelity::Sound, Fidelity::Exact][usize::from(seed % 4 == 3)];
        let mut ledger = random_ledger(&mut dice, fidelity);
        // Rollouts: some pods are added, some removed.
        for at in 0..dice.roll(6) {
            let comes = small_pod(&mut dice, &format!("later-{at}"));
            ledger.admit(&comes, &mut NoPreference).unwrap();
            let others = ledger.admitted_pods();
            if others.len() > 1 && dice.chance(4) {
                let released = usize::try_from(dice.roll(others.len() as u64)).unwrap();
                let released = others[released].pod.uid.clone();
                ledger.release(&released).unwrap();
            }
        }
        let pod = random_pod(&mut dice, "new");
        if fits(&ledger, &pod) {
            continue;
        }
        match check(&ledger, &pod) {
            Some(moves) => *counts.entry(moves).or_insert(0) += 1,
            None => without += 1,
        }
    }
    assert!(without > 100, "{without}");
    for (moves, least) in [(1, 30), (2, 5), (3, 1)] {
        assert!(
            counts.get(&moves).is_some_and(|&count| count >= least),
            "{counts:?}"
        );
    }
}

fn small_pod(dice: &mut Dice, uid: &str) -> Arc<Pod> {
    let rows = [("cpu", 1 + dice.roll(2)), ("memory", 1 + dice.roll(4))];
    pod(uid, vec![container("app", &rows)])
}

/// Two NUMA nodes with one free CPU each, and pods of one CPU on all others but the reserved one.
fn fragmented(others: usize) -> Ledger {
    let mut settings = settings("single-numa-node");
    settings.memory_policy = MemoryManagerPolicy::None;
    let rules = Rules::new(
        Arc::new(machine(
            2,
            u32::try_from(others.div_ceil(2)).expect("few") + 1,
            1,
            |_| 64,
        )),
        settings,
    );
    let mut ledger = Ledger::new(Arc::new(rules.unwrap()));
    for at in 0..others {
        let small = pod(
            &format!("small-{at:02}"),
            vec![container("app", &[("cpu", 1), ("memory", 1)])],
        );
        assert!(
            ledger
                .admit(&small, &mut NoPreference)
                .unwrap()
                .decision
                .is_admitted()
        );
    }
    ledger
}

#[test]
fn an_unfinished_search_is_reported() {
    let ledger = fragmented(24);
    let big = pod("big", vec![container("app", &[("cpu", 9), ("memory", 1)])]);
    for (admissions, exhausted, complete) in [
        (0, 0, false),
        (10, 0, false),
        (200, 1, false),
        (50_000, 3, true),
    ] {
        let effort = Effort {
            admissions,
            ..Effort::PLAN
        };
        let found = defragment(&ledger, &big, &mut NoPreference, effort).unwrap();
        assert!(
            found.tried <= admissions.max(1),
            "{} of {admissions}",
            found.tried
        );
        assert_eq!(
            (found.exhausted, found.complete),
            (exhausted, complete),
            "{admissions}"
        );
        assert!(found.plan.is_none());
    }
}

#[test]
fn a_pod_that_fits_needs_no_moves() {
    let ledger = fragmented(4);
    let small = pod("new", vec![container("app", &[("cpu", 1), ("memory", 1)])]);
    let found = defragment(&ledger, &small, &mut NoPreference, Effort::PLAN).unwrap();
    assert!(found.decision.is_admitted() && found.plan.is_none() && found.complete);
}
