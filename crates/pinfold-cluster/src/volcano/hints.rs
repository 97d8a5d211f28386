//! The topology hints of the CPU provider.
//!
//! Mirrors `GetTopologyHints` of `cpuMng`: every set of NUMA nodes with enough free CPUs is a hint, and the preferred
//! ones are as narrow as an empty machine would allow. The hints are returned as a [family](pinfold_core::hint::Family) instead of a list.

use crate::volcano::VolcanoDefects;
use smallvec::SmallVec;

use super::cpu_detail::CpuDetail;
use super::numa_amounts::{NumaAmount, hints_for};
use super::take::take;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::hint::ProviderHints;
use pinfold_core::machine::cpus::CpuGroup;
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeId;
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;

const CPU: &str = "cpu";

/// The number of requested CPUs; 0 if it is not a whole number. Mirrors `guaranteedCPUs`.
#[must_use]
pub fn whole_cpus(requests: &ResourceList) -> i64 {
    let Some(cpu) = requests.get(CPU) else {
        return 0;
    };
    match cpu.value().wrapping_mul(1000) == cpu.milli_value() {
        true => cpu.value(),
        false => 0,
    }
}

/// The reserved CPUs: as many as the reservation rounded up, chosen as for a pod on the empty machine. The kubelet may
/// choose others.
///
/// A reservation larger than the machine reserves all CPUs; Volcano then reserves none.
#[must_use]
pub fn reserved_cpus(
    detail: &CpuDetail,
    reservation: Option<&Quantity>,
    fidelity: Fidelity,
) -> CpuSet {
    let milli = reservation.map_or(0, Quantity::milli_value).max(0);
    let needed = usize::try_from(milli.unsigned_abs().div_ceil(1000)).unwrap_or(usize::MAX);
    match take(detail, detail.all(), needed, fidelity) {
        Ok(cpus) => cpus,
        Err(_) if fidelity.ignores_oversized_reservations() => CpuSet::new(),
        Err(_) => detail.all().clone(),
    }
}

/// The hints for `cpus` CPUs out of `available` (free and not reserved; `None` if the node reports no
/// CPU resource at all).
#[must_use]
pub fn cpu_hints(
    detail: &CpuDetail,
    available: Option<&CpuSet>,
    cpus: i64,
    fidelity: Fidelity,
) -> ProviderHints {
    let (Some(available), true) = (available, cpus != 0) else {
        return ProviderHints::none();
    };
    let need = u64::try_from(cpus).unwrap_or(0);
    let unlisted = match fidelity.counts_unlisted_cpus_on_node_zero() {
        true => (available - detail.all()).len() as u64,
        false => 0,
    };
    let amount = |node: &CpuGroup<NodeId>| {
        let own = node.cpus.common_len(available) as u64;
        let free = match node.id.index() {
            0 => own + unlisted,
            _ => own,
        };
        let total = node.cpus.len() as u64;
        (node.id, NumaAmount { total, free })
    };
    let nodes: SmallVec<[_; 8]> = detail.nodes().iter().map(amount).collect();
    let hints = hints_for(need, &nodes);
    ProviderHints::one(ResourceName::from(CPU), hints)
}
