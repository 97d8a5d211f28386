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
    Compaction, FILE, JournalEvent, JournalHistory, JournalLimits, JournalPodRecord, Timestamp,
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

/// Admits and releases a pod, `times` times.
fn churn(journaled: &mut JournaledLedger, times: usize) {
    for _ in 0..times {
        assert!(admit(journaled, "churn", 2));
        let released = journaled.release(&"churn".into(), Timestamp::UNIX_EPOCH);
        released.expect("released");
    }
}

#[test]
fn changes_while_the_journal_is_compacted_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = JournalLimits {
        entries: 20,
        ..JournalLimits::default()
    };
    let open = || JournaledLedger::open(folder.path(), rules(), limits).expect("a journal");
    let mut journaled = open();
    journaled.defer_compaction();
    assert!(admit(&mut journaled, "before", 2));
    churn(&mut journaled, 15);
    let long = journaled.journal_length();
    let compaction = journaled.begin_compaction().expect("it is too long");
    assert!(admit(&mut journaled, "meanwhile", 4));
    let written = compaction.and_then(Compaction::write);
    assert!(admit(&mut journaled, "later", 2));
    journaled.finish_compaction(written);
    assert!(journaled.compaction_error().is_none());
    assert!(journaled.begin_compaction().is_none(), "it is short now");
    assert!(journaled.journal_length() < long);
    let numbers = |journaled: &JournaledLedger| {
        let entries = journaled.entries_after(0, 100).expect("a reader");
        let entries = entries.read().expect("readable");
        let numbers: Vec<u64> = entries.iter().map(|entry| entry.number).collect();
        numbers
    };
    // Half of 20 entries are kept, and both that were written meanwhile.
    let kept: Vec<u64> = (22..=33).collect();
    assert_eq!(numbers(&journaled), kept);
    assert!(admit(&mut journaled, "after", 2));
    let before = cpus_by_pod(&journaled);
    assert_eq!(before.len(), 4);
    drop(journaled);
    let journaled = open();
    assert_eq!(cpus_by_pod(&journaled), before);
    assert_eq!(journaled.generation(), 34);
}

#[test]
fn a_page_of_the_journal_is_limited_in_bytes_and_the_pages_together_have_every_entry() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journaled = journaled(folder.path(), rules());
    // As long as a pod with many containers makes an entry; one is longer than a page.
    let lengths = [80_000, 80_000, 600_000, 150_000, 150_000, 100];
    for length in lengths {
        let rejected = journaled.reject(&pod("a", 2), "x".repeat(length), Timestamp::UNIX_EPOCH);
        rejected.expect("written");
    }
    let mut pages: Vec<Vec<u64>> = Vec::new();
    let mut last = 0;
    while last < journaled.generation() {
        let page = journaled.entries_after(last, 100).expect("a reader").read();
        let page = page.expect("readable");
        last = page.last().expect("a page has at least one entry").number;
        pages.push(page.iter().map(|entry| entry.number).collect());
    }
    assert_eq!(pages, [vec![1, 2], vec![3], vec![4], vec![5, 6]]);
}

#[test]
fn a_compaction_that_another_one_overtook_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = JournalLimits {
        entries: 4,
        ..JournalLimits::default()
    };
    let mut journaled = JournaledLedger::open(folder.path(), rules(), limits).expect("a journal");
    journaled.defer_compaction();
    churn(&mut journaled, 3);
    let begin = |journaled: &JournaledLedger| {
        let compaction = journaled.begin_compaction().expect("it is too long");
        compaction.expect("begun")
    };
    let (old, new) = (begin(&journaled), begin(&journaled));
    let old = old.write();
    // The new file has the same name beside the journal.
    journaled.finish_compaction(new.write());
    assert!(journaled.compaction_error().is_none());
    assert!(admit(&mut journaled, "a", 2));
    journaled.finish_compaction(old);
    assert!(journaled.compaction_error().is_some());
    assert!(!journaled.is_broken() && admit(&mut journaled, "b", 2));
    drop(journaled);
    let journaled = JournaledLedger::open(folder.path(), rules(), limits).expect("a journal");
    assert_eq!(cpus_by_pod(&journaled).len(), 2);
}

#[test]
fn after_a_compaction_whose_folder_cannot_be_synced_nothing_is_written() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("agent");
    let limits = JournalLimits {
        entries: 4,
        ..JournalLimits::default()
    };
    let mut journaled = JournaledLedger::open(&path, rules(), limits).expect("a journal");
    journaled.defer_compaction();
    churn(&mut journaled, 3);
    let compaction = journaled.begin_compaction().expect("it is too long");
    let written = compaction.and_then(Compaction::write);
    // Files in the folder can be renamed, but the folder itself cannot be opened.
    set_permissions(&path, Permissions::from_mode(0o300)).expect("permissions");
    let finished = std::thread::spawn(move || {
        // Only of this thread: root may otherwise open everything.
        let mut own = capabilities(None).expect("capabilities");
        own.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, own).expect("fewer capabilities");
        journaled.finish_compaction(written);
        journaled
    });
    let mut journaled = finished.join().expect("finished");
    set_permissions(&path, Permissions::from_mode(0o700)).expect("permissions");
    let error = journaled
        .compaction_error()
        .expect("the folder")
        .to_string();
    assert!(error.contains("sync"), "{error}");
    assert!(journaled.is_broken() && journaled.write_error().is_some());
    let before = journaled.generation();
    let changed = journaled.set_devices(&"a.b/c".into(), Some([].into()), Timestamp::UNIX_EPOCH);
    assert!(matches!(changed, Err(JournaledLedgerError::Journal(_))));
    assert_eq!(journaled.generation(), before);
    drop(journaled);
    let reopened = JournaledLedger::open(&path, rules(), limits).expect("a journal");
    assert_eq!(reopened.generation(), before);
}

#[test]
fn a_decision_does_not_extend_the_file_if_space_is_preallocated_in_between() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journaled = journaled(folder.path(), rules());
    journaled.defer_compaction();
    let file = folder.path().join("agent").join(FILE);
    let length = || std::fs::metadata(&file).expect("a file").len();
    let first = length();
    for _ in 0..400 {
        if let Some(space) = journaled.space_maker().expect("opened") {
            space.preallocate();
        }
        let before = length();
        churn(&mut journaled, 1);
        assert_eq!(length(), before, "a decision extended the file");
    }
    assert!(length() > first, "space was preallocated again");
    drop(journaled);
    let reopened = JournaledLedger::open(
        &folder.path().join("agent"),
        rules(),
        JournalLimits::default(),
    );
    assert_eq!(reopened.expect("a journal").generation(), 800);
}
