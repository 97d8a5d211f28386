//! Replays the family `session`: one scheduling round of the whole plugin.

use pinfold_cluster::volcano::predicate::{NumaInfo, SessionNode, VolcanoTask};
use pinfold_cluster::volcano::session::VolcanoSession;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{ContainerName, NodeName, PodUid};
use pinfold_core::pod::{Container, Pod, ResourceList};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::read::{CpuEntry, DetailJson, cpus_json};
use super::score::number;
use crate::case::{Case, ReplayOutcome, check};

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

impl From<NodeJson> for SessionNode {
    fn from(json: NodeJson) -> Self {
        let numa = |numa: NumaJson| NumaInfo {
            cpu_manager: numa.policies.cpu_manager,
            topology: numa.policies.topology_manager_policy,
            cpus: numa.cpus.0,
            free: numa.allocatable.cpu.map(|cpus| cpus.0),
            reserved: numa.reserved.get("cpu").copied(),
        };
        SessionNode {
            name: json.name,
            numa: json.numa.map(numa),
        }
    }
}

impl From<TaskJson> for VolcanoTask {
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
        VolcanoTask {
            pod: Pod {
                uid: PodUid::from(format!("u-{}", json.name)),
                name: format!("ns/{}", json.name),
                init_containers: Vec::new(),
                containers: json.containers.into_iter().map(container).collect(),
                pod_requests: None,
                pod_limits: None,
            },
            policy: json.policy,
        }
    }
}

pub(super) fn replay(case: &Case) -> ReplayOutcome {
    match Input::deserialize(&case.input) {
        Ok(input) => check(&case.expect, &round(input)),
        Err(error) => ReplayOutcome::Failed(error.to_string()),
    }
}

fn round(input: Input) -> Value {
    let nodes: Vec<SessionNode> = input.nodes.into_iter().map(SessionNode::from).collect();
    let mut session = VolcanoSession::open(nodes.iter().cloned(), input.weight, Fidelity::Exact);
    let mut tasks = Vec::new();
    for json in input.tasks {
        let name = json.name.clone();
        tasks.push(place(&mut session, &nodes, &name, &VolcanoTask::from(json)));
    }
    let submitted = session.close().into_iter().map(|(uid, binding)| {
        let (namespace, name) = binding.task.split_once('/').unwrap_or(("", &binding.task));
        json!({
            "uid": uid, "name": name, "namespace": namespace,
            "node": binding.node, "cpus": cpus_json(&binding.cpus),
        })
    });
    let submitted: Value = submitted.collect();
    json!({"tasks": tasks, "submittedAtClose": submitted})
}

fn place(
    session: &mut VolcanoSession,
    nodes: &[SessionNode],
    name: &str,
    task: &VolcanoTask,
) -> Value {
    let mut answers = Map::new();
    let mut feasible = Vec::new();
    for node in nodes {
        let answer = match session.predicate(task, &node.name) {
            Ok(decision) => {
                feasible.push(node.name.clone());
                let assign = decision.map(|cpus| json!({"cpu": cpus_json(&cpus)}));
                json!({"fit": true, "assign": assign})
            }
            Err(error) => json!({
                "fit": false, "error": error.to_string(),
                "reasons": [error.misfit.to_string()], "codes": [error.misfit.code() as u8],
            }),
        };
        answers.insert(node.name.to_string(), answer);
    }
    let has_numa = |name: &NodeName| {
        let mut same = nodes.iter().filter(|node| node.name == *name);
        same.any(|node| node.numa.is_some())
    };
    let scored: Vec<NodeName> = feasible
        .iter()
        .filter(|name| has_numa(name))
        .cloned()
        .collect();
    let scores = session.order(task, &scored);
    let bind = match &scores {
        Some(scores) if !scored.is_empty() => VolcanoSession::best(&scored, Some(scores)),
        _ => feasible.first(),
    };
    if let Some(node) = bind
        && let Err(error) = session.allocate(task, node)
    {
        return json!({"task": name, "error": error.to_string()});
    }
    let scores: Option<Map<String, Value>> = scores.map(|scores| {
        let rows = scored.iter().zip(scores);
        rows.map(|(node, score)| (node.to_string(), number(score)))
            .collect()
    });
    let free: Map<String, Value> = nodes
        .iter()
        .filter_map(|node| Some((node.name.to_string(), cpus_json(session.free(&node.name)?))))
        .collect();
    json!({
        "task": name, "predicate": answers, "scores": scores, "bind": bind, "freeAfter": free,
    })
}
