//! Facts that a small machine does not produce easily: constructed, each must still read as a sentence.

use pinfold_core::cpu::{CpuError, TakeError};
use pinfold_core::decision::{RejectionReason, ResourceManager};
use pinfold_core::demand::NotWholeBytes;
use pinfold_core::device::DeviceError;
use pinfold_core::explanation::{Alignment, Cause, Explanation};
use pinfold_core::hint::Hint;
use pinfold_core::memory::{EmptySharedPool, MemoryError};
use pinfold_core::merge::{MergeRule, MergeSearch, NoPreferred};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;
use pinfold_core::policy::TopologyPolicy;

use super::*;

/// A decision whose merge failed, for changing one fact of it.
fn rejected_by_merge() -> Decision {
    let ledger = busy(settings("restricted"));
    remedies_for(&ledger, pod("new", &[("cpu", "6"), (GPU, "1")])).decision
}

fn rejected_because(cause: Cause) -> Decision {
    let mut decision = rejected_by_merge();
    let facts = decision.explanation.alignments.remove(0).resources;
    decision.explanation.shortage = facts;
    decision.explanation.cause = Some(cause);
    decision
}

/// Checks that the text fits the screen and is one sentence without placeholders.
fn check(decision: &Decision) -> String {
    let text = rejection("new", decision, None, WIDTH);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let sentence = one_line(decision);
    assert!(sentence.chars().count() <= 200, "{sentence}");
    assert!(
        !sentence.contains("  ") && !sentence.contains("{}"),
        "{sentence}"
    );
    sentence
}

