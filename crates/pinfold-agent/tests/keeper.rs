//! The keeper: what it promises about differences, plans and the history.

use std::path::Path;
use std::sync::Arc;

use pinfold_agent::keeper::Fate;
use pinfold_agent::{Difference, Keeper, KeeperError, Repair, Running};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Rules;
use pinfold_journal::{FILE, What};
use pinfold_journal::{History, Limits, Note, Timestamp};

#[path = "faults/scene.rs"]
#[allow(dead_code, reason = "shared with the tests of faults")]
mod scene;

use scene::{pod, rules, rules_with};

fn admit(keeper: &mut Keeper, uid: &str, cpus: u64) -> bool {
    let decision = keeper.admit(
        &pod(uid, cpus),
        Note::default(),
        &mut NoPreference,
        Timestamp(1000),
    );
    decision.expect("written").is_admitted()
}

fn keeper(folder: &Path, rules: Arc<Rules>) -> Keeper {
    Keeper::open(&folder.join("agent"), rules, Limits::default()).expect("a journal")
}

/// Everything runs exactly where the journal says.
fn as_recorded(keeper: &Keeper) -> Running {
    let cpus = keeper.ledger().state().cpus();
    let residents = keeper.ledger().state().admitted_pods().keys();
    let pods = residents.map(|uid| {
        let main = "main".into();
        let own = cpus.container(uid, &main).unwrap_or_else(|| cpus.shared());
        (uid.clone(), [(main, own.clone())].into())
    });
    Running {
        pods: pods.collect(),
    }
}

#[test]
fn the_history_has_every_decision_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut keeper = keeper(folder.path(), rules());
    assert!(admit(&mut keeper, "a", 4));
    assert!(!admit(&mut keeper, "b", 17));
    keeper
        .release(&"a".into(), Timestamp(2000))
        .expect("it is here");
    assert_eq!(keeper.generation(), 3);
    let history = History::read(&folder.path().join("agent").join(FILE)).expect("readable");
    let whats: Vec<&What> = history.entries.iter().map(|entry| &entry.what).collect();
    let (a, b) = ("a".into(), "b".into());
    let expected = [
        What::Admitted(a),
        What::Rejected(b),
        What::Released("a".into()),
    ];
    assert_eq!(whats, expected.iter().collect::<Vec<_>>());
    assert!(
        history.entries[0].told.contains("CPUs"),
        "{}",
        history.entries[0].told
    );
    let rejected = &history.entries[1];
    assert!(
        rejected.told.contains("TopologyAffinityError"),
        "{}",
        rejected.told
    );
    assert!(
        rejected
            .decision
            .as_ref()
            .is_some_and(|facts| facts["explanation"].is_object())
    );
    assert!(rejected.pod.is_some() && rejected.change.is_none());
}

#[test]
fn a_node_as_the_journal_says_has_no_differences() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = keeper(folder.path(), rules());
    assert!(admit(&mut first, "a", 4) && admit(&mut first, "b", 2));
    drop(first);
    let keeper = keeper(folder.path(), rules());
    assert_eq!(keeper.compare(&as_recorded(&keeper), &rules()), []);
}

#[test]
fn every_difference_is_named_with_its_repair() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut keeper = keeper(folder.path(), rules());
    assert!(admit(&mut keeper, "gone", 4) && admit(&mut keeper, "moved", 2));
    let mut running = as_recorded(&keeper);
    let cpus = running.pods.remove("gone").expect("it is here");
    running.pods.insert("stranger".into(), cpus);
    let moved = running.pods.get_mut("moved").expect("it is here");
    let recorded = moved.insert("main".into(), CpuSet::new()).expect("it runs");
    let found = keeper.compare(&running, &rules_with("best-effort", 2));
    let repairs: Vec<Repair> = found.iter().map(|one| keeper.repair(one)).collect();
    assert_eq!(found[0], Difference::Gone("gone".into()));
    assert_eq!(repairs[0], Repair::Release("gone".into()));
    assert_eq!(found[1], Difference::OtherSettings);
    assert_eq!(repairs[1], Repair::Plan);
    let pin = Repair::Pin {
        pod: "moved".into(),
        container: "main".into(),
        cpus: recorded,
    };
    assert_eq!(repairs[2], pin);
    let Difference::Unknown { trespass, .. } = &found[3] else {
        panic!("{found:?}");
    };
    assert_eq!(trespass.len(), 4);
    assert!(matches!(repairs[3], Repair::Admit { .. }));
    assert_eq!(found.len(), 4);
}

