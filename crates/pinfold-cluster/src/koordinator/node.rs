//! [`KoordinatorNode`]: one cluster node as the plugin sees it: its labels, its report, and the pods on it.

use crate::koordinator::KoordinatorDefects;
use std::borrow::Cow;
use std::sync::Arc;

use super::amounts::{Amounts, CPU, MILLI, NodeAmounts};
use super::amplify::Ratios;
use super::cpu_topology::KoordinatorTopology;
use super::ledger::{Allocation, KoordinatorLedger};
use super::policy_values::{AllocateStrategy, NodeBindPolicy, NumaPolicy};
use super::qos::KubeletPinning;
use super::rejection::KoordinatorReason;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::PodUid;
use pinfold_core::node_set::{NodeId, NodeSet};

/// A cluster node as Koordinator's plugin sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KoordinatorNode {
    /// Label `cpu-bind-policy`.
    pub bind_policy: Option<NodeBindPolicy>,
    /// Label `numa-allocate-strategy`.
    pub strategy: Option<AllocateStrategy>,
    /// Label `numa-topology-policy`.
    pub numa_policy: Option<NumaPolicy>,
    /// Annotation `resource-amplification-ratio`, or why it cannot be read.
    pub ratios: RatioAnnotation,
    /// The report of its agent (NodeResourceTopology), if there is one.
    pub report: Option<KoordinatorReport>,
    /// The node's `status.allocatable`.
    pub allocatable: Amounts,
    /// The sum of the requests of its pods.
    pub requested: Amounts,
    /// Which pods hold which CPUs and NUMA resources.
    pub ledger: KoordinatorLedger,
}

/// The amplification annotation of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RatioAnnotation {
    /// The node has no such annotation.
    #[default]
    Absent,
    /// The ratios of the annotation.
    Ratios(Ratios),
    /// The annotation cannot be parsed; the message of the parser.
    Unreadable(String),
}

/// The settings of the kubelet's CPU manager that the plugin reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KubeletCpus {
    /// Whether it pins CPUs.
    pub pinning: KubeletPinning,
    /// Option `full-pcpus-only`.
    pub full_pcpus_only: bool,
    /// Option `distribute-cpus-across-numa`.
    pub distribute_across_numa: bool,
}

/// The report of a node's agent (NodeResourceTopology).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KoordinatorReport {
    /// The CPUs; nodes with equal hardware may share the value.
    pub topology: Arc<KoordinatorTopology>,
    /// CPUs that are never assigned to pods.
    reserved: CpuSet,
    /// The reserved CPUs that are not part of a shared pool either.
    set_aside: CpuSet,
    /// The allocatable amounts of each NUMA node, without reserved CPUs. Ascending by id.
    pub(crate) zones: Arc<Vec<NodeAmounts>>,
    /// `topologyPolicies`.
    pub topology_policies: Vec<String>,
    /// The kubelet's CPU manager.
    pub kubelet: KubeletCpus,
    /// The ratios that the zones are already amplified with, if the report states them.
    pub ratios: Option<Ratios>,
    /// How many pods may share one CPU.
    pub max_refs: u32,
}

impl KoordinatorReport {
    /// A report of these CPUs and NUMA nodes. `kubelet_reserved` are the CPUs that the kubelet reserves, `set_aside`
    /// the CPUs of pods that the kubelet pins, of the node's reservation and of exclusive system pods. Mirrors
    /// `NewTopologyOptions`.
    #[must_use]
    pub fn new(
        topology: impl Into<Arc<KoordinatorTopology>>,
        kubelet_reserved: &CpuSet,
        set_aside: CpuSet,
        mut zones: Vec<NodeAmounts>,
    ) -> Self {
        let topology = topology.into();
        let reserved = kubelet_reserved | &set_aside;
        zones.sort_by_key(|zone| zone.node);
        for NodeAmounts { node, amounts } in &mut zones {
            let milli = amounts.get(CPU);
            let cpus = topology.cpus_of_node(*node);
            let lost = cpus.map_or(0, |cpus| cpus.common_len(&reserved));
            if milli != 0 {
                let lost = i64::try_from(lost).unwrap_or(0) * MILLI;
                amounts.set_cpu(milli.saturating_sub(lost));
            }
        }
        Self {
            topology,
            reserved,
            set_aside,
            zones: Arc::new(zones),
            max_refs: 1,
            ..Self::default()
        }
    }

    /// The allocatable amounts of each NUMA node, before amplification by the node's annotation.
    #[must_use]
    pub fn zones(&self) -> &[NodeAmounts] {
        &self.zones
    }

    /// The NUMA nodes that the report lists.
    #[must_use]
    pub(crate) fn zone_ids(&self) -> NodeSet {
        self.zones.iter().map(|zone| zone.node).collect()
    }

    /// CPUs that are never assigned to pods.
    #[must_use]
    pub fn reserved(&self) -> &CpuSet {
        &self.reserved
    }

