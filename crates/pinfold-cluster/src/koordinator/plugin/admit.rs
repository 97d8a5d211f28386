//! Chooses the NUMA nodes of a pod. Mirrors `FilterByNUMANode` and the topology manager's `Admit`.

use super::{Allocation, KoordinatorArgs, KoordinatorNode, PodOnNode, PreFilterState};
use crate::koordinator::KoordinatorDefects;
use crate::koordinator::allocate::Allocator;
use crate::koordinator::effective_policy::EffectivePolicy;
use crate::koordinator::hints::HintLists;
use crate::koordinator::ledger::NumaOccupancy;
use crate::koordinator::merge::{
    HintList, MergeContext, MergePolicy, ProviderHintLists, ScoredHint, lazy_reasons_against,
    merge, merge_preferred, reasons_against,
};
use crate::koordinator::policy_values::NumaPolicy;
use crate::koordinator::rejection::{FrameworkCode, KoordinatorReason, KoordinatorRejection};
use crate::koordinator::score::Scorer;

/// The NUMA nodes of the pod under `policy`, and its allocation there.
pub(super) fn admit(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
    terms: &EffectivePolicy,
    policy: &NumaPolicy,
) -> Result<(ScoredHint, Allocation), KoordinatorRejection> {
    let zones = node
        .report
        .as_ref()
        .map_or(&[][..], |report| report.zones());
    if zones.is_empty() {
        return Err(KoordinatorRejection::unresolvable(
            KoordinatorReason::MissingNumaResources,
        ));
    }
    let attempt = PodOnNode::new(pod, node, terms).map_err(KoordinatorRejection::unschedulable)?;
    let scorer = args.scorer(args.numa_scoring, node.ledger.fidelity());
    attempt.run(|allocator| {
        if allocator.lacks_topology() {
            return Err(KoordinatorRejection::unschedulable(
                KoordinatorReason::NoHints,
            ));
        }
        let hint = choose(allocator, node, terms, policy, &scorer)?;
        match allocator.allocate(hint.mask) {
            Ok(allocation) => Ok((hint, allocation)),
            Err(_)
                if *policy == NumaPolicy::BestEffort
                    && !node.ledger.fidelity().decides_in_reserve() =>
            {
                unaligned(allocator)
            }
            Err(rejection) => Err(rejection),
        }
    })
}

/// Under best effort a pod that cannot be aligned is allocated on all NUMA nodes or, failing that, without a hint.
fn unaligned(allocator: &Allocator<'_>) -> Result<(ScoredHint, Allocation), KoordinatorRejection> {
    let all = ScoredHint {
        mask: Some(allocator.zones().iter().map(|zone| zone.node).collect()),
        ..ScoredHint::default()
    };
    if let Ok(allocation) = allocator.allocate(all.mask) {
        return Ok((all, allocation));
    }
    let anywhere = allocator.allocate(None)?;
    Ok((ScoredHint::default(), anywhere))
}

fn choose(
    allocator: &Allocator<'_>,
    node: &KoordinatorNode,
    terms: &EffectivePolicy,
    policy: &NumaPolicy,
    scorer: &Scorer,
) -> Result<ScoredHint, KoordinatorRejection> {
    let merge_policy = match policy {
        NumaPolicy::BestEffort => MergePolicy::BestEffort,
        NumaPolicy::Restricted => MergePolicy::Restricted,
        NumaPolicy::SingleNumaNode => MergePolicy::SingleNumaNode,
        NumaPolicy::Other(_) => {
            // Koordinator panics here.
            let unknown = policy
                .known()
                .map(|_| ())
                .map_err(KoordinatorReason::UnknownValue);
            let why = unknown.err().unwrap_or(KoordinatorReason::NoHints);
            return Err(KoordinatorRejection::with(FrameworkCode::Error, why));
        }
    };
    let demands_alignment = merge_policy != MergePolicy::BestEffort;
    let mut lists = HintLists::new(allocator, Some(policy), Some(scorer));
    if demands_alignment {
        lists.score_only_preferred();
    }
    let context = MergeContext {
        nodes: lists.nodes(),
        numa_exclusive: terms.numa_exclusive,
        occupancy: match terms.numa_exclusive {
            true => node.ledger.occupancy(),
            false => NumaOccupancy::default(),
        },
    };
    // A preferred hint wins over everything that wider sets could add, and beyond some width no hint is preferred.
    let ready = |lists: &HintLists<'_, '_>| lists.lists.iter().all(|list| !list.hints.is_empty());
    let can_be_lazy = demands_alignment && lists.can_be_lazy();
    let last = match merge_policy {
        MergePolicy::SingleNumaNode => Some(1),
        _ => lists.last_preferred_width(),
    };
    let last = last.filter(|_| demands_alignment);
    let mut more = true;
    while more {
        if ready(&lists)
            && last.is_none_or(|last| lists.width() <= last)
            && let Some(hint) = merge_preferred(merge_policy, &context, &[provider(&lists)])
        {
            return Ok(hint);
        }
        if can_be_lazy && last.is_some_and(|last| lists.width() >= last) {
            break;
        }
        more = lists.widen();
    }
    if let Some(hints) = lists.lazy().filter(|_| can_be_lazy) {
        return Err(KoordinatorRejection {
            code: FrameworkCode::Unschedulable,
            reasons: lazy_reasons_against(merge_policy, hints),
        });
    }
    let providers = [provider(&lists)];
    match merge_policy {
        MergePolicy::None | MergePolicy::BestEffort => {
            Ok(merge(merge_policy, &context, &providers).hint)
        }
        MergePolicy::Restricted | MergePolicy::SingleNumaNode => Err(KoordinatorRejection {
            code: FrameworkCode::Unschedulable,
            reasons: reasons_against(merge_policy, &providers),
        }),
    }
}

/// The hint lists of all resources as one provider.
fn provider<'a>(lists: &'a HintLists<'_, '_>) -> ProviderHintLists<'a> {
    let rows = lists.lists.iter();
    rows.map(|list| (&list.name, HintList::Hints(&list.hints)))
        .collect()
}
