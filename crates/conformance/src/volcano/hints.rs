//! Replays the family `hints`.

use pinfold_cluster::volcano::cpu_detail::CpuDetail;
use pinfold_cluster::volcano::hints::{cpu_hints, reserved_cpus, whole_cpus};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::hint::ResourceHints;
use pinfold_core::pod::ResourceList;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::read::{CpuEntry, DetailJson, hint_json};
use crate::case::{Case, ReplayOutcome};

/// A node and a container in the format of this family and of `allocate`.
#[derive(Deserialize)]
pub(super) struct Input {
    cpus: DetailJson,
    available: CpuEntry,
    reserved: ResourceList,
    requests: ResourceList,
}

impl Input {
    pub(super) fn detail(&self) -> &CpuDetail {
        &self.cpus.0
    }

    /// Free CPUs without the reserved ones, if the node has a CPU entry.
    pub(super) fn available(&self) -> Option<CpuSet> {
        let reserved = reserved_cpus(self.detail(), self.reserved.get("cpu"), Fidelity::Exact);
        let free = self.available.cpu.as_ref()?;
        Some(&free.0 - &reserved)
    }

    pub(super) fn whole_cpus(&self) -> i64 {
        whole_cpus(&self.requests)
    }
}

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let available = input.available();
    let hints = cpu_hints(
        input.detail(),
        available.as_ref(),
        input.whole_cpus(),
        Fidelity::Exact,
    );
    let mut by_resource = Map::new();
    for (resource, hints) in &hints.rows {
        let list: Value = match hints {
            ResourceHints::DontCare => Value::Null,
            ResourceHints::Unsatisfiable => json!([]),
            ResourceHints::Family(family) => family.list().iter().map(hint_json).collect(),
            ResourceHints::List(list) => list.iter().map(hint_json).collect(),
        };
        by_resource.insert(resource.to_string(), list);
    }
    let found = match by_resource.is_empty() {
        true => json!({"hints": null}),
        false => json!({"hints": by_resource}),
    };
    case.compare(&found)
}
