//! The amount of CPU in a zone, which readers of a NodeResourceTopology understand differently.
//!
//! | amount | reader | meaning |
//! |---|---|---|
//! | `capacity` | Pinfold | the CPUs of the zone |
//! | `allocatable` | koord-scheduler | all CPUs: it subtracts the reserved ones of the annotations itself |
//! | `allocatable` | the definition of the API | without the reserved CPUs |
//! | `available` | scheduler-plugins | without the reserved CPUs and those that pods hold |
//!
//! Objects with Koordinator's annotations have koordlet's meaning of `allocatable`, others that of the definition.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::amounts::{CPU, NodeAmounts};
use pinfold_cluster::koordinator::cpu_topology::KoordinatorTopology;
use pinfold_cluster::koordinator::node::zone_id;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::quantity::Quantity;

use super::annotations::ReportAnnotations;
use crate::node_resource_topology::{NodeResourceTopology, NrtResource, NrtZone};

const MILLI: i64 = 1000;

/// Sets `allocatable` to all CPUs of the zone, as koordlet does.
pub(super) fn publish_for_koordinator(zone: &mut NrtZone) {
    for cpu in zone.resources.iter_mut().filter(|row| row.name == CPU) {
        cpu.allocatable = cpu.capacity.clone();
    }
}

/// The CPUs of each zone that pods may use, by the zone's name: without the reserved CPUs, whichever meaning
/// `allocatable` has.
#[must_use]
pub fn usable_cpus(topology: &NodeResourceTopology) -> BTreeMap<&str, Quantity> {
    let facts = ReportAnnotations::read(topology, Fidelity::Exact);
    let facts = facts.map(|read| read.value).unwrap_or_default();
    let cpus = facts.topology(Fidelity::Sound);
    let zones = topology.zones.iter().filter(|zone| zone.kind == "Node");
    let usable = zones.filter_map(|zone| {
        let row = cpu_row(zone)?;
        let lost = lost(zone, &cpus, &facts.cpu_manager.reserved);
        let rest = row.capacity.quantity() - Quantity::milli(lost);
        Some((zone.name.as_str(), row.allocatable.quantity().min(rest)))
    });
    usable.collect()
}

/// Adds the reserved CPUs to amounts of zones whose `allocatable` excludes them, so that they can be subtracted once.
pub(super) fn add_reserved(
    topology: &NodeResourceTopology,
    zones: &mut [NodeAmounts],
    cpus: &KoordinatorTopology,
    reserved: &CpuSet,
) {
    for zone in topology.zones.iter().filter(|zone| zone.kind == "Node") {
        let amounts = zones
            .iter_mut()
            .find(|own| Some(own.node) == zone_id(&zone.name));
        let (Some(NodeAmounts { amounts, .. }), Some(row)) = (amounts, cpu_row(zone)) else {
            continue;
        };
        let capacity = row.capacity.quantity().milli_value();
        let allocatable = row.allocatable.quantity().milli_value();
        if allocatable < capacity {
            let whole = allocatable.saturating_add(lost(zone, cpus, reserved));
            amounts.set_cpu(whole.min(capacity));
        }
    }
}

fn cpu_row(zone: &NrtZone) -> Option<&NrtResource> {
    zone.resources.iter().find(|row| row.name == CPU)
}

/// The reserved CPUs of a zone in thousandths.
fn lost(zone: &NrtZone, cpus: &KoordinatorTopology, reserved: &CpuSet) -> i64 {
    let own = zone_id(&zone.name).and_then(|node| cpus.cpus_of_node(node));
    let lost = own.map_or(0, |own| own.common_len(reserved));
    i64::try_from(lost).unwrap_or(0).saturating_mul(MILLI)
}