#[test]
fn every_reason_of_no_preferred_hint_has_its_own_sentence() {
    let obstacles = [
        None,
        Some(NoPreferred::Unsatisfiable { resource: 0 }),
        Some(NoPreferred::PrefersNothing { resource: 1 }),
        Some(NoPreferred::TooNarrow { resource: 1 }),
        Some(NoPreferred::DifferentWidths {
            resource: 0,
            other: 2,
        }),
        Some(NoPreferred::NoCommonMask),
        Some(NoPreferred::BudgetExhausted),
        // An index that no resource has.
        Some(NoPreferred::TooNarrow { resource: 99 }),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for policy in [TopologyPolicy::Restricted, TopologyPolicy::SingleNumaNode] {
        for obstacle in obstacles {
            let mut decision = rejected_by_merge();
            decision.explanation.policy = policy;
            decision.explanation.alignments[0].merge.no_preferred = obstacle;
            assert!(seen.insert(check(&decision)), "{obstacle:?}");
        }
    }
}

#[test]
fn every_rule_of_a_merge_has_its_own_sentence() {
    let ledger = busy(settings("best-effort"));
    let decision = remedies_for(&ledger, pod("new", &[("cpu", "5")])).decision;
    let mut seen = std::collections::BTreeSet::new();
    for rule in [
        MergeRule::NoPolicy,
        MergeRule::Preferred,
        MergeRule::BestWidth,
        MergeRule::Narrower,
        MergeRule::Wider,
        MergeRule::NoCommonNode,
    ] {
        let mut decision = decision.clone();
        decision.explanation.alignments[0].merge.decided_by = rule;
        let text = admission("new", &decision, WIDTH);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(seen.insert(text), "{rule:?}");
    }
}

#[test]
fn every_cause_has_its_own_sentence() {
    let (resource, nodes) = (ResourceName::from(GPU), NodeSet::from_bits(1));
    let device = |error: fn(ResourceName) -> DeviceError| Cause::Device(error(resource.clone()));
    let memory = |error| Cause::Memory(error);
    let shared = |problem| Cause::Memory(MemoryError::EmptySharedPool(problem));
    let take = |error| Cause::Cpu(CpuError::Take(error));
    let causes = [
        Cause::Cpu(CpuError::NotWholeCores {
            requested: 3,
            per_core: 2,
        }),
        Cause::Cpu(CpuError::TooFewWholeCores {
            requested: 4,
            per_core: 2,
            available: 2,
        }),
        Cause::Cpu(CpuError::NothingLeftForInit),
        Cause::Cpu(CpuError::NothingLeftToShare),
        take(TakeError::NotEnough {
            requested: 4,
            available: 2,
        }),
        take(TakeError::Incomplete),
        take(TakeError::TookTooFew { missing: 1 }),
        take(TakeError::TookTooMany { surplus: 1 }),
        take(TakeError::NeverReturns),
        take(TakeError::Crashes),
        take(TakeError::TooManyCombinations { steps: 1 }),
        memory(MemoryError::NotWholeBytes(NotWholeBytes)),
        memory(MemoryError::NoNodes {
            requested: [("memory".into(), 1 << 30)].into(),
        }),
        memory(MemoryError::DefaultNotPreferred { best: nodes }),
        memory(MemoryError::CannotExtend {
            chosen: nodes,
            requested: [].into(),
        }),
        memory(MemoryError::ExtendedNotPreferred {
            chosen: nodes,
            best: NodeSet::from_bits(3),
        }),
        memory(MemoryError::BreaksGroup { chosen: nodes }),
        memory(MemoryError::UnknownNodes {
            unknown: NodeSet::from_bits(12),
        }),
        shared(EmptySharedPool::Init("memory".into())),
        shared(EmptySharedPool::App("memory".into())),
        device(|resource| DeviceError::Unregistered { resource }),
        device(|resource| DeviceError::NoneHealthy { resource }),
        device(|resource| DeviceError::NoLongerHealthy { resource }),
        device(|resource| DeviceError::Unavailable {
            resource,
            requested: 2,
            available: 1,
        }),
        device(|resource| DeviceError::ChangedRequest {
            pod: "new".into(),
            container: "app".into(),
            resource,
            held: 1,
            required: 2,
        }),
        Cause::Device(DeviceError::TooFew {
            requested: -1,
            got: 0,
        }),
        Cause::Device(DeviceError::NoAdvice {
            message: "no answer".into(),
        }),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for cause in causes {
        let mut decision = rejected_because(cause.clone());
        for facts in &mut decision.explanation.shortage {
            facts.free = facts.free.max(facts.requested);
        }
        assert!(seen.insert(check(&decision)), "{cause:?}");
    }
}

#[test]
fn every_unfinished_search_is_noted() {
    let mut decision = rejected_by_merge();
    for question in MergeSearch::ALL {
        decision.explanation.alignments[0]
            .merge
            .unfinished
            .insert(question);
    }
    check(&decision);
    let text = rejection("new", &decision, None, WIDTH);
    assert_eq!(
        text.matches("Note: ").count(),
        MergeSearch::ALL.len(),
        "{text}"
    );
}

#[test]
fn a_rejection_without_facts_still_says_something() {
    for manager in [
        None,
        Some(ResourceManager::Device),
        Some(ResourceManager::Cpu),
        Some(ResourceManager::Memory),
    ] {
        let decision = Decision {
            pod: "new".into(),
            result: AdmissionResult::Rejected(Rejection {
                reason: RejectionReason::UnexpectedAdmissionError,
                message: String::new(),
                container: None,
                manager,
            }),
            explanation: Explanation::default(),
        };
        assert!(check(&decision).contains("UnexpectedAdmissionError: "));
    }
}

#[test]
fn large_machines_and_long_names_fit_the_screen() {
    let mut decision = rejected_by_merge();
    let alignment: &mut Alignment = &mut decision.explanation.alignments[0];
    alignment.hint = Hint::NONE;
    for facts in &mut alignment.resources {
        facts.resource = format!("vendor.example.com/{}", "long".repeat(50)).into();
        let one = facts.nodes[1];
        facts.nodes = (0..64)
            .map(|id| pinfold_core::explanation::NodeFacts {
                node: NodeId::new(id).unwrap(),
                total: one.total.max(1),
                ..one
            })
            .collect();
    }
    check(&decision);
    let text = rejection("new", &decision, None, WIDTH);
    assert!(text.contains("56 not shown"), "{text}");
}
