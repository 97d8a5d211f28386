//! Builds the core's [`KoordinatorReport`] from a node's report. Mirrors `NewTopologyOptions`.

use pinfold_cluster::koordinator::KoordinatorDefects;
use pinfold_cluster::koordinator::amounts::{Amounts, CPU, NodeAmounts};
use pinfold_cluster::koordinator::cpu_topology::KoordinatorTopology;
use pinfold_cluster::koordinator::node::{KoordinatorReport, KubeletCpus, zone_id};
use pinfold_cluster::koordinator::pools::CpuHolders;
use pinfold_cluster::koordinator::qos::KubeletPinning;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::NodeId;

use super::annotations::{ReportAnnotations, keys};
use super::zone_cpus;
use crate::diagnostic::{self, Diagnostic, DiagnosticKind, Diagnostics, WithWarnings};
use crate::meta::TextKind;
use crate::node_resource_topology::{KIND, NodeResourceTopology};

impl ReportAnnotations {
    /// The CPU topology.
    #[must_use]
    pub fn topology(&self, fidelity: Fidelity) -> KoordinatorTopology {
        KoordinatorTopology::from_report(self.cpus.iter().copied(), fidelity)
    }

    /// The holders of CPUs in the report, without the pods that Koordinator's scheduler placed.
    #[must_use]
    pub fn holders(&self) -> CpuHolders {
        let pinned = self.pod_cpus.iter().filter(|pod| pod.managed_by_kubelet);
        let mut kubelet_pinned = CpuSet::new();
        for pod in pinned {
            kubelet_pinned |= &pod.cpus;
        }
        let system = self.system.as_ref().filter(|system| system.exclusive);
        CpuHolders {
            kubelet_pinned,
            node_reserved: self.reservation.cpus.clone(),
            system_exclusive: system.map_or_else(CpuSet::new, |system| system.cpus.clone()),
            kubelet_reserved: self.cpu_manager.reserved.clone(),
            ..CpuHolders::default()
        }
    }

    /// The policy and reserved CPUs of the kubelet's CPU manager.
    #[must_use]
    pub fn kubelet(&self) -> KubeletCpus {
        let is_set =
            |option: &str| self.cpu_manager.options.get(option).map(String::as_str) == Some("true");
        KubeletCpus {
            pinning: match self.cpu_manager.policy.as_str() {
                "static" => KubeletPinning::Static,
                _ => KubeletPinning::None,
            },
            full_pcpus_only: is_set("full-pcpus-only"),
            distribute_across_numa: is_set("distribute-cpus-across-numa"),
        }
    }

    /// The report as Koordinator's scheduler reads it: these annotations, and the zones and policies of the object.
    /// Contradictions are warnings.
    ///
    /// # Errors
    /// With every annotation that cannot be parsed (sound mode).
    pub fn report(
        topology: &NodeResourceTopology,
        fidelity: Fidelity,
    ) -> Result<WithWarnings<KoordinatorReport>, Diagnostics> {
        let WithWarnings {
            value: facts,
            mut warnings,
        } = ReportAnnotations::read(topology, fidelity)?;
        let cpus = facts.topology(fidelity);
        let holders = facts.holders();
        let mut set_aside = holders.kubelet_pinned;
        set_aside |= &holders.node_reserved;
        set_aside |= &holders.system_exclusive;
        warnings.extend(contradictions(topology, &facts, &cpus, &set_aside));
        warnings.truncate(diagnostic::MAX_DIAGNOSTICS);
        let mut zones = zones(topology);
        let reserved = &holders.kubelet_reserved | &set_aside;
        if !fidelity.subtracts_reserved_cpus_twice() {
            zone_cpus::add_reserved(topology, &mut zones, &cpus, &reserved);
        }
        let mut report = KoordinatorReport::new(cpus, &holders.kubelet_reserved, set_aside, zones);
        report
            .topology_policies
            .clone_from(&topology.topology_policies);
        report.kubelet = facts.kubelet();
        report.ratios = facts.ratios;
        Ok(WithWarnings {
            value: report,
            warnings,
        })
    }
}

/// The `allocatable` of each NUMA zone, the only amount that Koordinator reads. The last zone of an id counts.
fn zones(topology: &NodeResourceTopology) -> Vec<NodeAmounts> {
    let mut zones: Vec<NodeAmounts> = Vec::new();
    for zone in topology.zones.iter().filter(|zone| zone.kind == "Node") {
        let Some(node) = zone_id(&zone.name) else {
            continue;
        };
        let list = zone.resources.iter();
        let list = list.map(|resource| {
            (
                resource.name.as_str().into(),
                resource.allocatable.quantity(),
            )
        });
        let amounts = Amounts::of(&list.collect());
        zones.retain(|zone| zone.node != node);
        zones.push(NodeAmounts { node, amounts });
    }
    zones
}

/// Warnings about values that contradict each other.
fn contradictions(
    topology: &NodeResourceTopology,
    facts: &ReportAnnotations,
    cpus: &KoordinatorTopology,
    set_aside: &CpuSet,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut warn = |key: &str, message: String, hint: &str| {
        let (at, path) = topology.meta.position_of(TextKind::Annotation, key);
        found.push(Diagnostic {
            file: topology.meta.origin.file.clone(),
            at,
            object: Some(format!("{KIND}/{}", topology.meta.name)),
            path,
            within: None,
            problem: DiagnosticKind::Contradiction(message),
            hint: Some(hint.to_owned()),
        });
    };
    if facts.cpus.is_empty() {
        return found;
    }
    let mut off = Vec::new();
    for zone in topology.zones.iter().filter(|zone| zone.kind == "Node") {
        let Some(node) = zone_id(&zone.name) else {
            continue;
        };
        let listed = cpus.cpus_of_node(node).map_or(0, CpuSet::len);
        let cpu = zone.resources.iter().find(|resource| resource.name == CPU);
        let counted = cpu.map_or(0, |cpu| cpu.capacity.quantity().value());
        if i64::try_from(listed).ok() != Some(counted) && counted > 0 {
            off.push(format!("{counted} in {}, {listed} listed", zone.name));
        }
    }
    if !off.is_empty() {
        let message = format!(
            "the CPUs listed are not those that the zones count: {}",
            off.join("; ")
        );
        let hint = "CPUs that are not listed are never assigned";
        warn(keys::CPU_TOPOLOGY, message, hint);
    }
    let unknown = set_aside - cpus.all();
    if !unknown.is_empty() {
        let message = format!("CPUs {unknown} belong to pods or reservations and are not listed");
        warn(keys::CPU_TOPOLOGY, message, "list every CPU of the node");
    }
    let zones: Vec<Option<NodeId>> = topology.zones.iter().map(|z| zone_id(&z.name)).collect();
    let without_zone: CpuSet = facts
        .cpus
        .iter()
        .filter(|row| {
            let node = NodeId::new(row.node).ok();
            node.is_none() || !zones.contains(&node)
        })
        .map(|row| row.cpu)
        .collect();
    if !without_zone.is_empty() {
        let message = format!("CPUs {without_zone} are on NUMA nodes that no zone is named after");
        warn(keys::CPU_TOPOLOGY, message, "add a zone node-<id> for them");
    }
    found
}
