//! [`EffectivePolicy`]: the policies that apply to a pod on a node, out of those of pod, node, kubelet and scheduler.
//!
//! | policy | precedence in exact mode | precedence in sound mode |
//! |---|---|---|
//! | CPU binding | pod's required, kubelet `full-pcpus-only`, node label, pod's preferred, scheduler default | the same; only LSE and LSR pods are bound |
//! | NUMA alignment | pod's, node label, report (three spellings) | pod's, node label (`None` is one), report (all spellings), scheduler default |
//! | NUMA strategy | node label, scheduler default | node label, kubelet `distribute-cpus-across-numa`, scheduler default |
//!
//! In both modes a pod whose required policy conflicts with the one of the node is rejected.

use super::node::{KoordinatorNode, KoordinatorReport};
use super::plugin::{KoordinatorArgs, PreFilterState};
use super::policy_values::{
    CpuBinding, ExclusiveLevel, NodeBindPolicy, NumaExclusive, NumaPolicy, NumaStrategy,
};
use super::qos::KubeletPinning;
use super::rejection::{KoordinatorReason, KoordinatorRejection};
use crate::koordinator::KoordinatorDefects;
use pinfold_core::fidelity::Fidelity;

/// The policies that apply to one pod on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectivePolicy {
    /// How the pod is aligned to NUMA nodes; `None`: it is not aligned.
    pub numa_policy: Option<NumaPolicy>,
    /// Whether pods on one NUMA node and pods that span several are kept on different NUMA nodes.
    pub numa_exclusive: bool,
    /// Whether the pod binds CPUs.
    pub bind: bool,
    /// How its CPUs are chosen.
    pub binding: Option<CpuBinding>,
    /// Whether `binding` is required rather than preferred.
    pub required: bool,
    /// What it prefers to have exclusively.
    pub exclusive: ExclusiveLevel,
    /// Which NUMA node is used first.
    pub strategy: NumaStrategy,
    /// Whether `binding` or `exclusive` is another than the pod's, because the machine has one CPU per core.
    pub is_adapted: bool,
}

impl EffectivePolicy {
    /// Determines the policies of a pod on a node.
    ///
    /// # Errors
    /// If the policies of pod and node conflict.
    pub fn of(
        pod: &PreFilterState,
        node: &KoordinatorNode,
        args: &KoordinatorArgs,
    ) -> Result<Self, KoordinatorRejection> {
        let fidelity = node.ledger.fidelity();
        if !fidelity.ignores_unknown_values() {
            check_values(node)?;
        }
        let on_node = node_numa_policy(node, args, fidelity);
        let numa_policy = match (&pod.numa_policy, on_node) {
            (Some(of_pod), Some(of_node)) if *of_pod != of_node => {
                return Err(KoordinatorRejection::unresolvable(
                    KoordinatorReason::NumaPolicyMismatch,
                ));
            }
            (Some(of_pod), _) => Some(of_pod.clone()),
            (None, of_node) => of_node,
        };
        let demanded = node_binding(node);
        let forced = demanded.is_some() && (pod.eligible || fidelity.binds_every_pod());
        let bind = pod.bind || forced && pod.cpu_milli() != 0;
        if bind && !pod.bind && pod.cpu_milli() % super::amounts::MILLI != 0 {
            return Err(KoordinatorRejection::unresolvable(
                KoordinatorReason::FractionalCpus,
            ));
        }
        let demanded = demanded.filter(|_| bind || fidelity.binds_every_pod());
        let (binding, required) = match (pod.required, demanded) {
            (Some(binding), _) | (None, Some(binding)) => (Some(binding), true),
            (None, None) => (pod.preferred, false),
        };
        let mut policy = EffectivePolicy {
            numa_exclusive: numa_exclusive(pod),
            numa_policy,
            bind,
            binding,
            required,
            exclusive: pod.exclusive,
            strategy: strategy(node, args, fidelity),
            is_adapted: false,
        };
        if !fidelity.ignores_single_threads() {
            policy.is_adapted = policy.adapt_to_single_threads(node);
        }
        Ok(policy)
    }

    /// On a machine with one CPU per core, `FullPCPUs` is the only bind policy and `NUMANodeLevel` the only exclusive
    /// policy. Returns whether that changed anything.
    fn adapt_to_single_threads(&mut self, node: &KoordinatorNode) -> bool {
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

fn check_values(node: &KoordinatorNode) -> Result<(), KoordinatorRejection> {
    let unknown =
        |value| KoordinatorRejection::unresolvable(KoordinatorReason::UnknownValue(value));
    if let Some(policy) = &node.bind_policy {
        policy.known().map_err(unknown)?;
    }
    if let Some(strategy) = &node.strategy {
        strategy.known().map_err(unknown)?;
    }
    match &node.numa_policy {
        Some(policy) if policy.is_none() => Ok(()),
        Some(policy) => policy.known().map(|_| ()).map_err(unknown),
        None => Ok(()),
    }
}

/// Whether the pod is kept apart. Without the annotation, a pod with a NUMA policy is, and one that follows the node's
/// is not.
fn numa_exclusive(pod: &PreFilterState) -> bool {
    match &pod.numa_exclusive {
        Some(mode) => *mode == NumaExclusive::Required,
        None => pod.numa_policy.is_some(),
    }
}

/// The bind policy that the node requires of every cpuset. A label cannot override `full-pcpus-only` of the kubelet.
#[must_use]
pub(crate) fn node_binding(node: &KoordinatorNode) -> Option<CpuBinding> {
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
        Some(label) => NumaStrategy::of(label),
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
        policies.map(String::as_str).find_map(|policy| {
            match fidelity.reads_few_numa_policy_names() {
                true => few_numa_policies(policy),
                false => all_numa_policies(policy),
            }
        })
    };
    match &node.numa_policy {
        Some(policy) if policy.is_none() && !fidelity.ignores_unknown_values() => None,
        Some(policy) => Some(policy.clone()),
        None => node.report.as_ref().and_then(reported).or_else(|| {
            match fidelity.lacks_some_defaults() {
                true => None,
                false => args.default_numa_policy.clone(),
            }
        }),
    }
}

/// The spellings that Koordinator's scheduler reads.
fn few_numa_policies(text: &str) -> Option<NumaPolicy> {
    match text {
        "BestEffort" => Some(NumaPolicy::BestEffort),
        "Restricted" => Some(NumaPolicy::Restricted),
        "SingleNUMANodePodLevel" => Some(NumaPolicy::SingleNumaNode),
        _ => None,
    }
}

/// All spellings, including those that Koordinator's agent writes.
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
