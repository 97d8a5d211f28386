//! The kubelet's vectors: one module per family, named after its file.

use crate::case::{Case, ReplayOutcome};

mod admission;
mod bitmask;
mod checkpoint_restore;
mod checkpoints;
mod config_errors;
mod cpu_hints;
mod cpu_take;
mod cpuset;
mod device_hints;
mod devices;
mod hints;
mod machines;
mod memory;
mod merge;
mod pathological;
mod pod_cpu_requests;
mod pod_memory_requests;
mod pods;
mod scenario;
mod topologies;

pub use machines::Machines;

/// Replays one case of the named family.
#[must_use]
pub fn replay(family: &str, case: &Case, machines: &Machines) -> ReplayOutcome {
    match family {
        "topologies" => topologies::replay(case, machines),
        "bitmask" => bitmask::replay(case, machines),
        "cpuset" => cpuset::replay(case, machines),
        "merge" => merge::replay(case, machines),
        "cpu_take" => cpu_take::replay(case, machines),
        "cpu_hints" => cpu_hints::replay(case, machines),
        "pod_cpu_requests" => pod_cpu_requests::replay(case, machines),
        "pod_memory_requests" => pod_memory_requests::replay(case, machines),
        "memory" => memory::replay(case, machines),
        "device_hints" => device_hints::replay(case, machines),
        "admission" | "admission_podlevel" => admission::replay(case, machines),
        "config_errors" => config_errors::replay(case, machines),
        "checkpoints" | "checkpoints_podlevel" => checkpoints::replay(case, machines),
        "checkpoint_restore" => checkpoint_restore::replay(case, machines),
        "pathological" => pathological::replay(case, machines),
        _ => ReplayOutcome::Failed(format!("unknown family {family:?}")),
    }
}
