//! Properties of every ledger after every event: random machines, settings, pods and events.
//!
//! `PINFOLD_CASES=N` runs more histories than the default; the seed of a failing one is printed.

use crate::histories::{Random, histories, play, pod};
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Change;

#[test]
fn the_audit_finds_nothing_after_every_event() {
    let mut admitted = 0;
    let mut rejected = 0;
    for seed in histories() {
        play(seed, |before, after, change| {
            let findings = after.audit();
            assert!(
                findings.is_empty(),
                "seed {seed}: {findings:?} after {change:#?}"
            );
            match after.admitted_pods().len() > before.admitted_pods().len() {
                true => admitted += 1,
                false => rejected += usize::from(change.is_none()),
            }
        });
    }
    // A generator that admits or rejects everything would prove nothing.
    assert!(
        admitted > 500 && rejected > 500,
        "{admitted} admitted, {rejected} rejected"
    );
}

#[test]
fn every_change_can_be_replayed_undone_and_serialized() {
    for seed in histories() {
        play(seed, |before, after, change| {
            let Some(change) = change else {
                assert_eq!(
                    before.state(),
                    after.state(),
                    "seed {seed}: something changed without a change"
                );
                return;
            };
            let text = serde_json::to_string(change).expect("a change can be written down");
            let read: Change = serde_json::from_str(&text).expect("and read back");
            assert_eq!(read, *change, "seed {seed}");
            let mut copy = before.clone();
            copy.apply(&read).expect("it was made for this ledger");
            assert_eq!(copy.state(), after.state(), "seed {seed}: replay differs");
            assert!(
                copy.apply(&read).is_err(),
                "seed {seed}: a change fits only once"
            );
            copy.undo(&read).expect("it was the last one");
            assert_eq!(copy.state(), before.state(), "seed {seed}: undo differs");
        });
    }
}

#[test]
fn a_released_pod_leaves_the_ledger_as_it_was() {
    for seed in histories() {
        play(seed, |_, after, _| {
            let mut random = Random(seed + 77);
            let pod = pod(&mut random, 1_000);
            let mut copy = after.clone();
            let admission = copy.admit(&pod, &mut NoPreference).expect("a new pod");
            if admission.decision.is_admitted() {
                copy.release(&pod.uid).expect("it was admitted");
            }
            let (left, right) = (copy.state(), after.state());
            assert_eq!(left.cpus(), right.cpus(), "seed {seed}");
            assert_eq!(left.memory(), right.memory(), "seed {seed}");
            assert_eq!(left.devices(), right.devices(), "seed {seed}");
            assert_eq!(left.admitted_pods(), right.admitted_pods(), "seed {seed}");
        });
    }
}

#[test]
fn a_rejected_pod_leaves_the_ledger_unchanged_and_is_explained() {
    for seed in histories() {
        play(seed, |_, after, _| {
            let mut random = Random(seed + 99);
            let pod = pod(&mut random, 2_000);
            let mut copy = after.clone();
            let admission = copy.admit(&pod, &mut NoPreference).expect("a new pod");
            let Some(rejection) = admission.decision.rejection() else {
                return;
            };
            assert_eq!(admission.change, None, "seed {seed}");
            assert_eq!(copy.state(), after.state(), "seed {seed}");
            let explanation = &admission.decision.explanation;
            match rejection.manager {
                None => {
                    let last = explanation
                        .alignments
                        .last()
                        .expect("the alignment that failed");
                    assert!(
                        !last.admitted && !last.resources.is_empty(),
                        "seed {seed}: {last:?}"
                    );
                }
                Some(manager) => {
                    let facts = &explanation.shortage;
                    assert!(
                        facts.iter().all(|fact| fact.manager == manager),
                        "seed {seed}"
                    );
                    assert!(
                        !facts.is_empty(),
                        "seed {seed}: {rejection:?} is not explained"
                    );
                }
            }
        });
    }
}

#[test]
fn the_same_history_gives_the_same_bytes() {
    for seed in histories().take(50) {
        let run = || {
            let mut bytes = Vec::new();
            play(seed, |_, after, change| {
                serde_json::to_writer(&mut bytes, &(after.state(), change))
                    .expect("values can be written");
            });
            bytes
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}
