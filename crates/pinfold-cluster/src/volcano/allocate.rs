//! Chooses CPUs for one container once its NUMA nodes are known.
//!
//! Mirrors `Allocate` of `cpuMng`: first CPUs of the hint's NUMA nodes, then, if those are too few, CPUs of the others.
//! If there are not enough, Volcano returns an empty set and places the task without CPUs; sound mode rejects it.

use super::cpu_detail::CpuDetail;
use super::take::{NotEnoughCpus, take};
use crate::volcano::VolcanoDefects;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::NodeSet;

/// Chooses `cpus` CPUs out of `available`, first on the NUMA nodes of `mask`.
///
/// # Errors
/// If there are not enough (sound mode only).
pub fn allocate(
    detail: &CpuDetail,
    available: &CpuSet,
    mask: Option<NodeSet>,
    cpus: usize,
    fidelity: Fidelity,
) -> Result<CpuSet, NotEnoughCpus> {
    match aligned_then_rest(detail, available, mask, cpus, fidelity) {
        Ok(chosen) => Ok(chosen),
        Err(_) if fidelity.accepts_empty_decisions() => Ok(CpuSet::new()),
        Err(_) => Err(NotEnoughCpus {
            needed: cpus,
            available: available.common_len(detail.all()),
        }),
    }
}

fn aligned_then_rest(
    detail: &CpuDetail,
    available: &CpuSet,
    mask: Option<NodeSet>,
    cpus: usize,
    fidelity: Fidelity,
) -> Result<CpuSet, NotEnoughCpus> {
    let mut chosen = CpuSet::new();
    if let Some(mask) = mask {
        let aligned = &detail.cpus_of(mask) & available;
        chosen = take(detail, &aligned, cpus.min(aligned.len()), fidelity)?;
    }
    let missing = cpus.saturating_sub(chosen.len());
    chosen |= &take(detail, &(available - &chosen), missing, fidelity)?;
    Ok(chosen)
}
