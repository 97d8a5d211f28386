//! The memory of the scheduler's engine with the most nodes and pods that a cluster of Kubernetes may have.
//!
//! The objects are parsed one by one, as the engine's watches do. The reports list the pods of their node, of which a
//! third are Guaranteed. Then pods of as many shapes are evaluated as the engine remembers.

use std::time::{Duration, Instant};

use pinfold_cluster::MAX_SHAPES;
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Ledger;
use pinfold_core::settings::Settings;
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::node_resource_topology::{self, NrtVersion};
use pinfold_kube::node_state::PublishedNodeState;
use pinfold_scheduler::cache::node::{parse_node, parse_report};
use pinfold_scheduler::cache::{CachePolicy, pod_info};
use pinfold_scheduler::{Cache, EngineConfig, Weights};
use serde_json::{Value, json};

use crate::fixture::{self, MachineShape};

const NODES: usize = 5000;
const PODS_PER_NODE: usize = 30;
/// One of so many pods is Guaranteed.
const GUARANTEED: usize = 3;

/// Measures, and returns a line about it.
pub(crate) fn measure() -> Result<String, String> {
    let now = Instant::now();
    let config = EngineConfig::default();
    let mut cache = Cache::new(CachePolicy {
        nodes: config.nodes,
        reports: config.reports,
    });
    let start = resident()?;
    for number in 0..NODES {
        let node = node(number);
        cache.apply_node(
            parse_node(&node.to_string()).map_err(|error| error.to_string())?,
            now,
        );
        let report = report(number).to_string();
        let (name, report) = parse_report(&report, now).map_err(|error| error.to_string())?;
        cache.apply_report(&name, report, now);
    }
    let with_nodes = resident()?;
    let mut pods = Vec::new();
    for number in 0..NODES {
        for index in 0..PODS_PER_NODE {
            let pod = pod(number, index).to_string();
            pods.push(pod_info::parse(&pod).map_err(|error| error.to_string())?);
        }
    }
    let count = pods.len();
    let later = now + Duration::from_millis(1);
    cache.replace_pods(pods, later, later);
    let with_pods = resident()?;
    for size in 0..MAX_SHAPES {
        let mut next = pod(0, 0);
        next["metadata"]["uid"] = json!(format!("next-{size}"));
        next["spec"]["nodeName"] = Value::Null;
        let amounts = json!({ "cpu": "4", "memory": format!("{}Mi", 1024 + size) });
        next["spec"]["containers"][0]["resources"] =
            json!({ "requests": amounts, "limits": amounts });
        let next = pod_info::parse(&next.to_string()).map_err(|error| error.to_string())?;
        let fits = cache
            .pre_filter(&next.info, &Weights::default())
            .scores
            .len();
        if size == 0 && fits == 0 {
            return Err("expected nodes that take the pod".to_owned());
        }
    }
    let mebibytes = |bytes: u64| bytes >> 20;
    Ok(format!(
        "{NODES} nodes and {count} pods: {} MiB resident at the end (nodes and reports {} MiB, pods {} MiB, {MAX_SHAPES} \
         remembered shapes {} MiB), {} MiB at the peak",
        mebibytes(resident()?),
        mebibytes(with_nodes.saturating_sub(start)),
        mebibytes(with_pods.saturating_sub(with_nodes)),
        mebibytes(resident()?.saturating_sub(with_pods)),
        mebibytes(status("VmHWM:")?),
    ))
}

fn resident() -> Result<u64, String> {
    status("VmRSS:")
}

/// A line of this process's status, in bytes.
fn status(key: &str) -> Result<u64, String> {
    const PATH: &str = "/proc/self/status";
    let text = std::fs::read_to_string(PATH).map_err(|error| format!("{PATH}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| format!("{PATH}: no {key}"))
}

fn node(number: usize) -> Value {
    json!({
        "metadata": { "name": format!("node-{number:04}"), "resourceVersion": "1",
            "labels": { "kubernetes.io/hostname": format!("node-{number:04}"), "kubernetes.io/arch": "amd64" } },
        "status": { "allocatable": { "cpu": "126", "memory": "120Gi", "pods": "110" },
            "nodeInfo": { "kubeletVersion": "v1.36.4" } },
    })
}

fn is_guaranteed(index: usize) -> bool {
    index.is_multiple_of(GUARANTEED)
}

fn uid(number: usize, index: usize) -> String {
    format!("0c5f1a2b-3d4e-4f60-{index:04}-{number:012}")
}

/// A pod as the API server sends it.
fn pod(number: usize, index: usize) -> Value {
    let amounts = json!({ "cpu": (1 + (number + index) % 4).to_string(), "memory": "1Gi" });
    let resources = match is_guaranteed(index) {
        true => json!({ "requests": amounts, "limits": amounts }),
        false => {
            json!({ "requests": { "cpu": "250m", "memory": "256Mi" }, "limits": { "memory": "512Mi" } })
        }
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("service-7d9c6b5f4d-{number:05}-{index:02}"), "namespace": format!("team-{}", number % 50),
            "uid": uid(number, index), "resourceVersion": "123456789",
            "labels": { "app": "service", "pod-template-hash": "7d9c6b5f4d", "team": format!("team-{}", number % 50) },
            "annotations": { "prometheus.io/scrape": "true" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "service-7d9c6b5f4d", "uid": "u", "controller": true }],
        },
        "spec": {
            "nodeName": format!("node-{number:04}"), "schedulerName": "pinfold", "priority": 0,
            "containers": [
                { "name": "main", "image": "registry.example.com/service:1", "resources": resources,
                  "env": [{ "name": "A", "value": "b" }] },
            ],
            "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute" }],
        },
        "status": { "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [
            { "name": "main", "containerID": "containerd://c0ffee", "allocatedResources": resources["requests"],
              "resources": resources },
        ] },
    })
}

/// The report of a node on which its Guaranteed pods run.
fn report(number: usize) -> Value {
    let shape = MachineShape {
        nodes: 2,
        cpus: 128,
        caches: 2,
        hugepages: 0,
    };
    let settings = Settings {
        fidelity: Fidelity::Exact,
        ..fixture::settings("single-numa-node", "container")
    };
    let mut ledger: Ledger = fixture::ledger(shape.machine(), settings);
    for index in (0..PODS_PER_NODE).filter(|index| is_guaranteed(*index)) {
        let cpus = (1 + (number + index) % 4).to_string();
        let pod = fixture::pod(&uid(number, index), &[("cpu", &cpus), ("memory", "1Gi")]);
        let _ = ledger.admit(&pod, &mut NoPreference);
    }
    let (rules, occupancy) = (ledger.rules(), ledger.occupancy());
    let plain =
        node_resource_topology::publish("node", rules.machine(), &occupancy, rules.settings());
    let facts = ReportAnnotations::of(rules.machine(), rules.settings(), rules.reserved_cpus());
    let mut object = koordinator::publish(&plain, &facts);
    PublishedNodeState::attach(&ledger, DialectName::Kubelet, &mut object);
    let object = object.converted(NrtVersion::V1Alpha2);
    let mut object = serde_json::to_value(object.content()).unwrap_or_default();
    object["metadata"]["name"] = json!(format!("node-{number:04}"));
    object["metadata"]["resourceVersion"] = json!("1");
    object
}
