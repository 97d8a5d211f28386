//! What a user with the chart's role for readers, and no other, can read in a cluster.

use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::control_plane::{Admin, ControlPlane, Credentials, PATIENCE};
use crate::programs;
use crate::report::equal;

const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Two nodes, one full; a pod that runs, one that waits; and a user with read access.
pub(super) fn sees_the_cluster(plane: &ControlPlane, admin: &Admin) -> Result<(), String> {
    for (node, available) in [("worker-1", [0, 1]), ("worker-2", [2, 2])] {
        admin.expect("POST", "/api/v1/nodes", Some(&self::node(node)))?;
        // It never becomes ready; readiness is not tested here.
        let path = format!("/api/v1/nodes/{node}");
        admin.expect("PATCH", &path, Some(&json!({"spec": {"taints": null}})))?;
        let path = format!("/api/v1/nodes/{node}/status");
        let status =
            json!({"status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}});
        admin.expect("PATCH", &path, Some(&status))?;
        let report = topology(node, available);
        eventually(|| admin.expect("POST", TOPOLOGIES, Some(&report)))?;
    }
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    for name in ["default", "reader"] {
        let account = json!({"metadata": {"name": name}});
        // Another check may have created it.
        let _ = admin.ask("POST", accounts, Some(&account))?;
    }
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pinfold-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    });
    admin.expect("POST", BINDINGS, Some(&binding))?;
    let pods = "/api/v1/namespaces/default/pods";
    admin.expect("POST", pods, Some(&pod("running", 4, Some("worker-1"))))?;
    admin.expect("POST", pods, Some(&pod("waiting", 3, None)))?;
    let token = json!({"spec": {"expirationSeconds": 3600}});
    let token = admin.expect("POST", &format!("{accounts}/reader/token"), Some(&token))?;
    let token = token["status"]["token"].as_str().unwrap_or_default();
    let kubeconfig = plane.kubeconfig("reader", &Credentials::Token(token))?;

    let top = json_of(&pinfold(&kubeconfig, &["top", "-o", "json"])?)?;
    equal("nodes", top["nodes"].as_array().map(Vec::len), Some(2))?;
    equal(
        "the fullest comes first",
        &top["nodes"][0]["node"],
        &json!("worker-1"),
    )?;
    equal("pods there", &top["nodes"][0]["pods"], &json!(1))?;
    let free = &top["nodes"][1]["numa"][0]["cpus"]["free"];
    equal("free CPUs of worker-2", free, &json!(2))?;

    let waiting = pinfold(&kubeconfig, &["explain", "pod", "waiting", "-o", "json"])?;
    equal("exit code", waiting.status.code(), Some(1))?;
    let why = json_of(&waiting)?;
    let nodes = why["rejections"].as_array().into_iter().flatten();
    let rejecting: usize = nodes
        .map(|one| one["nodes"].as_array().map_or(0, Vec::len))
        .sum();
    equal("nodes that reject", rejecting, 2)?;
    let change = why["changes"][0]["change"].as_str().unwrap_or_default();
    equal(
        "the nearest change",
        change,
        "cpu of container main: 2 instead of 3",
    )?;

    let view = pinfold(&kubeconfig, &["view", "node", "worker-1", "-o", "svg"])?;
    let picture = String::from_utf8_lossy(&view.stdout).into_owned();
    equal("a picture of the pod", picture.contains("running"), true)
}

/// Runs the plugin as that user.
fn pinfold(kubeconfig: &Path, words: &[&str]) -> Result<Output, String> {
    let program = programs::debug_program(programs::PLUGIN)?;
    let mut command = Command::new(program);
    command.args(words).env("KUBECONFIG", kubeconfig);
    command.output().map_err(|error| error.to_string())
}

fn json_of(output: &Output) -> Result<Value, String> {
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// A node of two NUMA nodes with four CPUs each.
fn topology(name: &str, available: [u32; 2]) -> Value {
    let zone = |id: usize| {
        json!({"name": format!("node-{id}"), "type": "Node", "resources": [
            {"name": "cpu", "capacity": "4", "allocatable": "4", "available": available[id].to_string()},
            {"name": "memory", "capacity": "8Gi", "allocatable": "8Gi", "available": "4Gi"},
        ]})
    };
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": [zone(0), zone(1)],
    })
}

fn pod(name: &str, cpus: u32, node: Option<&str>) -> Value {
    let limits = json!({"cpu": cpus.to_string(), "memory": "4Gi"});
    let container = json!({"name": "main", "image": "none", "resources": {"limits": limits}});
    json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [container]},
    })
}

/// Definitions are served a moment after they were made.
pub(super) fn eventually<T>(mut ask: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(200)),
            done => return done,
        }
    }
}