    /// CPUs outside every shared pool: those of pods that the kubelet pins, of the node's reservation and of exclusive
    /// system pods.
    #[must_use]
    pub fn set_aside(&self) -> &CpuSet {
        &self.set_aside
    }
}

/// The NUMA id in a zone's name: `node-1` is 1. Mirrors `extractNUMANodeResources`, which parses what follows the only
/// `node-`.
#[must_use]
pub fn zone_id(name: &str) -> Option<NodeId> {
    let mut parts = name.split("node-");
    let (_, id) = (parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    NodeId::new(id.parse().ok()?).ok()
}

impl KoordinatorNode {
    /// The CPU topology, if it is valid.
    #[must_use]
    pub(crate) fn valid_topology(&self) -> Option<&KoordinatorTopology> {
        let report = self.report.as_ref()?;
        report.topology.is_valid().then_some(&*report.topology)
    }

    /// The amplified zones and the ratios they are amplified with. Mirrors `amplifyNUMANodeResources`.
    ///
    /// # Errors
    /// If the annotation is needed and cannot be parsed.
    pub(crate) fn amplified_zones(
        &self,
    ) -> Result<(Cow<'_, [NodeAmounts]>, Cow<'_, Ratios>), KoordinatorReason> {
        let zones = self
            .report
            .as_ref()
            .map_or(&[][..], KoordinatorReport::zones);
        if let Some(ratios) = self
            .report
            .as_ref()
            .and_then(|report| report.ratios.as_ref())
        {
            return Ok((Cow::Borrowed(zones), Cow::Borrowed(ratios)));
        }
        match &self.ratios {
            RatioAnnotation::Unreadable(why) => {
                Err(KoordinatorReason::UnreadableRatio(why.clone()))
            }
            RatioAnnotation::Absent => Ok((Cow::Borrowed(zones), Cow::Owned(Ratios::default()))),
            RatioAnnotation::Ratios(ratios) => {
                let amplified = zones.iter().map(|zone| NodeAmounts {
                    node: zone.node,
                    amounts: ratios.amplify(&zone.amounts),
                });
                Ok((Cow::Owned(amplified.collect()), Cow::Borrowed(ratios)))
            }
        }
    }

    /// Adds a pod and its allocation to the node. Koordinator does not record the allocation if the node's CPU topology
    /// is not valid.
    pub fn assume(&mut self, pod: PodUid, requests: &Amounts, allocation: Option<Allocation>) {
        self.requested.add(requests);
        let Some(allocation) = allocation else {
            return;
        };
        let drops = self.ledger.fidelity().drops_allocations_without_topology();
        let empty = KoordinatorTopology::default();
        let topology = match &self.report {
            Some(report) if report.topology.is_valid() => &*report.topology,
            _ if drops => return,
            _ => &empty,
        };
        self.ledger.update(pod, allocation, topology);
    }

    /// Removes a pod and releases its allocation.
    pub fn forget(&mut self, pod: &PodUid, requests: &Amounts) {
        for (name, amount) in requests.iter() {
            let rest = self.requested.get(name.as_str()).saturating_sub(amount);
            self.requested.set(name, rest);
        }
        self.ledger.release(pod);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::koordinator::cpu_topology::tests::machine;
    use pinfold_core::fidelity::Fidelity;

    #[test]
    fn an_allocation_is_recorded_without_a_topology_in_sound_mode_only() {
        for (fidelity, recorded) in [(Fidelity::Exact, false), (Fidelity::Sound, true)] {
            let mut node = KoordinatorNode {
                ledger: KoordinatorLedger::new(fidelity),
                ..KoordinatorNode::default()
            };
            let allocation = Allocation {
                cpus: CpuSet::parse("0-1").expect("a list"),
                ..Allocation::default()
            };
            node.assume("pod".into(), &Amounts::new(), Some(allocation));
            let held = !node.ledger.held().cpus().is_empty();
            assert_eq!(held, recorded, "{fidelity:?}");
        }
    }

    #[test]
    fn the_id_of_a_zone_follows_node_in_its_name() {
        let table = [
            ("node-3", Some(3)),
            ("rack-node-1", Some(1)),
            ("node-", None),
            ("node-1-node-2", None),
            ("3", None),
            ("node-64", None),
        ];
        for (name, id) in table {
            assert_eq!(zone_id(name).map(NodeId::get), id, "{name}");
        }
    }

    #[test]
    fn reserved_cpus_are_subtracted_from_their_numa_node() {
        let zone = |id, milli| NodeAmounts {
            node: NodeId::new(id).expect("small"),
            amounts: Amounts::from([("cpu", milli)]),
        };
        let reserved = CpuSet::parse("0-2").expect("a list");
        let zones = vec![zone(0, 4000), zone(1, 4000), zone(2, 0)];
        let report = KoordinatorReport::new(machine(2, 1, 2, 2), &reserved, CpuSet::new(), zones);
        let left: Vec<i64> = report
            .zones()
            .iter()
            .map(|zone| zone.amounts.get(CPU))
            .collect();
        assert_eq!(left, [1000, 4000, 0]);
    }
}