#[test]
fn under_a_stricter_policy_everybody_stays_and_who_is_not_aligned_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut keeper = keeper(folder.path(), rules_with("best-effort", 2));
    assert!(admit(&mut keeper, "wide", 20) && admit(&mut keeper, "small", 2));
    let before = as_recorded(&keeper);
    let strict = rules_with("single-numa-node", 2);
    let plan = keeper.plan(&strict).expect("a plan");
    assert!(
        matches!(plan.fates[0].1, Fate::Unaligned { .. }),
        "{:?}",
        plan.fates
    );
    // Its memory lies on both nodes, as the other one's does.
    assert!(
        matches!(plan.fates[1].1, Fate::Unaligned { .. }),
        "{:?}",
        plan.fates
    );
    keeper.apply(plan, Timestamp(3000)).expect("written");
    assert_eq!(as_recorded(&keeper), before);
    drop(keeper);
    let keeper = self::keeper(folder.path(), strict.clone());
    assert_eq!(keeper.compare(&before, &strict), []);
    assert_eq!(keeper.ledger().rules().policy(), strict.policy());
}

#[test]
fn who_is_aligned_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut keeper = keeper(folder.path(), rules_with("best-effort", 2));
    assert!(admit(&mut keeper, "a", 4) && admit(&mut keeper, "b", 2));
    let plan = keeper.plan(&rules_with("single-numa-node", 2));
    let fates = plan.expect("a plan").fates;
    assert_eq!(
        fates,
        [("a".into(), Fate::Stays), ("b".into(), Fate::Stays)]
    );
}

#[test]
fn pods_on_cpus_that_become_reserved_move() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut keeper = keeper(folder.path(), rules());
    assert!(admit(&mut keeper, "a", 4));
    let more = rules_with("restricted", 8);
    let plan = keeper.plan(&more).expect("a plan");
    assert!(
        matches!(plan.fates[0].1, Fate::Moves { restart: false, .. }),
        "{:?}",
        plan.fates
    );
    keeper.apply(plan, Timestamp(1)).expect("written");
    let own = keeper.ledger().state().cpus().containers_of(&"a".into());
    assert!(own.is_disjoint(&more.reserved_cpus()));
    assert_eq!(keeper.ledger().audit(), []);
}

#[test]
fn a_plan_that_leaves_somebody_without_a_place_or_is_old_is_not_carried_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut keeper = keeper(folder.path(), rules());
    assert!(admit(&mut keeper, "a", 14) && admit(&mut keeper, "b", 14));
    let plan = keeper.plan(&rules_with("restricted", 10)).expect("a plan");
    assert!(
        matches!(plan.fates[1].1, Fate::Homeless { .. }),
        "{:?}",
        plan.fates
    );
    let before = keeper.ledger().state().clone();
    let error = keeper.apply(plan, Timestamp(1)).expect_err("rejected");
    assert!(
        matches!(error, KeeperError::Plan(_)) && error.to_string().contains('b'),
        "{error}"
    );
    assert_eq!(*keeper.ledger().state(), before);
    let plan = keeper.plan(&rules()).expect("a plan");
    keeper
        .release(&"a".into(), Timestamp(2))
        .expect("it is here");
    let error = keeper.apply(plan, Timestamp(3)).expect_err("rejected");
    assert!(error.to_string().contains("make it again"), "{error}");
}
