//! The extension points of the plugin as pure functions.
//!
//! Mirrors `NodeNUMAResource`: [`pre_filter`] reads the pod alone, [`filter`] decides whether the pod fits a node and
//! on which NUMA nodes, [`score`] rates the node, [`reserve`] chooses CPUs and NUMA resources, [`pre_bind`] returns the
//! annotation of the pod. The caller updates the [`KoordinatorNode`]: [`KoordinatorNode::assume`] after `reserve`,
//! [`KoordinatorNode::forget`] to undo it.
//!
//! Koordinator's Reservation objects, preemption and devices are not covered.

use super::amounts::{Amounts, CPU, MILLI, NodeAmounts};
use super::amplify::amplify;
use super::effective_policy::{EffectivePolicy, node_binding};
use super::ledger::Allocation;
use super::merge::ScoredHint;
use super::node::{KoordinatorNode, RatioAnnotation};
use super::policy_values::{
    BindPolicy, CpuBinding, ExclusiveLevel, ExclusivePolicy, NumaExclusive, NumaPolicy, NumaSpec,
    NumaStrategy, ResourceSpec,
};
use super::qos::{KoordinatorQos, Priority, may_bind_cpus};
use super::rejection::{FrameworkCode, KoordinatorReason, KoordinatorRejection};
use super::score::{ScoreKind, Scorer};
use crate::koordinator::KoordinatorDefects;
use pinfold_core::fidelity::Fidelity;

mod admit;
mod constrained_burst;
mod pod_on_node;

use pod_on_node::PodOnNode;

/// The plugin's configuration (`NodeNUMAResourceArgs`), and two defaults that only sound mode has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KoordinatorArgs {
    /// The bind policy of pods without one; `None`: such pods are not bound to CPUs.
    pub default_bind: Option<BindPolicy>,
    /// Whether empty or full nodes score high.
    pub scoring: ScoreKind,
    /// Whether empty or full NUMA nodes score high.
    pub numa_scoring: ScoreKind,
    /// The weights of resources in both scores. Koordinator has separate weights for NUMA nodes, but uses these.
    pub weights: Amounts,
    /// The exclusive policy of pods without one or with `Default` (sound mode only).
    pub default_exclusive: Option<ExclusivePolicy>,
    /// The NUMA policy if neither pod nor node has one (sound mode only).
    pub default_numa_policy: Option<NumaPolicy>,
}

impl Default for KoordinatorArgs {
    fn default() -> Self {
        Self {
            default_bind: Some(BindPolicy::FullPcpus),
            scoring: ScoreKind::LeastAllocated,
            numa_scoring: ScoreKind::LeastAllocated,
            weights: Amounts::from([("cpu", 1), ("memory", 1)]),
            default_exclusive: None,
            default_numa_policy: None,
        }
    }
}

impl KoordinatorArgs {
    /// Which NUMA node is used first on a node without a label for it.
    #[must_use]
    pub fn strategy(&self) -> NumaStrategy {
        match self.numa_scoring {
            ScoreKind::MostAllocated => NumaStrategy::MostAllocated,
            ScoreKind::LeastAllocated => NumaStrategy::LeastAllocated,
        }
    }

    fn scorer(&self, kind: ScoreKind, fidelity: Fidelity) -> Scorer {
        Scorer {
            kind,
            weights: self.weights.clone(),
            fidelity,
        }
    }
}

/// What the plugin reads from a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDemand {
    /// Its effective requests.
    pub requests: Amounts,
    /// Its effective limits.
    pub limits: Amounts,
    /// Label `qosClass`, if it names a class.
    pub qos: Option<KoordinatorQos>,
    /// Its priority class, from the label or the priority number.
    pub priority: Option<Priority>,
    /// Annotation `resource-spec`.
    pub spec: ResourceSpec,
    /// Annotation `numa-topology-spec`.
    pub numa: NumaSpec,
}

