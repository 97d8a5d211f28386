//! Replays the family `cpu_take`: single calls of the packed and the distributed algorithm.
//!
//! If the real code never returns or crashes, there is nothing to compare. In every case sound mode must return the
//! requested number of CPUs, all of them available.

use pinfold_core::cpu::{
    CpuSortingStrategy, DistributionOptions, PackingOptions, TakeError, take_distributed,
    take_packed,
};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::machine::cpus::CpuTopology;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Machines;
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    topology: String,
    algorithm: Algorithm,
    available: CpuSet,
    num_cpus: usize,
    sorting: CpuSortingStrategy,
    #[serde(default)]
    prefer_align_by_uncore: bool,
    #[serde(default)]
    align_by_socket: bool,
    #[serde(default)]
    cpu_group_size: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Algorithm {
    Packed,
    Distributed,
}

pub(super) fn replay(
    case: &Case,
    machines: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let topology = CpuTopology::of(machines.get(&input.topology)?);
    if fidelity.is_exact() {
        let sound = take(&input, &topology, Fidelity::Sound);
        check_promise(&(&input.available & topology.all()), input.num_cpus, &sound)?;
    }
    let taken = take(&input, &topology, fidelity);
    let (hangs, crashes) = (case.expect.get("hang"), case.expect.get("panic"));
    match (&taken, hangs.is_some(), crashes.is_some()) {
        (_, false, false) => {}
        (Err(TakeError::NeverReturns), true, _) => {
            return Ok(ReplayOutcome::SetAside("hang"));
        }
        (Err(TakeError::Crashes), _, true) => {
            return Ok(ReplayOutcome::SetAside("the real code crashes"));
        }
        (other, ..) => return Err(format!("the real code has no answer, found {other:?}")),
    }
    let (cpus, error) = match taken {
        Ok(cpus) => (json!(cpus), Value::Null),
        Err(error) => (Value::Null, json!(error.to_string())),
    };
    case.compare(&json!({ "cpus": cpus, "error": error }))
}

fn take(input: &Input, topology: &CpuTopology, fidelity: Fidelity) -> Result<CpuSet, TakeError> {
    let (available, count) = (&input.available, input.num_cpus);
    match input.algorithm {
        Algorithm::Packed => {
            let packing = PackingOptions {
                order: input.sorting,
                align_by_cache: input.prefer_align_by_uncore,
            };
            take_packed(topology, available, count, packing, fidelity)
        }
        Algorithm::Distributed => {
            let group = input.cpu_group_size;
            take_distributed(
                topology,
                available,
                count,
                DistributionOptions {
                    order: input.sorting,
                    within_sockets: input.align_by_socket && fidelity.distributes_within_sockets(),
                    ..DistributionOptions::groups_of(group)
                },
                fidelity,
            )
        }
    }
}

fn check_promise(
    there: &CpuSet,
    count: usize,
    sound: &Result<CpuSet, TakeError>,
) -> Result<(), String> {
    match sound {
        Ok(cpus) if cpus.len() != count => {
            Err(format!("sound fidelity took {} CPUs: {cpus}", cpus.len()))
        }
        Ok(cpus) if !cpus.is_subset(there) => Err(format!(
            "sound fidelity took CPUs that are not available: {cpus}"
        )),
        Err(error) if count <= there.len() => {
            Err(format!("sound fidelity rejected what is there: {error}"))
        }
        _ => Ok(()),
    }
}
