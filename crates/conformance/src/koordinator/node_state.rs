//! Types that several families share: topologies, resource lists, hints, pods on a node.

use pinfold_cluster::koordinator::allocate::{AllocationNode, AllocationRequest};
use pinfold_cluster::koordinator::amounts::{Amounts, NodeAmounts};
use pinfold_cluster::koordinator::cpu_topology::{CpuTotals, KoordinatorTopology, ReportedCpu};
use pinfold_cluster::koordinator::ledger::{Allocation, KoordinatorLedger};
use pinfold_cluster::koordinator::merge::ScoredHint;
use pinfold_cluster::koordinator::policy_values::{
    AllocateStrategy, BindPolicy, ExclusiveLevel, ExclusivePolicy, NumaStrategy,
};
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::PodUid;
use pinfold_core::node_set::NodeSet;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TopologyInput {
    #[serde(rename = "numCPUs")]
    num_cpus: usize,
    num_cores: usize,
    num_nodes: usize,
    num_sockets: usize,
    cpus: Vec<[i64; 4]>,
}

impl TopologyInput {
    pub(super) fn build(&self) -> Result<KoordinatorTopology, String> {
        let rows: Result<Vec<ReportedCpu>, String> = self
            .cpus
            .iter()
            .map(|&[cpu, core, node, socket]| {
                Ok(ReportedCpu {
                    cpu: cpu_id(cpu)?,
                    core,
                    node,
                    socket,
                })
            })
            .collect();
        let totals = CpuTotals {
            cpus: self.num_cpus,
            cores: self.num_cores,
            nodes: self.num_nodes,
            sockets: self.num_sockets,
        };
        Ok(KoordinatorTopology::new(rows?, totals))
    }
}

pub(super) fn cpu_id(id: i64) -> Result<CpuId, String> {
    u32::try_from(id)
        .ok()
        .and_then(CpuId::new)
        .ok_or_else(|| format!("CPU {id} is out of range"))
}

pub(super) fn cpu_set(ids: &[i64]) -> Result<CpuSet, String> {
    ids.iter().map(|&id| cpu_id(id)).collect()
}

pub(super) fn exclusive(word: &str) -> ExclusiveLevel {
    ExclusivePolicy::level(ExclusivePolicy::parse(word).as_ref())
}

pub(super) fn strategy(word: &str) -> NumaStrategy {
    AllocateStrategy::parse(word)
        .map_or(NumaStrategy::LeastAllocated, |word| NumaStrategy::of(&word))
}

#[derive(Deserialize)]
pub(super) struct HintInput {
    affinity: Option<NodeSet>,
    preferred: bool,
    unsatisfied: bool,
    score: i64,
}

impl From<&HintInput> for ScoredHint {
    fn from(hint: &HintInput) -> Self {
        ScoredHint {
            mask: hint.affinity,
            preferred: hint.preferred,
            unsatisfied: hint.unsatisfied,
            score: hint.score,
        }
    }
}

pub(super) fn hint_value(hint: &ScoredHint) -> Value {
    json!({
        "affinity": hint.mask,
        "preferred": hint.preferred,
        "unsatisfied": hint.unsatisfied,
        "score": hint.score,
    })
}