/// The result of [`pre_filter`], which the later extension points use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreFilterState {
    pub(super) requests: Amounts,
    pub(super) cpus: usize,
    /// Whether its class may bind CPUs.
    pub(super) eligible: bool,
    /// Whether it binds CPUs.
    pub(super) bind: bool,
    pub(super) required: Option<CpuBinding>,
    pub(super) preferred: Option<CpuBinding>,
    pub(super) exclusive: ExclusiveLevel,
    pub(super) numa_policy: Option<NumaPolicy>,
    pub(super) numa_exclusive: Option<NumaExclusive>,
    /// The CPU limit that a NUMA node's shared pool must be large enough for (`ConstrainedBurst`, sound mode).
    pub(super) burst_milli: Option<i64>,
}

impl PreFilterState {
    /// The CPU that the pod requests, in milli-CPUs.
    #[must_use]
    pub(crate) fn cpu_milli(&self) -> i64 {
        self.requests.get(CPU)
    }
}

/// Reads the pod alone. `None`: it requests nothing, so the plugin skips it.
///
/// # Errors
/// If it binds CPUs and requests a fraction of one, or has an unknown policy value (sound mode).
pub fn pre_filter(
    pod: &PodDemand,
    args: &KoordinatorArgs,
    fidelity: Fidelity,
) -> Result<Option<PreFilterState>, KoordinatorRejection> {
    if pod.requests.is_zero() {
        return Ok(None);
    }
    if !fidelity.ignores_unknown_values() {
        check_values(pod)?;
    }
    let milli = pod.requests.get(CPU);
    let mut state = PreFilterState {
        requests: pod.requests.clone(),
        cpus: usize::try_from(milli / MILLI).unwrap_or(0),
        eligible: may_bind_cpus(pod.qos, pod.priority),
        bind: false,
        required: None,
        preferred: None,
        exclusive: ExclusiveLevel::Nothing,
        numa_policy: pod.numa.policy.clone(),
        numa_exclusive: pod.numa.exclusive.clone(),
        burst_milli: None,
    };
    let or_default = |policy: &Option<BindPolicy>| match policy {
        Some(BindPolicy::Default) => args.default_bind.clone(),
        Some(BindPolicy::ConstrainedBurst)
            if state.eligible && !fidelity.ignores_constrained_burst() =>
        {
            args.default_bind.clone()
        }
        policy => policy.clone(),
    };
    let required = or_default(&pod.spec.required_bind);
    let preferred = or_default(&pod.spec.preferred_bind).or_else(|| args.default_bind.clone());
    let effective = required.clone().or(preferred);
    if !state.eligible {
        if effective == Some(BindPolicy::ConstrainedBurst) && !fidelity.ignores_constrained_burst()
        {
            state.burst_milli = constrained_burst::burst(pod);
        }
        return Ok(Some(state));
    }
    let Some(binding) = effective.as_ref().and_then(BindPolicy::binding) else {
        return Ok(Some(state));
    };
    if milli % MILLI != 0 {
        return Err(KoordinatorRejection::unresolvable(
            KoordinatorReason::FractionalCpus,
        ));
    }
    if milli > 0 {
        state.bind = true;
        state.required = required.as_ref().and_then(BindPolicy::binding);
        state.preferred = Some(binding);
        let default = (args.default_exclusive.as_ref()).filter(|_| !fidelity.lacks_some_defaults());
        state.exclusive = ExclusivePolicy::level(match &pod.spec.preferred_exclusive {
            None => default,
            Some(policy) if policy.is_default() => default,
            policy => policy.as_ref(),
        });
    }
    Ok(Some(state))
}

