//! Replays the family `config_errors`: settings that a kubelet does or does not start with.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuId;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Rules;
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::node_set::NodeId;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::Settings;
use serde::Deserialize;
use serde_json::json;

use super::Machines;
use super::scenario::Scenario;
use crate::case::{Case, ReplayOutcome, check};

pub(super) fn replay(
    case: &Case,
    machines: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    if case.tag == "numa-limit" {
        return limit(case, fidelity);
    }
    let scenario = Scenario::read(&case.input)?;
    let rules = scenario.rules(machines.get(&scenario.topology)?, fidelity)?;
    let found = rules.err().map(|error| error.to_string());
    Ok(check(&case.expect["init_error"], &json!(found)))
}

/// The input of a case that only has a number of NUMA nodes.
#[derive(Deserialize)]
struct Limit {
    numa_node_count: u32,
    topology_policy: TopologyPolicy,
    topology_options: BTreeMap<String, String>,
}

fn limit(case: &Case, fidelity: Fidelity) -> Result<ReplayOutcome, String> {
    let input: Limit = case.read()?;
    let node = |id: u32| {
        let cpu = CpuId::new(id).ok_or("too many NUMA nodes")?;
        Ok::<NumaNode, String>(NumaNode {
            id: NodeId::new(id.into()).map_err(|error| error.to_string())?,
            memory: 1 << 30,
            hugepages: Vec::new(),
            distances: Vec::new(),
            cores: vec![Core {
                id,
                socket: 0,
                die: None,
                l3: None,
                threads: vec![cpu],
            }],
        })
    };
    let nodes = (0..input.numa_node_count)
        .map(node)
        .collect::<Result<Vec<_>, _>>()?;
    let parts = MachineParts {
        num_cpus: nodes.len(),
        num_sockets: 1,
        nodes,
        ..MachineParts::default()
    };
    let machine = Machine::new(parts).map_err(|error| error.to_string())?;
    let settings = Settings {
        fidelity,
        topology_policy: input.topology_policy,
        topology_options: input.topology_options,
        ..Settings::default()
    };
    let found = Rules::new(Arc::new(machine), settings)
        .err()
        .map(|error| error.to_string());
    Ok(check(&case.expect["init_error"], &json!(found)))
}
