//! Which policies hold when pod, node, kubelet and scheduler each have a say.
//!
//! | question | exact order | sound order |
//! |---|---|---|
//! | how CPUs are bound | pod's required, kubelet `full-pcpus-only`, node label, pod's preferred, scheduler default | the same; only LSE and LSR pods are bound |
//! | NUMA alignment | pod's, node label, report (three spellings) | pod's, node label (`None` is one), report (all spellings), scheduler default |
//! | NUMA strategy | node label, scheduler default | node label, kubelet `distribute-cpus-across-numa`, scheduler default |
//!
//! In both, a pod that requires what the node forbids is rejected.

use super::node::{KoordinatorNode, KoordinatorReport};
use super::plugin::{KoordinatorArgs, PreFilterState};
use super::policy_values::{
    CpuBinding, ExclusiveLevel, NodeBindPolicy, NumaExclusive, NumaPolicy, NumaStrategy,
};
use super::qos::KubeletPinning;
use super::rejection::{KoordinatorReason, KoordinatorRejection};
use crate::fidelity::Fidelity;

/// What pod and node together demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectivePolicy {
    /// How the pod is aligned; nothing: not at all.
    pub numa_policy: Option<NumaPolicy>,
    /// Whether pods on one NUMA node and pods on several are kept apart.
    pub keeps_apart: bool,
    /// Whether the pod binds CPUs.
    pub bind: bool,
    /// How its CPUs are chosen.
    pub binding: Option<CpuBinding>,
    /// Whether that is a must.
    pub required: bool,
    /// What it would like to keep for itself.
    pub exclusive: ExclusiveLevel,
    /// Which NUMA node is taken first.
    pub strategy: NumaStrategy,
}

impl EffectivePolicy {
    /// Puts the demands together.
    ///
    /// # Errors
    /// If they exclude each other.
    pub fn of(
        pod: &PreFilterState,
        node: &KoordinatorNode,
        args: &KoordinatorArgs,
    ) -> Result<Self, KoordinatorRejection> {
        let fidelity = node.ledger.fidelity();
        if !fidelity.ignores_unknown_words() {
            check_words(node)?;
        }
        let on_node = node_numa_policy(node, args, fidelity);
        let numa_policy = match (&pod.numa_policy, on_node) {
            (Some(asked), Some(given)) if *asked != given => {
                return Err(KoordinatorRejection::here(
                    KoordinatorReason::NumaPolicyMismatch,
                ));
            }
            (Some(asked), _) => Some(asked.clone()),
            (None, given) => given,
        };
        let demanded = node_binding(node);
        let forced = demanded.is_some() && (pod.eligible || fidelity.binds_every_pod());
        let bind = pod.bind || forced && pod.cpu_milli() != 0;
        if bind && !pod.bind && pod.cpu_milli() % super::amounts::MILLI != 0 {
            return Err(KoordinatorRejection::here(
                KoordinatorReason::FractionalCpus,
            ));
        }
        let demanded = demanded.filter(|_| bind || fidelity.binds_every_pod());
        let (binding, required) = match (pod.required, demanded) {
            (Some(binding), _) | (None, Some(binding)) => (Some(binding), true),
            (None, None) => (pod.preferred, false),
        };
        let mut terms = EffectivePolicy {
            keeps_apart: keeps_apart(pod),
            numa_policy,
            bind,
            binding,
            required,
            exclusive: pod.exclusive,
            strategy: strategy(node, args, fidelity),
        };
        if !fidelity.ignores_single_threads() {
            terms.suit_single_threads(node);
        }
        Ok(terms)
    }

    /// Where every core has one CPU, cores mean nothing: `FullPCPUs` is the only way to bind and
    /// `NUMANodeLevel` the only exclusivity. Tells whether anything else was asked for.
    fn suit_single_threads(&mut self, node: &KoordinatorNode) -> bool {
        if !node
            .valid_topology()
            .is_some_and(super::cpu_topology::KoordinatorTopology::has_single_threads)
        {
            return false;
        }
        let before = (self.binding, self.exclusive);
        self.binding = self.binding.map(|_| CpuBinding::FullPcpus);
        if self.exclusive == ExclusiveLevel::Core {
            self.exclusive = ExclusiveLevel::NumaNode;
        }
        before != (self.binding, self.exclusive)
    }
}

