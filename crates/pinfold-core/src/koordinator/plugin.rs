//! The plugin: the stages a pod passes on its way to a node, as pure functions.
//!
//! Mirrors `NodeNUMAResource`: [`pre_filter`] looks at the pod alone, [`filter`] tells whether a node could take it and on
//! which NUMA nodes, [`score`] how well, [`reserve`] what it gets, [`pre_bind`] what is written on the pod. The caller keeps
//! the [`KoordinatorNode`]: [`KoordinatorNode::assume`] after a reservation, [`KoordinatorNode::forget`] to undo it.
//!
//! Reservations, preemption and devices are not part of it.

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
use crate::fidelity::Fidelity;

mod admit;
mod constrained_burst;
mod pod_on_node;

use pod_on_node::PodOnNode;

/// The plugin's configuration (`NodeNUMAResourceArgs`), and two defaults that only sound mode has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KoordinatorArgs {
    /// How the CPUs of pods that do not say are chosen; nothing: such pods are not bound.
    pub default_bind: Option<BindPolicy>,
    /// What scores high on a node, and the weights of both scores.
    pub scoring: ScoreKind,
    /// What scores high on a NUMA node.
    pub numa_scoring: ScoreKind,
    /// The resources that count. The original configures weights for NUMA nodes too, and uses these.
    pub weights: Amounts,
    /// What pods that say `Default` keep for themselves (sound mode only).
    pub default_exclusive: Option<ExclusivePolicy>,
    /// How pods are aligned where neither pod nor node says (sound mode only).
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
    /// Which NUMA node is taken first where the node does not say.
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

/// What the plugin has to know about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDemand {
    /// Its effective requests.
    pub requests: Amounts,
    /// Its effective limits.
    pub limits: Amounts,
    /// Label `qosClass`, if it names a class.
    pub qos: Option<KoordinatorQos>,
    /// What its label or number says about its priority.
    pub priority: Option<Priority>,
    /// Annotation `resource-spec`.
    pub spec: ResourceSpec,
    /// Annotation `numa-topology-spec`.
    pub numa: NumaSpec,
}

/// What [`pre_filter`] found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreFilterState {
    pub(super) requests: Amounts,
    pub(super) cpus: usize,
    /// May have CPUs of its own.
    pub(super) eligible: bool,
    /// Wants CPUs of its own.
    pub(super) bind: bool,
    pub(super) required: Option<CpuBinding>,
    pub(super) preferred: Option<CpuBinding>,
    pub(super) exclusive: ExclusiveLevel,
    pub(super) numa_policy: Option<NumaPolicy>,
    pub(super) numa_exclusive: Option<NumaExclusive>,
    /// The CPU limit for which a NUMA node's shared pool must suffice (`ConstrainedBurst`, sound mode).
    pub(super) burst_milli: Option<i64>,
}

impl PreFilterState {
    /// The CPU it asks for, in thousandths.
    #[must_use]
    pub fn cpu_milli(&self) -> i64 {
        self.requests.get(CPU)
    }
}

/// Looks at the pod alone. `None`: it asks for nothing, the plugin has no say.
///
/// # Errors
/// If it asks for CPUs of its own in fractions, or in words that mean nothing (sound mode).
pub fn pre_filter(
    pod: &PodDemand,
    args: &KoordinatorArgs,
    fidelity: Fidelity,
) -> Result<Option<PreFilterState>, KoordinatorRejection> {
    if pod.requests.is_zero() {
        return Ok(None);
    }
    if !fidelity.ignores_unknown_words() {
        check_words(pod)?;
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
        return Err(KoordinatorRejection::here(
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
            Some(ExclusivePolicy::Other(word)) if word == "Default" => default,
            policy => policy.as_ref(),
        });
    }
    Ok(Some(state))
}

