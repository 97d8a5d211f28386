//! The total memory of a pod with pod-level resources.

use crate::demand::{self, MemoryDemand, NotWholeBytes, PodLevel};
use crate::fidelity::Fidelity;
use crate::pod::Pod;

/// The pod-level amounts, or what its containers need if that is more.
pub(super) fn pod_total(
    pod: &Pod,
    named: &MemoryDemand,
    pod_level: PodLevel,
    fidelity: Fidelity,
) -> Result<MemoryDemand, NotWholeBytes> {
    let mut total = named.clone();
    if !fidelity.allocates_only_pod_level_types() {
        for (resource, peak) in peak(pod, pod_level)? {
            if peak > 0 {
                let amount = total.entry(resource).or_default();
                *amount = peak.max(*amount);
            }
        }
    }
    Ok(total)
}

/// The largest amount that containers with memory of their own hold at the same time.
fn peak(pod: &Pod, pod_level: PodLevel) -> Result<MemoryDemand, NotWholeBytes> {
    let mut running = MemoryDemand::new();
    let mut peak = MemoryDemand::new();
    for container in pod.all_containers() {
        let ends = pod.is_finishing_init(&container.name);
        for (resource, bytes) in demand::container_memory(pod, container, pod_level)? {
            let beside = running.entry(resource.clone()).or_default();
            let together = beside.saturating_add(bytes);
            if !ends {
                *beside = together;
            }
            let most = peak.entry(resource).or_default();
            *most = together.max(*most);
        }
    }
    Ok(peak)
}