fn check_words(node: &KoordinatorNode) -> Result<(), KoordinatorRejection> {
    let unknown = |word| KoordinatorRejection::here(KoordinatorReason::UnknownValue(word));
    if let Some(policy) = &node.bind_policy {
        policy.known().map_err(unknown)?;
    }
    if let Some(strategy) = &node.strategy {
        strategy.known().map_err(unknown)?;
    }
    match &node.numa_policy {
        Some(NumaPolicy::Other(word)) if word == "None" => Ok(()),
        Some(policy) => policy.known().map(|_| ()).map_err(unknown),
        None => Ok(()),
    }
}

/// Without a word of its own, a pod that brings its own NUMA policy is kept apart; one that follows the node's is not.
fn keeps_apart(pod: &PreFilterState) -> bool {
    match &pod.numa_exclusive {
        Some(mode) => *mode == NumaExclusive::Required,
        None => pod.numa_policy.is_some(),
    }
}

/// What the node demands of every cpuset. A kubelet that pins whole cores cannot be overruled by a label.
#[must_use]
pub fn node_binding(node: &KoordinatorNode) -> Option<CpuBinding> {
    let kubelet = node.report.as_ref().map(|report| report.kubelet);
    let whole_cores = kubelet.is_some_and(|kubelet| {
        kubelet.full_pcpus_only && kubelet.pinning == KubeletPinning::Static
    });
    match &node.bind_policy {
        Some(NodeBindPolicy::FullPcpusOnly) => Some(CpuBinding::FullPcpus),
        _ if whole_cores => Some(CpuBinding::FullPcpus),
        Some(NodeBindPolicy::SpreadByPcpus) => Some(CpuBinding::SpreadByPcpus),
        _ => None,
    }
}

fn strategy(node: &KoordinatorNode, args: &KoordinatorArgs, fidelity: Fidelity) -> NumaStrategy {
    let distributes = |report: &KoordinatorReport| report.kubelet.distribute_across_numa;
    match &node.strategy {
        Some(word) => NumaStrategy::of(word),
        None if !fidelity.ignores_distribute_evenly()
            && node.report.as_ref().is_some_and(distributes) =>
        {
            NumaStrategy::DistributeEvenly
        }
        None => args.strategy(),
    }
}

fn node_numa_policy(
    node: &KoordinatorNode,
    args: &KoordinatorArgs,
    fidelity: Fidelity,
) -> Option<NumaPolicy> {
    let reported = |report: &KoordinatorReport| {
        let policies = report.topology_policies.iter();
        policies
            .map(String::as_str)
            .find_map(|policy| match fidelity.knows_few_numa_policies() {
                true => few_numa_policies(policy),
                false => all_numa_policies(policy),
            })
    };
    match &node.numa_policy {
        Some(NumaPolicy::Other(word)) if word == "None" && !fidelity.ignores_unknown_words() => {
            None
        }
        Some(policy) => Some(policy.clone()),
        None => node.report.as_ref().and_then(reported).or_else(|| {
            match fidelity.lacks_some_defaults() {
                true => None,
                false => args.default_numa_policy.clone(),
            }
        }),
    }
}

/// The spellings that the original's scheduler knows.
fn few_numa_policies(text: &str) -> Option<NumaPolicy> {
    match text {
        "BestEffort" => Some(NumaPolicy::BestEffort),
        "Restricted" => Some(NumaPolicy::Restricted),
        "SingleNUMANodePodLevel" => Some(NumaPolicy::SingleNumaNode),
        _ => None,
    }
}

/// All spellings, the ones its own agent writes among them.
fn all_numa_policies(text: &str) -> Option<NumaPolicy> {
    let name = text
        .strip_suffix("PodLevel")
        .or_else(|| text.strip_suffix("ContainerLevel"));
    match name.unwrap_or(text) {
        "BestEffort" => Some(NumaPolicy::BestEffort),
        "Restricted" => Some(NumaPolicy::Restricted),
        "SingleNUMANode" => Some(NumaPolicy::SingleNumaNode),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
