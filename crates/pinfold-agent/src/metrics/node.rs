//! Gauges of a node's CPUs, memory and devices, measured from its ledger.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::Ledger;
use pinfold_core::node_set::NodeId;
use pinfold_core::occupancy::Occupancy;

use super::Metrics;
use super::catalogue::{
    DEVICES, EXCLUSIVE_CPUS, EXCLUSIVE_CPUS_PER_NUMA, FRAGMENTATION, FREE_CPUS, MEMORY, PODS,
    SHARED_POOL,
};

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus stores all values as 64-bit floats"
)]
fn number(value: u64) -> f64 {
    value as f64
}

fn size(value: usize) -> f64 {
    number(u64::try_from(value).unwrap_or(u64::MAX))
}

/// Sets the gauges of assigned and free resources.
pub fn measure_ledger(metrics: &Metrics, ledger: &Ledger) {
    let occupancy = ledger.occupancy();
    metrics.set(&PODS, &[], size(ledger.admitted_pods().len()));
    measure_cpus(metrics, ledger, &occupancy);
    measure_memory(metrics, &occupancy);
    measure_devices(metrics, &occupancy);
}

fn measure_cpus(metrics: &Metrics, ledger: &Ledger, occupancy: &Occupancy) {
    let mut held = CpuSet::new();
    for holder in &occupancy.holders {
        held |= &holder.cpus;
    }
    let free = &occupancy.shared - &occupancy.reserved;
    metrics.set(&SHARED_POOL, &[], size(occupancy.shared.len()) * 1000.0);
    metrics.set(&EXCLUSIVE_CPUS, &[], size(held.len()));
    let mut rows = Vec::new();
    for (node, cpus) in cpus_by_node(ledger) {
        let name = node.to_string();
        let used = size((&cpus & &held).len());
        let left = size((&cpus & &free).len());
        metrics.set(&EXCLUSIVE_CPUS_PER_NUMA, &[&name], used);
        metrics.set(&FREE_CPUS, &[&name], left);
        rows.push((left, size((&cpus - &occupancy.reserved).len())));
    }
    metrics.set(&FRAGMENTATION, &["cpu"], fragmentation(&rows));
}

fn measure_memory(metrics: &Metrics, occupancy: &Occupancy) {
    let mut rows = Vec::new();
    for row in &occupancy.memory {
        let node = row.node.to_string();
        let resource = row.resource.as_str();
        let reserved = row.total.saturating_sub(row.allocatable);
        let held = row.allocatable.saturating_sub(row.free);
        for (state, bytes) in [
            ("reserved", reserved),
            ("allocated", held),
            ("free", row.free),
        ] {
            metrics.set(&MEMORY, &[&node, resource, state], number(bytes));
        }
        if resource == "memory" {
            rows.push((number(row.free), number(row.allocatable)));
        }
    }
    if !rows.is_empty() {
        metrics.set(&FRAGMENTATION, &["memory"], fragmentation(&rows));
    }
}

fn measure_devices(metrics: &Metrics, occupancy: &Occupancy) {
    // Resources whose plugin has disconnected must disappear.
    metrics.clear(&DEVICES);
    for seat in &occupancy.devices {
        let resource = seat.resource.as_str();
        for state in ["allocated", "free", "unhealthy"] {
            metrics.add(&DEVICES, &[resource, state], 0);
        }
        let state = match (seat.holder, seat.healthy) {
            (Some(_), _) => "allocated",
            (None, true) => "free",
            (None, false) => "unhealthy",
        };
        metrics.add(&DEVICES, &[resource, state], 1);
    }
}

fn cpus_by_node(ledger: &Ledger) -> Vec<(NodeId, CpuSet)> {
    let nodes = ledger.rules().machine().nodes().iter();
    let nodes = nodes.map(|node| {
        let threads = node.cores.iter().flat_map(|core| &core.threads);
        (node.id, threads.copied().collect::<CpuSet>())
    });
    nodes.filter(|(_, cpus)| !cpus.is_empty()).collect()
}

/// The fragmentation ratio: 1 minus the largest request that one NUMA node can serve now, divided by the largest that one
/// node could serve if the same total were free on it. Each row has a node's free amount and its allocatable amount.
fn fragmentation(rows: &[(f64, f64)]) -> f64 {
    let total: f64 = rows.iter().map(|(free, _)| free).sum();
    let largest = rows.iter().map(|(free, _)| *free).fold(0.0, f64::max);
    let allocatable = rows.iter().map(|(_, all)| *all).fold(0.0, f64::max);
    let possible = total.min(allocatable);
    match possible > 0.0 {
        true => (1.0 - largest / possible).max(0.0),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_zero_if_one_node_can_serve_the_largest_possible_request() {
        for (rows, expected) in [
            (&[][..], 0.0),
            (&[(0.0, 8.0), (0.0, 8.0)], 0.0),
            (&[(8.0, 8.0), (8.0, 8.0)], 0.0),
            (&[(8.0, 8.0), (0.0, 8.0)], 0.0),
            (&[(4.0, 8.0), (4.0, 8.0)], 0.5),
            (&[(1.0, 4.0), (1.0, 4.0), (1.0, 4.0), (1.0, 4.0)], 0.75),
        ] {
            let found = fragmentation(rows);
            assert!((found - expected).abs() < 1e-9, "{rows:?}: {found}");
        }
    }
}