fn check_values(pod: &PodDemand) -> Result<(), KoordinatorRejection> {
    let unknown =
        |value| KoordinatorRejection::unresolvable(KoordinatorReason::UnknownValue(value));
    for policy in [&pod.spec.required_bind, &pod.spec.preferred_bind]
        .into_iter()
        .flatten()
    {
        policy.known().map_err(unknown)?;
    }
    match &pod.spec.preferred_exclusive {
        Some(policy) if policy.is_default() => {}
        Some(policy) => _ = policy.known().map_err(unknown)?,
        None => {}
    }
    if let Some(policy) = &pod.numa.policy {
        policy.known().map_err(unknown)?;
    }
    match &pod.numa.exclusive {
        Some(mode) => mode.known().map(|_| ()).map_err(unknown),
        None => Ok(()),
    }
}

/// The result of [`filter_and_score`] for one pod on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterAndScore {
    /// The NUMA nodes that [`filter`] chose, if it chose some.
    pub placement: Option<ScoredHint>,
    /// The allocation that [`reserve`] would return, if `filter` computed it.
    pub allocation: Option<Allocation>,
    /// The result of [`score`], 0 to 100.
    pub score: i64,
}

/// [`filter`] and [`score`] in one call, which computes the allocation only once.
///
/// # Errors
/// With the reasons why the pod does not fit the node.
pub fn filter_and_score(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
) -> Result<FilterAndScore, KoordinatorRejection> {
    let terms = EffectivePolicy::of(pod, node, args)?;
    let found = find(pod, node, args, &terms)?;
    let score = match &found {
        FilterDecision::Aligned(_, allocation) => {
            score_aligned(pod, node, args, &terms, Some(allocation))
        }
        FilterDecision::Unaligned(_) | FilterDecision::Undecided => {
            score_under(pod, node, args, &terms, found.placement())
        }
    };
    Ok(FilterAndScore {
        placement: found.placement().copied(),
        score,
        allocation: match found {
            FilterDecision::Aligned(_, allocation) => Some(allocation),
            FilterDecision::Unaligned(allocation) => allocation,
            FilterDecision::Undecided => None,
        },
    })
}

/// Decides whether the pod fits the node. Returns the NUMA nodes that the later extension points use, if some were
/// chosen.
///
/// # Errors
/// With the reasons why the pod does not fit.
pub fn filter(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
) -> Result<Option<ScoredHint>, KoordinatorRejection> {
    let terms = EffectivePolicy::of(pod, node, args)?;
    let found = find(pod, node, args, &terms)?;
    Ok(found.placement().copied())
}

/// What [`filter`] decided.
enum FilterDecision {
    /// The pod is aligned to these NUMA nodes, with this allocation.
    Aligned(ScoredHint, Allocation),
    /// The pod is not aligned; its allocation, if it gets one.
    Unaligned(Option<Allocation>),
    /// [`reserve`] decides.
    Undecided,
}

impl FilterDecision {
    fn placement(&self) -> Option<&ScoredHint> {
        match self {
            FilterDecision::Aligned(hint, _) => Some(hint),
            FilterDecision::Unaligned(_) | FilterDecision::Undecided => None,
        }
    }
}

fn find(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
    terms: &EffectivePolicy,
) -> Result<FilterDecision, KoordinatorRejection> {
    let fidelity = node.ledger.fidelity();
    check_amplified_cpu(pod, node, terms.bind)?;
    if terms.bind {
        check_binding(pod, node, terms)?;
        if terms.numa_policy.is_none() && (terms.required || !fidelity.decides_in_reserve()) {
            let allocation = PodOnNode::new(pod, node, terms)
                .map_err(KoordinatorRejection::unresolvable)?
                .run(|allocator| allocator.allocate(None))?;
            return Ok(FilterDecision::Unaligned(Some(allocation)));
        }
    }
    match &terms.numa_policy {
        Some(NumaPolicy::BestEffort) if fidelity.decides_in_reserve() => {
            Ok(FilterDecision::Undecided)
        }
        Some(policy) => {
            // The limit must fit one NUMA node, whatever the policy makes of the requests.
            constrained_burst::filter(pod, node)?;
            admit::admit(pod, node, args, terms, policy)
                .map(|(hint, allocation)| FilterDecision::Aligned(hint, allocation))
        }
        None if terms.bind => Ok(FilterDecision::Undecided),
        None => constrained_burst::filter(pod, node).map(FilterDecision::Unaligned),
    }
}

