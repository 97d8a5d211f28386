//! Tests of the precedence of policies.

use super::*;
use crate::koordinator::ledger::KoordinatorLedger;
use crate::koordinator::node::KubeletCpus;
use crate::koordinator::policy_values::AllocateStrategy;

fn node(policies: &[&str], fidelity: Fidelity) -> KoordinatorNode {
    let mut report = KoordinatorReport::default();
    report.topology_policies = policies.iter().map(ToString::to_string).collect();
    KoordinatorNode {
        report: Some(report),
        ledger: KoordinatorLedger::new(fidelity),
        ..KoordinatorNode::default()
    }
}

#[test]
fn sound_mode_reads_every_spelling_of_the_reported_numa_policy_and_exact_mode_three() {
    use NumaPolicy::{BestEffort, Restricted, SingleNumaNode};
    let table = [
        ("BestEffort", Some(BestEffort), true),
        ("Restricted", Some(Restricted), true),
        ("SingleNUMANodePodLevel", Some(SingleNumaNode), true),
        ("SingleNUMANodeContainerLevel", Some(SingleNumaNode), false),
        ("RestrictedPodLevel", Some(Restricted), false),
        ("BestEffortContainerLevel", Some(BestEffort), false),
        ("None", None, true),
    ];
    for (text, policy, known_to_original) in table {
        for fidelity in [Fidelity::Exact, Fidelity::Sound] {
            let found = node_numa_policy(
                &node(&[text], fidelity),
                &KoordinatorArgs::default(),
                fidelity,
            );
            let known = fidelity == Fidelity::Sound || known_to_original;
            assert_eq!(
                found,
                policy.clone().filter(|_| known),
                "{text} {fidelity:?}"
            );
        }
    }
}

#[test]
fn a_label_overrides_the_report_and_none_is_a_policy_only_in_sound_mode() {
    for (fidelity, expected) in [
        (Fidelity::Exact, NumaPolicy::parse("None")),
        (Fidelity::Sound, None),
    ] {
        let mut node = node(&["Restricted"], fidelity);
        node.numa_policy = NumaPolicy::parse("None");
        assert_eq!(
            node_numa_policy(&node, &KoordinatorArgs::default(), fidelity),
            expected
        );
    }
}

#[test]
fn the_scheduler_default_for_alignment_applies_only_in_sound_mode() {
    let args = KoordinatorArgs {
        default_numa_policy: Some(NumaPolicy::Restricted),
        ..KoordinatorArgs::default()
    };
    for (fidelity, expected) in [
        (Fidelity::Exact, None),
        (Fidelity::Sound, Some(NumaPolicy::Restricted)),
    ] {
        assert_eq!(
            node_numa_policy(&node(&["None"], fidelity), &args, fidelity),
            expected
        );
    }
}

#[test]
fn a_kubelet_with_full_pcpus_only_overrides_the_nodes_label() {
    let mut node = node(&[], Fidelity::Sound);
    node.bind_policy = Some(NodeBindPolicy::SpreadByPcpus);
    assert_eq!(node_binding(&node), Some(CpuBinding::SpreadByPcpus));
    let kubelet = |pinning| KubeletCpus {
        pinning,
        full_pcpus_only: true,
        distribute_across_numa: false,
    };
    for (pinning, expected) in [
        (KubeletPinning::None, CpuBinding::SpreadByPcpus),
        (KubeletPinning::Static, CpuBinding::FullPcpus),
    ] {
        if let Some(report) = &mut node.report {
            report.kubelet = kubelet(pinning);
        }
        assert_eq!(node_binding(&node), Some(expected));
    }
}

#[test]
fn the_strategy_comes_from_the_label_then_the_kubelet_then_the_scheduler() {
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        let mut node = node(&[], fidelity);
        let args = KoordinatorArgs::default();
        assert_eq!(
            strategy(&node, &args, fidelity),
            NumaStrategy::LeastAllocated
        );
        if let Some(report) = &mut node.report {
            report.kubelet.distribute_across_numa = true;
        }
        let expected = match fidelity {
            Fidelity::Exact => NumaStrategy::LeastAllocated,
            _ => NumaStrategy::DistributeEvenly,
        };
        assert_eq!(strategy(&node, &args, fidelity), expected);
        node.strategy = Some(AllocateStrategy::MostAllocated);
        assert_eq!(
            strategy(&node, &args, fidelity),
            NumaStrategy::MostAllocated
        );
    }
}
