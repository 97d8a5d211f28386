//! The machines that the suite plays, and how their kubelets are configured.

use pinfold_core::fidelity::Fidelity;
use pinfold_core::machine::Machine;
use pinfold_core::settings::Settings;

use super::played::PlayedNode;
use super::pods::NIC;

/// The policies of the topology manager.
const POLICIES: [&str; 4] = ["none", "best-effort", "restricted", "single-numa-node"];
const SCOPES: [&str; 2] = ["container", "pod"];

/// Two sockets; two sockets with sub-NUMA clusters; four sockets without hardware threads; eight NUMA nodes. Small, so
/// that pods soon have to wait.
const MACHINES: [&str; 4] = [
    "2 sockets, 8 cores, smt2, mem=32Gi",
    "2 sockets, 2 numa, 6 cores, smt2, mem=16Gi, distances=10,12,32",
    "4 sockets, 4 cores, mem=24Gi",
    "2 sockets, 4 numa, 2 l3, 2 cores, smt2, mem=12Gi, distances=10,12,32",
];

/// Machines that one can buy.
const PRESETS: [(&str, &str, &str); 3] = [
    ("dgx-h100", "single-numa-node", "pod"),
    ("epyc-9654-nps4", "restricted", "container"),
    ("xeon-8480-snc4", "best-effort", "pod"),
];

/// A machine by its name or in the notation for machines.
pub(crate) fn machine(text: &str) -> Result<Machine, String> {
    let hardware = pinfold_hardware::open(text).map_err(|error| format!("{text}: {error}"))?;
    let within = hardware.machine_within_reach();
    Ok(within.map_err(|error| format!("{text}: {error}"))?.0)
}

/// A kubelet that manages CPUs and memory under this policy and scope.
pub(crate) fn settings(machine: &Machine, policy: &str, scope: &str) -> Settings {
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        topology_scope: scope.parse().expect("a scope"),
        ..Settings::built_in(machine, Fidelity::Exact)
    }
}

/// A node of this machine.
pub(crate) fn node(
    name: &str,
    text: &str,
    policy: &str,
    scope: &str,
) -> Result<PlayedNode, String> {
    let machine = machine(text)?;
    let settings = settings(&machine, policy, scope);
    PlayedNode::new(name, machine, settings)
}

/// Every machine under every policy and scope; some have devices near their last NUMA nodes.
pub(crate) fn all() -> Result<Vec<PlayedNode>, String> {
    let mut nodes = Vec::new();
    for (kind, text) in MACHINES.iter().enumerate() {
        for policy in POLICIES {
            for scope in SCOPES {
                let name = format!("m{kind}-{policy}-{scope}");
                let node = node(&name, text, policy, scope)?;
                let numa = node.ledger().rules().machine().nodes().len();
                let last = i64::try_from(numa).unwrap_or(1) - 1;
                nodes.push(match kind {
                    0 | 2 => node.with_devices(NIC, &[last.min(1), last], 4),
                    _ => node,
                });
            }
        }
    }
    for (preset, policy, scope) in PRESETS {
        nodes.push(node(preset, preset, policy, scope)?);
    }
    Ok(nodes)
}
