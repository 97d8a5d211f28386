//! Replays the family `cpu_take`.

use pinfold_cluster::koordinator::held_cpus::{HeldCpu, HeldCpus, HeldPlace};
use pinfold_cluster::koordinator::policy_values::CpuBinding;
use pinfold_cluster::koordinator::take::TakeRequest;
use pinfold_core::fidelity::Fidelity;
use serde::Deserialize;
use serde_json::{Value, json};

use super::node_state::{TopologyInput, cpu_id, cpu_set, exclusive, strategy};
use crate::case::Case;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    topology: TopologyInput,
    max_ref_count: u32,
    available: Vec<i64>,
    preferred: Vec<i64>,
    allocated: Vec<Allocated>,
    needed: i64,
    bind_policy: String,
    exclusive_policy: String,
    numa_strategy: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Allocated {
    cpu: i64,
    core: i64,
    node: i64,
    ref_count: u32,
    exclusive: String,
}

pub(super) fn answer(case: &Case) -> Result<Value, String> {
    let input: Input = case.read()?;
    let mut held = HeldCpus::new();
    for row in &input.allocated {
        let place = HeldPlace {
            core: row.core,
            node: row.node,
        };
        let cpu = HeldCpu {
            place: Some(place),
            refs: row.ref_count,
            exclusive: exclusive(&row.exclusive),
        };
        held.insert(cpu_id(row.cpu)?, cpu);
    }
    let take = TakeRequest {
        topology: &input.topology.build()?,
        max_refs: input.max_ref_count,
        available: &cpu_set(&input.available)?,
        preferred: &cpu_set(&input.preferred)?,
        held: &held,
        needed: usize::try_from(input.needed).unwrap_or(0),
        binding: match input.bind_policy.as_str() {
            "FullPCPUs" => CpuBinding::FullPcpus,
            _ => CpuBinding::SpreadByPcpus,
        },
        exclusive: exclusive(&input.exclusive_policy),
        strategy: strategy(&input.numa_strategy),
        fidelity: Fidelity::Exact,
    };
    Ok(match take.run() {
        Ok(cpus) => json!({ "cpus": cpus.iter().collect::<Vec<_>>() }),
        Err(error) => json!({ "error": error.to_string() }),
    })
}
