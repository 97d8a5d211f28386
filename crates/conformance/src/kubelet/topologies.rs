//! Replays the family `topologies`: what the CPU manager derives from a machine.

use pinfold_core::fidelity::Fidelity;
use pinfold_core::machine::cpus::CpuTopology;
use serde_json::{Value, json};

use super::Machines;
use crate::case::{Case, ReplayOutcome};

pub(super) fn replay(
    case: &Case,
    machines: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    let topology = CpuTopology::of(machines.get(&case.id)?);
    let caches = fidelity.sees_caches();
    let rows = topology.all().iter().filter_map(|cpu| {
        let place = topology.cpu_info(cpu)?;
        Some(match caches {
            true => json!([cpu, place.core, place.socket, place.node, place.l3]),
            false => json!([cpu, place.core, place.socket, place.node]),
        })
    });
    let mut found = json!({
        "cpus": rows.collect::<Vec<Value>>(),
        "num_cpus": topology.num_cpus(),
        "num_cores": topology.num_cores(),
        "num_sockets": topology.num_sockets(),
        "num_numa_nodes": topology.num_nodes(),
        "cpus_per_core": topology.cpus_per_core(),
        "cpus_per_socket": topology.cpus_per_socket(),
    });
    if caches {
        found["num_uncore_caches"] = json!(topology.num_caches());
        found["cpus_per_uncore"] = json!(topology.cpus_per_cache());
    }
    case.compare(&found)
}
