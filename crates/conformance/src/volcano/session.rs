//! Replays the family `session`: one scheduling round of the whole plugin, through the cluster that users place pods
//! on.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::volcano::numa_amounts::NumaAmounts;
use pinfold_cluster::volcano::predicate::{Misfit, NumaInfo};
use pinfold_cluster::{
    Cluster, ClusterNode, Dialect, Evaluation, FitScore, NodeRejection, PlaceError, Placement,
    PlacementDetail, PodRequest,
};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{ContainerName, NodeName, PodUid};
use pinfold_core::pod::{Container, Pod, ResourceList};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::read::{CpuEntry, DetailJson, cpus_json};
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    nodes: Vec<NodeJson>,
    tasks: Vec<TaskJson>,
    weight: i64,
}

#[derive(Deserialize)]
struct NodeJson {
    name: NodeName,
    numa: Option<NumaJson>,
}

#[derive(Deserialize)]
struct NumaJson {
    policies: PoliciesJson,
    cpus: DetailJson,
    allocatable: CpuEntry,
    reserved: ResourceList,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PoliciesJson {
    #[serde(default, rename = "CPUManagerPolicy")]
    cpu_manager: String,
    #[serde(default)]
    topology_manager_policy: String,
}

#[derive(Deserialize)]
struct TaskJson {
    name: String,
    policy: Option<String>,
    guaranteed: bool,
    containers: Vec<ContainerJson>,
}

#[derive(Deserialize)]
struct ContainerJson {
    name: ContainerName,
    requests: ResourceList,
}

impl From<NumaJson> for NumaInfo {
    fn from(json: NumaJson) -> Self {
        NumaInfo {
            cpu_manager: json.policies.cpu_manager,
            topology: json.policies.topology_manager_policy,
            cpus: json.cpus.0,
            free: json.allocatable.cpu.map(|cpus| cpus.0),
            reserved: json.reserved.get("cpu").copied(),
        }
    }
}

impl From<TaskJson> for PodRequest {
    fn from(json: TaskJson) -> Self {
        let container = |container: ContainerJson| Container {
            name: container.name,
            restartable: false,
            limits: match json.guaranteed {
                true => container.requests.clone(),
                false => ResourceList::new(),
            },
            requests: container.requests,
        };
        let request = PodRequest::new(Arc::new(Pod {
            uid: PodUid::from(format!("u-{}", json.name)),
            name: format!("ns/{}", json.name),
            init_containers: Vec::new(),
            containers: json.containers.into_iter().map(container).collect(),
            pod_requests: None,
            pod_limits: None,
        }));
        match json.policy {
            Some(policy) => request.with_volcano_policy(policy),
            None => request,
        }
    }
}

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    case.compare(&round(case.read()?))
}

/// The vectors have no allocatable: another plugin of the scheduler compares the totals.
fn unlimited(tasks: &[PodRequest]) -> Amounts {
    let mut allocatable = Amounts::new();
    for (name, _) in tasks.iter().flat_map(|task| task.requests().iter()) {
        allocatable.set(name, i64::MAX);
    }
    allocatable
}

fn round(input: Input) -> Value {
    let tasks: Vec<PodRequest> = input.tasks.into_iter().map(PodRequest::from).collect();
    let allocatable = unlimited(&tasks);
    let mut cluster = Cluster::new().with_volcano_weight(input.weight);
    for NodeJson { name, numa } in input.nodes {
        let node = ClusterNode::volcano(
            numa.map(NumaInfo::from),
            NumaAmounts::default(),
            allocatable.clone(),
            Fidelity::Exact,
        );
        cluster.insert(name, node);
    }
    let mut submitted = BTreeMap::new();
    let mut answers = Vec::new();
    for task in &tasks {
        answers.push(place(&mut cluster, task, &mut submitted));
    }
    let submitted: Vec<Value> = submitted.into_values().collect();
    json!({"tasks": answers, "submittedAtClose": submitted})
}

/// Evaluates a task on every node and places it. A task for which the plugin chose CPUs is added to `submitted`.
fn place(
    cluster: &mut Cluster,
    task: &PodRequest,
    submitted: &mut BTreeMap<PodUid, Value>,
) -> Value {
    let full_name = &task.pod().name;
    let (namespace, name) = full_name.split_once('/').unwrap_or(("", full_name));
    let mut predicate = Map::new();
    let mut counted = Vec::new();
    for evaluated in cluster.evaluate_all(task) {
        let node = evaluated.node;
        let answer = match evaluated.evaluation {
            Evaluation::FitsInTotal => json!({"fit": true, "assign": null}),
            Evaluation::Fits(fit) => {
                if let FitScore::NumaNodes(_) = fit.score {
                    counted.push(node.clone());
                }
                json!({"fit": true, "assign": {"cpu": cpus_json(&fit.cpus)}})
            }
            Evaluation::Rejected(rejection) => json!({
                "fit": false,
                "error": format!("task {full_name} on node {node} fit failed: {rejection}"),
                "reasons": [rejection.to_string()],
                "codes": [code(rejection)],
            }),
        };
        predicate.insert(node.to_string(), answer);
    }
    let scores: Map<String, Value> = cluster
        .rank(task)
        .into_iter()
        .filter(|ranked| counted.contains(ranked.node))
        .map(|ranked| (ranked.node.to_string(), json!(ranked.score)))
        .collect();
    let bind = match cluster.place(task) {
        Ok(Placement {
            pod,
            node,
            cpus,
            detail,
            ..
        }) => {
            if let PlacementDetail::Volcano(_) = detail {
                let row = json!({
                    "uid": pod, "name": name, "namespace": namespace,
                    "node": node, "cpus": cpus_json(&cpus),
                });
                submitted.insert(pod, row);
            }
            Some(node)
        }
        Err(PlaceError::NoNode { .. }) => None,
        Err(error) => return json!({"task": name, "error": error.to_string()}),
    };
    json!({
        "task": name, "predicate": predicate, "scores": (!counted.is_empty()).then_some(scores),
        "bind": bind, "freeAfter": free(cluster),
    })
}

/// The free CPUs of every node that reports any.
fn free(cluster: &Cluster) -> Map<String, Value> {
    let free_of = |(name, node): (&NodeName, &ClusterNode)| match node.dialect() {
        Dialect::Volcano(node) => Some((name.to_string(), cpus_json(node.free.as_ref()?))),
        _ => None,
    };
    cluster.nodes().filter_map(free_of).collect()
}

/// The status code of the plugin: 3 if evicting other pods would not help, 1 for an error.
fn code(rejection: &NodeRejection) -> u8 {
    match rejection {
        NodeRejection::Volcano(Misfit::NotAdmitted { .. }) => 3,
        _ => 1,
    }
}
