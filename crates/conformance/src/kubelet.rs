//! The kubelet's vectors: one module per family, named after its file.

use pinfold_core::fidelity::{Fidelity, KubeletDefects, KubeletVersion};

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

/// Replays one case of the named family as a kubelet of this version decides. Families whose function takes no
/// [`Fidelity`] are rules without a defect: both modes run the same code.
#[must_use]
pub fn replay(
    version: KubeletVersion,
    family: &str,
    case: &Case,
    machines: &Machines,
) -> ReplayOutcome {
    replay_as(Fidelity::of_kubelet(version), family, case, machines)
}

/// Replays one case of the named family as Pinfold decides. If the answer differs from the kubelet's, finds
/// defects of the kubelet that lead to the kubelet's answer when they are repeated; without any the case fails.
#[must_use]
pub fn replay_soundly(family: &str, case: &Case, machines: &Machines) -> ReplayOutcome {
    match replay(KubeletVersion::DEFAULT, family, case, machines) {
        ReplayOutcome::Passed => match defects_that_matter(family, case, machines) {
            Ok(defects) if defects == KubeletDefects::default() => ReplayOutcome::Passed,
            Ok(defects) => ReplayOutcome::Different(defects),
            Err(difference) => ReplayOutcome::Failed(difference),
        },
        other => other,
    }
}

fn defects_that_matter(
    family: &str,
    case: &Case,
    machines: &Machines,
) -> Result<KubeletDefects, String> {
    let explains = |defects| match replay_as(Fidelity::Repeating(defects), family, case, machines) {
        ReplayOutcome::Passed => Ok(()),
        other => Err(format!("{other:?}")),
    };
    let mut needed = KubeletDefects::default();
    let has_defects = matches!(
        family,
        "admission"
            | "admission_podlevel"
            | "config_errors"
            | "cpu_hints"
            | "cpu_take"
            | "memory"
            | "pathological"
    );
    if !has_defects || explains(needed).is_ok() {
        return Ok(needed);
    }
    explains(KubeletDefects::first(KubeletDefects::COUNT))?;
    // Each round finds the last defect that the rest of an explanation needs: `needed` and the first `enough` defects
    // explain the difference, `needed` and the first `too_few` do not.
    let mut enough = KubeletDefects::COUNT;
    loop {
        let mut too_few = 0;
        while enough - too_few > 1 {
            let middle = usize::midpoint(too_few, enough);
            match explains(needed.union(KubeletDefects::first(middle))) {
                Ok(()) => enough = middle,
                Err(_) => too_few = middle,
            }
        }
        needed = needed.union(KubeletDefects::nth(enough - 1));
        if explains(needed).is_ok() {
            return Ok(needed);
        }
        enough -= 1;
    }
}

fn replay_as(fidelity: Fidelity, family: &str, case: &Case, machines: &Machines) -> ReplayOutcome {
    let outcome = match family {
        "topologies" => topologies::replay(case, machines, fidelity),
        "bitmask" => bitmask::replay(case, machines),
        "cpuset" => cpuset::replay(case, machines),
        "merge" => merge::replay(case, machines),
        "cpu_take" => cpu_take::replay(case, machines, fidelity),
        "cpu_hints" => cpu_hints::replay(case, machines, fidelity),
        "pod_cpu_requests" => pod_cpu_requests::replay(case, machines, fidelity),
        "pod_memory_requests" => pod_memory_requests::replay(case, machines),
        "memory" => memory::replay(case, machines, fidelity),
        "device_hints" => device_hints::replay(case, machines, fidelity),
        "admission" | "admission_podlevel" => admission::replay(case, machines, fidelity),
        "config_errors" => config_errors::replay(case, machines, fidelity),
        "checkpoints" | "checkpoints_podlevel" => checkpoints::replay(case, machines, fidelity),
        "checkpoint_restore" => checkpoint_restore::replay(case, machines, fidelity),
        "pathological" => pathological::replay(case, machines, fidelity),
        _ => Err(format!("unknown family {family:?}")),
    };
    outcome.unwrap_or_else(ReplayOutcome::Failed)
}
