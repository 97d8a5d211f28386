//! [`JournaledLedger`]: the history, and rules changes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pinfold_agent::journaled_ledger::PodOutcome;
use pinfold_agent::{JournaledLedger, JournaledLedgerError};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Rules;
use pinfold_core::name::PodUid;
use pinfold_journal::{
    FILE, JournalEvent, JournalHistory, JournalLimits, JournalPodRecord, Timestamp,
};

#[path = "faults/fixture.rs"]
#[allow(dead_code, reason = "shared with the tests of faults")]
mod fixture;

use fixture::{pod, rules, rules_with};

fn admit(journaled: &mut JournaledLedger, uid: &str, cpus: u64) -> bool {
    let decision = journaled.admit(
        &pod(uid, cpus),
        JournalPodRecord::default(),
        &mut NoPreference,
        Timestamp::UNIX_EPOCH,
    );
    decision.expect("written").is_admitted()
}

fn journaled(folder: &Path, rules: Arc<Rules>) -> JournaledLedger {
    JournaledLedger::open(&folder.join("agent"), rules, JournalLimits::default())
        .expect("a journal")
}

/// The CPUs that every container may use.
fn cpus_by_pod(journaled: &JournaledLedger) -> BTreeMap<PodUid, CpuSet> {
    let cpus = journaled.ledger().state().cpus();
    let admitted = journaled.ledger().state().admitted_pods().keys();
    let of_main = |uid: &PodUid| cpus.container(uid, &"main".into());
    admitted
        .map(|uid| (uid.clone(), of_main(uid).unwrap_or(cpus.shared()).clone()))
        .collect()
}

#[test]
fn the_journal_has_every_decision_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journaled = journaled(folder.path(), rules());
    assert!(admit(&mut journaled, "a", 4));
    assert!(!admit(&mut journaled, "b", 17));
    journaled
        .release(&"a".into(), Timestamp::UNIX_EPOCH)
        .expect("released");
    assert_eq!(journaled.generation(), 3);
    let history = JournalHistory::read(&folder.path().join("agent").join(FILE)).expect("readable");
    let events: Vec<&JournalEvent> = history.entries.iter().map(|entry| &entry.event).collect();
    let (a, b) = ("a".into(), "b".into());
    let expected = [
        JournalEvent::Admitted(a),
        JournalEvent::Rejected(b),
        JournalEvent::Released("a".into()),
    ];
    assert_eq!(events, expected.iter().collect::<Vec<_>>());
    assert!(
        history.entries[0].message.contains("CPUs"),
        "{}",
        history.entries[0].message
    );
    let rejected = &history.entries[1];
    assert!(
        rejected.message.contains("TopologyAffinityError"),
        "{}",
        rejected.message
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
fn a_restarted_agent_has_the_pods_and_cpus_of_the_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = journaled(folder.path(), rules());
    assert!(admit(&mut first, "a", 4) && admit(&mut first, "b", 2));
    let before = cpus_by_pod(&first);
    assert_eq!(before.values().map(CpuSet::len).collect::<Vec<_>>(), [4, 2]);
    drop(first);
    let journaled = journaled(folder.path(), rules());
    assert_eq!(cpus_by_pod(&journaled), before);
}

#[test]
fn under_a_stricter_policy_pods_keep_their_cpus_and_unaligned_pods_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journaled = journaled(folder.path(), rules_with("best-effort", 2));
    assert!(admit(&mut journaled, "wide", 20) && admit(&mut journaled, "small", 2));
    let before = cpus_by_pod(&journaled);
    let strict = rules_with("single-numa-node", 2);
    let plan = journaled.plan_rules_change(&strict).expect("a plan");
    assert!(
        matches!(plan.outcomes[0].1, PodOutcome::Unaligned { .. }),
        "{:?}",
        plan.outcomes
    );
    // Its memory is on both NUMA nodes, as is the other pod's.
    assert!(
        matches!(plan.outcomes[1].1, PodOutcome::Unaligned { .. }),
        "{:?}",
        plan.outcomes
    );
    journaled
        .apply_rules_change(plan, Timestamp::UNIX_EPOCH)
        .expect("written");
    assert_eq!(cpus_by_pod(&journaled), before);
    drop(journaled);
    let journaled = self::journaled(folder.path(), strict.clone());
    assert_eq!(cpus_by_pod(&journaled), before);
    assert_eq!(journaled.ledger().rules().policy(), strict.policy());
}

#[test]
fn aligned_pods_are_unchanged_by_a_stricter_policy() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journaled = journaled(folder.path(), rules_with("best-effort", 2));
    assert!(admit(&mut journaled, "a", 4) && admit(&mut journaled, "b", 2));
    let plan = journaled.plan_rules_change(&rules_with("single-numa-node", 2));
    let outcomes = plan.expect("a plan").outcomes;
    assert_eq!(
        outcomes,
        [
            ("a".into(), PodOutcome::Unchanged),
            ("b".into(), PodOutcome::Unchanged)
        ]
    );
}

#[test]
fn pods_on_cpus_that_become_reserved_are_moved() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journaled = journaled(folder.path(), rules());
    assert!(admit(&mut journaled, "a", 4));
    let more = rules_with("restricted", 8);
    let plan = journaled.plan_rules_change(&more).expect("a plan");
    assert!(
        matches!(
            plan.outcomes[0].1,
            PodOutcome::Moved {
                needs_restart: false,
                ..
            }
        ),
        "{:?}",
        plan.outcomes
    );
    journaled
        .apply_rules_change(plan, Timestamp::UNIX_EPOCH)
        .expect("written");
    let own = journaled.ledger().state().cpus().containers_of(&"a".into());
    assert!(own.is_disjoint(&more.reserved_cpus()));
    assert_eq!(journaled.ledger().audit(), []);
}

#[test]
fn a_rules_change_with_an_unplaceable_pod_or_of_an_old_generation_is_not_applied() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journaled = journaled(folder.path(), rules());
    assert!(admit(&mut journaled, "a", 14) && admit(&mut journaled, "b", 14));
    let plan = journaled
        .plan_rules_change(&rules_with("restricted", 10))
        .expect("a plan");
    assert!(
        matches!(plan.outcomes[0].1, PodOutcome::Unplaceable { .. }),
        "{:?}",
        plan.outcomes
    );
    // Its CPUs are not among those that become reserved.
    assert_eq!(plan.outcomes[1].1, PodOutcome::Unchanged);
    let before = journaled.ledger().state().clone();
    let error = journaled
        .apply_rules_change(plan, Timestamp::UNIX_EPOCH)
        .expect_err("rejected");
    assert!(
        matches!(error, JournaledLedgerError::RulesChange(_))
            && error.to_string().starts_with("pods a do not fit"),
        "{error}"
    );
    assert_eq!(*journaled.ledger().state(), before);
    let plan = journaled.plan_rules_change(&rules()).expect("a plan");
    journaled
        .release(&"a".into(), Timestamp::UNIX_EPOCH)
        .expect("released");
    let error = journaled
        .apply_rules_change(plan, Timestamp::UNIX_EPOCH)
        .expect_err("rejected");
    assert!(error.to_string().contains("plan again"), "{error}");
}