/// Whether the node's amplified CPU suffices. Bound CPUs count with their amplified amount. Mirrors
/// `filterAmplifiedCPUs`.
fn check_amplified_cpu(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    bind: bool,
) -> Result<(), KoordinatorRejection> {
    let mut requested_cpu = pod.cpu_milli();
    if requested_cpu == 0 {
        return Ok(());
    }
    let ratio = match &node.ratios {
        RatioAnnotation::Absent => return Ok(()),
        RatioAnnotation::Unreadable(_) => {
            return Err(KoordinatorRejection::unresolvable(
                KoordinatorReason::InvalidRatio,
            ));
        }
        RatioAnnotation::Ratios(ratios) => ratios.cpu(),
    };
    // A NaN is not above 1 either.
    if ratio.is_nan() || ratio <= 1.0 {
        return Ok(());
    }
    if bind {
        requested_cpu = amplify(requested_cpu, ratio);
    }
    if node.report.is_some() && node.valid_topology().is_none() {
        return Err(KoordinatorRejection::unresolvable(
            KoordinatorReason::InvalidTopology,
        ));
    }
    let bound = node.ledger.bound_milli();
    let mut requested = node.requested.get(CPU);
    if requested >= bound && bound > 0 {
        requested = (requested - bound).saturating_add(amplify(bound, ratio));
    }
    match requested_cpu > node.allocatable.get(CPU).saturating_sub(requested) {
        true => Err(KoordinatorRejection::unschedulable(
            KoordinatorReason::InsufficientAmplifiedCpu,
        )),
        false => Ok(()),
    }
}

fn check_binding(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    terms: &EffectivePolicy,
) -> Result<(), KoordinatorRejection> {
    let fidelity = node.ledger.fidelity();
    let topology = node
        .valid_topology()
        .ok_or_else(|| KoordinatorRejection::unresolvable(KoordinatorReason::InvalidTopology))?;
    let wanted = match fidelity.checks_required_policies_only() {
        true => pod.required,
        false => pod.required.or(pod
            .preferred
            .filter(|binding| *binding == CpuBinding::SpreadByPcpus)),
    };
    let single_threads = !fidelity.ignores_single_threads() && topology.has_single_threads();
    if let (Some(wanted), Some(demanded)) = (wanted, node_binding(node))
        && wanted != demanded
        && !single_threads
    {
        return Err(KoordinatorRejection::unresolvable(
            KoordinatorReason::BindPolicyConflict,
        ));
    }
    let whole_cores = terms.required && terms.binding == Some(CpuBinding::FullPcpus);
    let per_core = topology.cpus_per_core();
    match whole_cores && pod.cpus.checked_rem(per_core) != Some(0) {
        true => Err(KoordinatorRejection::unresolvable(
            KoordinatorReason::NotWholeCores,
        )),
        false => Ok(()),
    }
}

/// The score of the node for the pod, 0 to 100.
#[must_use]
pub fn score(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
    placement: Option<&ScoredHint>,
) -> i64 {
    match EffectivePolicy::of(pod, node, args) {
        Ok(terms) => score_under(pod, node, args, &terms, placement),
        Err(_) => 0,
    }
}

/// Why [`score`] fails for a pod that passes [`filter`]: it allocates under the policy `BestEffort` only now, and that
/// may not succeed. `None` if it does not fail.
#[must_use]
pub fn score_error(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
) -> Option<KoordinatorRejection> {
    let terms = EffectivePolicy::of(pod, node, args).ok()?;
    let is_scored = terms.numa_policy.is_some() && !(terms.bind && node.valid_topology().is_none());
    let found = find(pod, node, args, &terms).ok().filter(|_| is_scored)?;
    if matches!(found, FilterDecision::Aligned(..)) {
        return None;
    }
    let nodes = found.placement().and_then(|hint| hint.mask);
    let attempt = PodOnNode::new(pod, node, &terms).ok()?;
    attempt.run(|allocator| allocator.allocate(nodes)).err()
}

