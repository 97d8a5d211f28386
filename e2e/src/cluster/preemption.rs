//! What an answer about all nodes and about nodes with pods removed is for: preemption, and one node of many.

use serde_json::json;

use super::machines;
use super::pods::{cpus, pod};
use super::stage::{Stage, eventually};
use super::stories::leave;
use crate::report::{Report, equal};

/// More nodes than kube-scheduler looks for before it is content: 100, or about half of them.
const NODES: usize = 160;

/// Plays the stories.
pub(crate) fn run(report: &mut Report, stage: &Stage, ours: &str) {
    type Story = fn(&Stage, &str) -> Result<(), String>;
    let stories: [(&str, Story); 4] = [
        (
            "a pod that only one NUMA node lacks CPUs for evicts one pod of lower priority",
            only_numa,
        ),
        (
            "a pod that a PodDisruptionBudget protects is not the one that is evicted",
            budget,
        ),
        (
            "the place of a nominated pod is not given to a pod of lower priority",
            nominated,
        ),
        ("only the last of 160 nodes takes the pod", one_of_many),
    ];
    for (name, story) in stories {
        let outcome = story(stage, ours);
        let cleared = stage.clear().and_then(|()| leave(stage));
        report.check(format_args!("cluster: {name}"), outcome.and(cleared));
    }
}

/// A priority class of this value.
fn priority(stage: &Stage, name: &str, value: i32) -> Result<(), String> {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": name }, "value": value,
    });
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    match stage.admin.ask("POST", path, Some(&class))? {
        (201 | 409, _) => Ok(()),
        (code, answer) => Err(format!("{name}: {code} {answer}")),
    }
}

/// Each NUMA node has a pod of 4 CPUs: 3 and 4 are free, 7 in sum. A pod of 6 fits after one eviction.
fn only_numa(stage: &Stage, ours: &str) -> Result<(), String> {
    priority(stage, "high", 1000)?;
    let text = "2 sockets, 8 cores, mem=16Gi";
    let node = machines::node("preempted", text, "single-numa-node", "container")?;
    stage.kubelets.join(&stage.admin, vec![node])?;
    let low = ["low-0", "low-1"];
    for name in low {
        stage.create(&pod(name, ours, &[cpus(4)]))?;
        stage.runs(name)?;
    }
    let mut high = pod("high", ours, &[cpus(6)]);
    high["spec"]["priorityClassName"] = json!("high");
    stage.create(&high)?;
    equal("the node", stage.runs("high")?.as_str(), "preempted")?;
    let pods = stage.pods()?;
    let left = low.iter().filter(|name| pods.contains_key(**name));
    equal("pods of lower priority that are left", left.count(), 1)
}

/// The same; the pod that started last, which would be evicted otherwise, is protected.
fn budget(stage: &Stage, ours: &str) -> Result<(), String> {
    priority(stage, "high", 1000)?;
    let text = "2 sockets, 8 cores, mem=16Gi";
    let node = machines::node("budget", text, "single-numa-node", "container")?;
    stage.kubelets.join(&stage.admin, vec![node])?;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "metadata": { "name": "protected" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "protected" } } },
    });
    stage.admin.expect("POST", path, Some(&budget))?;
    for name in ["plain", "protected"] {
        let mut low = pod(name, ours, &[cpus(4)]);
        low["metadata"]["labels"] = json!({ "app": name });
        stage.create(&low)?;
        stage.runs(name)?;
        // The age of a pod decides, in whole seconds.
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    let mut high = pod("high", ours, &[cpus(6)]);
    high["spec"]["priorityClassName"] = json!("high");
    stage.create(&high)?;
    equal("the node", stage.runs("high")?.as_str(), "budget")?;
    let pods = stage.pods()?;
    let left: Vec<&str> = pods.keys().map(String::as_str).collect();
    stage
        .admin
        .expect("DELETE", &format!("{path}/protected"), None)?;
    equal(
        "pods that are left",
        left.join(" ").as_str(),
        "high protected",
    )
}

/// While the victim ends slowly, a pod of lower priority that fits where the victim was has to wait.
fn nominated(stage: &Stage, ours: &str) -> Result<(), String> {
    priority(stage, "high", 1000)?;
    let text = "1 socket, 8 cores, mem=16Gi";
    let node = machines::node("nominated", text, "single-numa-node", "container")?;
    stage.kubelets.join(&stage.admin, vec![node])?;
    stage.create(&pod("victim", ours, &[cpus(6)]))?;
    stage.runs("victim")?;
    let mut high = pod("first", ours, &[cpus(6)]);
    high["spec"]["priorityClassName"] = json!("high");
    stage.create(&high)?;
    stage.create(&pod("later", ours, &[cpus(5)]))?;
    stage.runs("first")?;
    let later = stage.waits("later")?;
    equal(&format!("{later} is a reason"), later.is_empty(), false)
}

/// All nodes have enough in sum, and one has enough on one NUMA node.
fn one_of_many(stage: &Stage, ours: &str) -> Result<(), String> {
    let (policy, scope) = ("single-numa-node", "container");
    let mut nodes = Vec::new();
    for number in 1..NODES {
        let name = format!("many-{number:03}");
        let text = "2 sockets, 4 cores, mem=16Gi";
        nodes.push(machines::node(&name, text, policy, scope)?);
    }
    let text = "2 sockets, 8 cores, mem=16Gi";
    nodes.push(machines::node("many-last", text, policy, scope)?);
    stage.kubelets.join(&stage.admin, nodes)?;
    // The controllers take the taint of new nodes away.
    eventually("all nodes are ready", || {
        let nodes = stage.admin.expect("GET", "/api/v1/nodes", None)?;
        let nodes = nodes["items"].as_array().ok_or("no nodes")?;
        let tainted = nodes
            .iter()
            .filter(|node| node["spec"]["taints"].is_array());
        equal("tainted nodes", tainted.count(), 0)
    })?;
    for number in 0..4 {
        let name = format!("wide-{number}");
        stage.create(&pod(&name, ours, &[cpus(6)]))?;
        if number < 2 {
            equal("the node", stage.runs(&name)?.as_str(), "many-last")?;
        }
    }
    let words = stage.waits("wide-3")?;
    equal(
        &format!("{words} names the NUMA nodes"),
        words.contains("NUMA"),
        true,
    )
}
