//! CPUs and hints in the format of the vectors.

use pinfold_cluster::volcano::cpu_detail::{CpuDetail, CpuRow};
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::hint::Hint;
use pinfold_core::node_set::{NodeId, NodeSet};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, json};

/// Rows of `[cpu, core, numaNode, socket]`.
pub(super) struct DetailJson(pub(super) CpuDetail);

impl<'de> Deserialize<'de> for DetailJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rows = Vec::<(u32, u32, i64, u32)>::deserialize(deserializer)?;
        let row = |(cpu, core, node, socket)| {
            Ok(CpuRow {
                cpu: CpuId::new(cpu).ok_or_else(|| de::Error::custom("CPU id out of range"))?,
                core,
                node: NodeId::new(node).map_err(de::Error::custom)?,
                socket,
            })
        };
        let rows: Result<Vec<CpuRow>, D::Error> = rows.into_iter().map(row).collect();
        Ok(Self(CpuDetail::new(rows?)))
    }
}

/// CPUs as a list of ids.
#[derive(Clone)]
pub(super) struct CpusJson(pub(super) CpuSet);

impl<'de> Deserialize<'de> for CpusJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ids = Vec::<u32>::deserialize(deserializer)?;
        let cpus: Option<CpuSet> = ids.into_iter().map(CpuId::new).collect();
        cpus.map(Self)
            .ok_or_else(|| de::Error::custom("CPU id out of range"))
    }
}

/// The `cpu` entry of a map from resource to CPUs, if there is one.
#[derive(Clone, Deserialize)]
pub(super) struct CpuEntry {
    pub(super) cpu: Option<CpusJson>,
}

/// A hint; an absent affinity means any node.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct HintJson {
    affinity: Option<NodeSet>,
    preferred: bool,
}

impl From<HintJson> for Hint {
    fn from(json: HintJson) -> Self {
        Hint {
            mask: json.affinity,
            preferred: json.preferred,
        }
    }
}

pub(super) fn hint_json(hint: &Hint) -> Value {
    json!({"affinity": hint.mask, "preferred": hint.preferred})
}

pub(super) fn cpus_json(cpus: &CpuSet) -> Value {
    cpus.iter().map(CpuId::get).collect()
}
