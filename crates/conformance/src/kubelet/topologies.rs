//! Replays the family `topologies`: what the CPU manager derives from a machine.

use pinfold_core::machine::cpus::CpuTopology;
use serde_json::{Value, json};

use super::Machines;
use crate::case::{Case, ReplayOutcome};

pub(super) fn replay(case: &Case, machines: &Machines) -> Result<ReplayOutcome, String> {
    let topology = CpuTopology::of(machines.get(&case.id)?);
    let rows = topology.all().iter().filter_map(|cpu| {
        let place = topology.cpu_info(cpu)?;
        Some(json!([cpu, place.core, place.socket, place.node, place.l3]))
    });
    let found = json!({
        "cpus": rows.collect::<Vec<Value>>(),
        "num_cpus": topology.num_cpus(),
        "num_cores": topology.num_cores(),
        "num_sockets": topology.num_sockets(),
        "num_numa_nodes": topology.num_nodes(),
        "num_uncore_caches": topology.num_caches(),
        "cpus_per_core": topology.cpus_per_core(),
        "cpus_per_socket": topology.cpus_per_socket(),
        "cpus_per_uncore": topology.cpus_per_cache(),
    });
    case.compare(&found)
}