/// NUMA resources without the zero amounts, as the vectors list them.
pub(super) fn numa_value(parts: &[NodeAmounts]) -> Value {
    parts
        .iter()
        .map(|part| {
            let rows = part.amounts.iter().filter(|(_, amount)| *amount != 0);
            let resources: Map<String, Value> = rows
                .map(|(name, amount)| (name.to_string(), amount.into()))
                .collect();
            json!({ "node": part.node, "resources": resources })
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeInput {
    topology: TopologyInput,
    #[serde(rename = "reservedCPUs")]
    reserved_cpus: Vec<i64>,
    max_ref_count: u32,
    numa_node_resources: Vec<NodeAmounts>,
    amplification_ratios: std::collections::BTreeMap<String, f64>,
    numa_strategy: String,
    pods: Vec<PodInput>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodInput {
    uid: String,
    cpuset: Vec<i64>,
    exclusive_policy: String,
    #[serde(default)]
    numa_node_resources: Option<Vec<NodeAmounts>>,
}

/// A node with the state of a case.
pub(super) struct NodeState {
    topology: KoordinatorTopology,
    reserved: CpuSet,
    max_refs: u32,
    zones: Vec<NodeAmounts>,
    cpu_ratio: f64,
    strategy: NumaStrategy,
    ledger: KoordinatorLedger,
}

impl NodeInput {
    pub(super) fn build(&self) -> Result<NodeState, String> {
        let topology = self.topology.build()?;
        let mut ledger = KoordinatorLedger::new(Fidelity::Exact);
        for pod in &self.pods {
            let allocation = Allocation {
                cpus: cpu_set(&pod.cpuset)?,
                exclusive: exclusive(&pod.exclusive_policy),
                numa: pod.numa_node_resources.clone().unwrap_or_default(),
            };
            ledger.update(PodUid::from(pod.uid.as_str()), allocation, &topology);
        }
        Ok(NodeState {
            topology,
            reserved: cpu_set(&self.reserved_cpus)?,
            max_refs: self.max_ref_count,
            zones: self.numa_node_resources.clone(),
            cpu_ratio: self.amplification_ratios.get("cpu").copied().unwrap_or(0.0),
            strategy: strategy(&self.numa_strategy),
            ledger,
        })
    }
}

impl NodeState {
    pub(super) fn view(&self) -> AllocationNode<'_> {
        AllocationNode {
            topology: Some(&self.topology),
            reserved: &self.reserved,
            max_refs: self.max_refs,
            zones: &self.zones,
            cpu_ratio: self.cpu_ratio,
            strategy: self.strategy,
            ledger: &self.ledger,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OptionsInput {
    #[serde(rename = "numCPUsNeeded")]
    num_cpus_needed: i64,
    #[serde(rename = "requestCPUBind")]
    request_cpu_bind: bool,
    requests: Option<Amounts>,
    original_requests: Option<Amounts>,
    #[serde(rename = "requiredCPUBindPolicy")]
    required_cpu_bind_policy: bool,
    cpu_bind_policy: String,
    cpu_exclusive_policy: String,
    #[serde(default, rename = "preferredCPUs")]
    preferred_cpus: Option<Vec<i64>>,
    #[serde(default, rename = "preemptibleCPUs")]
    preemptible_cpus: Option<Vec<i64>>,
    #[serde(default)]
    reusable_resources: Option<Vec<NodeAmounts>>,
    #[serde(default)]
    required_resources: Option<Vec<NodeAmounts>>,
    #[serde(default)]
    hint: Option<HintInput>,
}

/// The request of a pod in a case.
pub(super) struct Options {
    input: OptionsInput,
    requests: Amounts,
    plain_requests: Amounts,
    preferred: CpuSet,
    preemptible: CpuSet,
    reusable: Vec<NodeAmounts>,
    offered: Vec<NodeAmounts>,
}

impl OptionsInput {
    pub(super) fn build(mut self) -> Result<Options, String> {
        Ok(Options {
            requests: self.requests.take().unwrap_or_default(),
            plain_requests: self.original_requests.take().unwrap_or_default(),
            preferred: cpu_set(self.preferred_cpus.as_deref().unwrap_or_default())?,
            preemptible: cpu_set(self.preemptible_cpus.as_deref().unwrap_or_default())?,
            reusable: self.reusable_resources.take().unwrap_or_default(),
            offered: self.required_resources.take().unwrap_or_default(),
            input: self,
        })
    }
}

impl Options {
    pub(super) fn ask(&self) -> AllocationRequest<'_> {
        AllocationRequest {
            cpus: usize::try_from(self.input.num_cpus_needed).unwrap_or(0),
            bind: self.input.request_cpu_bind,
            requests: &self.requests,
            plain_requests: &self.plain_requests,
            binding: BindPolicy::parse(&self.input.cpu_bind_policy)
                .and_then(|policy| policy.binding()),
            required: self.input.required_cpu_bind_policy,
            exclusive: exclusive(&self.input.cpu_exclusive_policy),
            preferred: &self.preferred,
            preemptible: &self.preemptible,
            reusable: &self.reusable,
            offered: &self.offered,
        }
    }

    pub(super) fn affinity(&self) -> Option<NodeSet> {
        self.input.hint.as_ref().and_then(|hint| hint.affinity)
    }
}