fn check_words(pod: &PodDemand) -> Result<(), KoordinatorRejection> {
    let unknown = |word| KoordinatorRejection::here(KoordinatorReason::UnknownValue(word));
    for policy in [&pod.spec.required_bind, &pod.spec.preferred_bind]
        .into_iter()
        .flatten()
    {
        policy.known().map_err(unknown)?;
    }
    match &pod.spec.preferred_exclusive {
        Some(ExclusivePolicy::Other(word)) if word == "Default" => {}
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

/// What the stages before binding say about one pod on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterAndScore {
    /// The NUMA placement that [`filter`] decided, if it did.
    pub placement: Option<ScoredHint>,
    /// What [`reserve`] would give, as far as it was worked out already.
    pub allocation: Option<Allocation>,
    /// What [`score`] says, 0 to 100.
    pub score: i64,
}

/// [`filter`] and [`score`] in one: what the filter worked out is not worked out again.
///
/// # Errors
/// With the reasons why the node could not take the pod.
pub fn filter_and_score(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
) -> Result<FilterAndScore, KoordinatorRejection> {
    let terms = EffectivePolicy::of(pod, node, args)?;
    let found = find(pod, node, args, &terms)?;
    let score = match &found {
        FilterOutcome::Aligned(_, allocation) => {
            score_aligned(pod, node, args, &terms, Some(allocation))
        }
        FilterOutcome::Unaligned(_) | FilterOutcome::Undecided => {
            score_under(pod, node, args, &terms, found.placement())
        }
    };
    Ok(FilterAndScore {
        placement: found.placement().copied(),
        score,
        allocation: match found {
            FilterOutcome::Aligned(_, allocation) => Some(allocation),
            FilterOutcome::Unaligned(allocation) => allocation,
            FilterOutcome::Undecided => None,
        },
    })
}

/// Tells whether the node could take the pod. Returns the NUMA placement that the later stages are to use, if one
/// was decided.
///
/// # Errors
/// With the reasons why not.
pub fn filter(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
) -> Result<Option<ScoredHint>, KoordinatorRejection> {
    let terms = EffectivePolicy::of(pod, node, args)?;
    let found = find(pod, node, args, &terms)?;
    Ok(found.placement().copied())
}

/// What the filter worked out.
enum FilterOutcome {
    /// These NUMA nodes, and what the pod gets on them.
    Aligned(ScoredHint, Allocation),
    /// No NUMA nodes, and what the pod gets, if anything.
    Unaligned(Option<Allocation>),
    /// Nothing yet: that is left to [`reserve`].
    Undecided,
}

impl FilterOutcome {
    fn placement(&self) -> Option<&ScoredHint> {
        match self {
            FilterOutcome::Aligned(hint, _) => Some(hint),
            FilterOutcome::Unaligned(_) | FilterOutcome::Undecided => None,
        }
    }
}

fn find(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
    terms: &EffectivePolicy,
) -> Result<FilterOutcome, KoordinatorRejection> {
    let fidelity = node.ledger.fidelity();
    check_amplified_cpu(pod, node, terms.bind)?;
    if terms.bind {
        check_binding(pod, node, terms)?;
        if terms.numa_policy.is_none() && (terms.required || !fidelity.decides_in_reserve()) {
            let allocation = PodOnNode::new(pod, node, terms)
                .map_err(KoordinatorRejection::here)?
                .run(|allocator| allocator.allocate(None))?;
            return Ok(FilterOutcome::Unaligned(Some(allocation)));
        }
    }
    match &terms.numa_policy {
        Some(NumaPolicy::BestEffort) if fidelity.decides_in_reserve() => {
            Ok(FilterOutcome::Undecided)
        }
        Some(policy) => admit::admit(pod, node, args, terms, policy)
            .map(|(hint, allocation)| FilterOutcome::Aligned(hint, allocation)),
        None if terms.bind => Ok(FilterOutcome::Undecided),
        None => constrained_burst::filter(pod, node).map(FilterOutcome::Unaligned),
    }
}

/// Mirrors `filterAmplifiedCPUs`: bound CPUs use up their multiple of the node's amplified CPU.
fn check_amplified_cpu(
    pod: &PreFilterState,
    node: &KoordinatorNode,
    bind: bool,
) -> Result<(), KoordinatorRejection> {
    let mut asked = pod.cpu_milli();
    if asked == 0 {
        return Ok(());
    }
    let ratio = match &node.ratios {
        RatioAnnotation::Absent => return Ok(()),
        RatioAnnotation::Unreadable(_) => {
            return Err(KoordinatorRejection::here(KoordinatorReason::InvalidRatio));
        }
        RatioAnnotation::Ratios(ratios) => ratios.cpu(),
    };
    // A NaN is not above 1 either.
    if ratio.is_nan() || ratio <= 1.0 {
        return Ok(());
    }
    if bind {
        asked = amplify(asked, ratio);
    }
    if node.report.is_some() && node.valid_topology().is_none() {
        return Err(KoordinatorRejection::here(
            KoordinatorReason::InvalidTopology,
        ));
    }
    let bound = node.ledger.bound_milli();
    let mut requested = node.requested.get(CPU);
    if requested >= bound && bound > 0 {
        requested = (requested - bound).saturating_add(amplify(bound, ratio));
    }
    match asked > node.allocatable.get(CPU).saturating_sub(requested) {
        true => Err(KoordinatorRejection::now(
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
        .ok_or_else(|| KoordinatorRejection::here(KoordinatorReason::InvalidTopology))?;
    let wish = match fidelity.minds_only_required_policies() {
        true => pod.required,
        false => pod.required.or(pod
            .preferred
            .filter(|binding| *binding == CpuBinding::SpreadByPcpus)),
    };
    let single_threads = !fidelity.ignores_single_threads() && topology.has_single_threads();
    if let (Some(wish), Some(demanded)) = (wish, node_binding(node))
        && wish != demanded
        && !single_threads
    {
        return Err(KoordinatorRejection::here(
            KoordinatorReason::BindPolicyConflict,
        ));
    }
    let whole_cores = terms.required && terms.binding == Some(CpuBinding::FullPcpus);
    let per_core = topology.cpus_per_core();
    match whole_cores && pod.cpus.checked_rem(per_core) != Some(0) {
        true => Err(KoordinatorRejection::here(KoordinatorReason::NotWholeCores)),
        false => Ok(()),
    }
}

/// How well the node suits the pod, 0 to 100.
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

/// The score of a pod that is aligned and would get `allocation`.
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

/// What the pod gets, or nothing if it binds no CPUs and is not aligned.
///
/// # Errors
/// With the reasons why it does not fit after all.
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

/// The pod's `resource-spec` completed with the policy that was used, if it has to be written.
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
    let unsaid = |policy: &Option<BindPolicy>| matches!(policy, None | Some(BindPolicy::Default));
    if terms.required && unsaid(&spec.required_bind) {
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
