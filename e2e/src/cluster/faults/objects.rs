//! Malformed objects: each is reported, and the others are used.

use serde_json::{Value, json};

use super::super::kubelets::TOPOLOGIES;
use super::super::pods::{cpus, on, pod};
use super::super::stage::Stage;
use super::{nodes, none_rejected};
use crate::report::{equal, say};

/// Reports that the definition lets pass and that describe no machine.
fn malformed() -> Vec<(&'static str, Value)> {
    let zone = |name: &str, cpus: &str| {
        json!({ "name": name, "type": "Node", "resources": [
            { "name": "cpu", "capacity": cpus, "allocatable": cpus, "available": cpus },
        ] })
    };
    let attributes = |policy: &str| {
        json!([
            { "name": "topologyManagerPolicy", "value": policy },
            { "name": "topologyManagerScope", "value": "container" },
        ])
    };
    let object = |zones: Value, policy: &str| {
        json!({
            "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
            "attributes": attributes(policy), "zones": zones,
        })
    };
    vec![
        (
            "two-zones-one-name",
            object(
                json!([zone("node-0", "4"), zone("node-0", "4")]),
                "single-numa-node",
            ),
        ),
        (
            "too-many-cpus",
            object(json!([zone("node-0", "4000000000")]), "single-numa-node"),
        ),
        (
            "negative",
            object(json!([zone("node-0", "-4")]), "single-numa-node"),
        ),
    ]
}

/// Nodes whose reports make no sense.
pub(super) fn reports(stage: &Stage, ours: &str) -> Result<(), String> {
    let mut made = Vec::new();
    for (name, mut topology) in malformed() {
        let node = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "status": {
                "capacity": { "cpu": "8", "memory": "16Gi", "pods": "110" },
                "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        stage.admin.expect("POST", "/api/v1/nodes", Some(&node))?;
        topology["metadata"] = json!({ "name": name });
        stage.admin.expect("POST", TOPOLOGIES, Some(&topology))?;
        made.push(name);
    }
    let good = nodes(stage, "good", 1)?;
    for name in &made {
        stage.create(&on(pod(name, ours, &[cpus(2)]), name))?;
    }
    stage.create(&on(pod("sound", ours, &[cpus(2)]), &good[0]))?;
    equal("a sound node", stage.runs("sound")?, good[0].clone())?;
    for name in &made {
        let words = stage.waits(name)?;
        say(format_args!("        {name}: {words}"));
        stage.delete(name)?;
        stage
            .admin
            .expect("DELETE", &format!("/api/v1/nodes/{name}"), None)?;
        stage
            .admin
            .expect("DELETE", &format!("{TOPOLOGIES}/{name}"), None)?;
    }
    none_rejected(stage)
}

/// Pods whose annotations make no sense.
pub(super) fn annotations(stage: &Stage, ours: &str) -> Result<(), String> {
    let good = nodes(stage, "annotated", 1)?;
    let cases = [
        ("scheduling.koordinator.sh/resource-spec", "{not json"),
        (
            "scheduling.koordinator.sh/resource-status",
            "{\"cpuset\": \"x-y\"}",
        ),
        ("volcano.sh/numa-topology-policy", "sideways"),
    ];
    for (number, (key, value)) in cases.iter().enumerate() {
        let mut odd = pod(&format!("odd-{number}"), ours, &[cpus(1)]);
        odd["metadata"]["annotations"] = json!({ *key: value });
        stage.create(&odd)?;
    }
    stage.create(&pod("plain", ours, &[cpus(1)]))?;
    equal("a plain pod", stage.runs("plain")?, good[0].clone())?;
    for number in 0..cases.len() {
        let name = format!("odd-{number}");
        // Annotations of a dialect that the node does not use have no effect.
        let path = format!("{}/{name}", super::super::pods::PODS);
        let odd = stage.admin.expect("GET", &path, None)?;
        if !odd["spec"]["nodeName"].is_string() {
            let words = stage.waits(&name)?;
            say(format_args!("        {name}: {words}"));
        }
    }
    none_rejected(stage)
}