fn score_under(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
    terms: &EffectivePolicy,
    placement: Option<&ScoredHint>,
) -> i64 {
    if terms.bind && node.valid_topology().is_none() {
        return 0;
    }
    if terms.numa_policy.is_some() {
        let nodes = placement.and_then(|hint| hint.mask);
        let allocation = PodOnNode::new(pod, node, terms)
            .ok()
            .and_then(|attempt| attempt.run(|allocator| allocator.allocate(nodes)).ok());
        return score_aligned(pod, node, args, terms, allocation.as_ref());
    }
    let Ok(attempt) = PodOnNode::new(pod, node, terms) else {
        return 0;
    };
    let scorer = args.scorer(args.scoring, node.ledger.fidelity());
    match attempt.node_requested() {
        Some(used) => scorer.score(&used, &node.allocatable, &attempt.requests),
        None => 0,
    }
}

/// The score of the node for an aligned pod with this allocation.
fn score_aligned(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
    terms: &EffectivePolicy,
    allocation: Option<&Allocation>,
) -> i64 {
    let attempt = PodOnNode::new(pod, node, terms);
    let (Ok(attempt), Some(allocation)) = (attempt, allocation) else {
        return 0;
    };
    if terms.bind && node.valid_topology().is_none() {
        return 0;
    }
    let scorer = args.scorer(args.scoring, node.ledger.fidelity());
    let amounts = |resource: &str| attempt.used_and_total(allocation, resource);
    scorer.score_by(amounts, &attempt.requests)
}

/// The allocation of the pod; `None` if it binds no CPUs and is not aligned.
///
/// # Errors
/// With the reasons why the pod does not fit.
pub fn reserve(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
    placement: Option<&ScoredHint>,
) -> Result<Option<Allocation>, KoordinatorRejection> {
    let terms = EffectivePolicy::of(pod, node, args)?;
    let mut nodes = placement.and_then(|hint| hint.mask);
    if let (None, Some(policy @ NumaPolicy::BestEffort)) = (placement, &terms.numa_policy) {
        nodes = admit::admit(pod, node, args, &terms, policy)?.0.mask;
    }
    if !terms.bind && terms.numa_policy.is_none() {
        return constrained_burst::filter(pod, node);
    }
    if terms.bind && node.valid_topology().is_none() {
        return Err(KoordinatorRejection::with(
            FrameworkCode::Error,
            KoordinatorReason::InvalidTopology,
        ));
    }
    let attempt = PodOnNode::new(pod, node, &terms)
        .map_err(|why| KoordinatorRejection::with(FrameworkCode::Error, why))?;
    attempt.run(|allocator| allocator.allocate(nodes)).map(Some)
}

/// The pod's `resource-spec` completed with the policy that was used; `None` if that changes nothing.
/// Mirrors `appendResourceSpecIfMissed`.
#[must_use]
pub fn pre_bind(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
    spec: &ResourceSpec,
) -> Option<ResourceSpec> {
    let terms = EffectivePolicy::of(pod, node, args)
        .ok()
        .filter(|terms| terms.bind)?;
    let used = terms.binding.map(BindPolicy::from);
    let mut complete = spec.clone();
    let is_unset = |policy: &Option<BindPolicy>| matches!(policy, None | Some(BindPolicy::Default));
    if terms.required && is_unset(&spec.required_bind) {
        complete.required_bind.clone_from(&used);
    }
    if spec.preferred_bind == Some(BindPolicy::Default) {
        complete.preferred_bind.clone_from(&used);
    }
    if complete.required_bind.is_none() && complete.preferred_bind.is_none() {
        complete.preferred_bind = used;
    }
    (complete != *spec).then_some(complete)
}

#[cfg(test)]
mod tests;
