//! The nodes and namespaces of the story.

use serde_json::{Value, json};

use super::{Scene, shapes};
use crate::cluster::pods::PODS;
use crate::cluster::stage::eventually;

/// The node on which markers are bound.
pub(super) const MARKED: &str = "filter-0";

/// A node: its zone, labels, taints, CPUs and pods.
type Row = (
    Option<&'static str>,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str, &'static str)],
    u32,
    u32,
);

/// Three zones, a node without one, taints of each effect; the ninth is cordoned.
const NODES: [Row; 10] = [
    (Some("a"), &[("disk", "ssd"), ("rank", "1")], &[], 4, 12),
    (Some("a"), &[("disk", "hdd"), ("rank", "2")], &[], 2, 6),
    (Some("b"), &[("disk", "ssd"), ("rank", "3")], &[], 4, 8),
    (
        Some("b"),
        &[("disk", "ssd")],
        &[("dedicated", "batch", "NoSchedule")],
        4,
        8,
    ),
    (Some("b"), &[], &[("soft", "", "PreferNoSchedule")], 2, 4),
    (Some("c"), &[("disk", "hdd"), ("rank", "7")], &[], 3, 8),
    (
        Some("c"),
        &[("disk", "ssd")],
        &[("evict", "", "NoExecute")],
        4,
        8,
    ),
    (None, &[("disk", "ssd")], &[], 2, 6),
    (Some("c"), &[("disk", "ssd"), ("rank", "9")], &[], 4, 8),
    (Some("a"), &[("disk", "nvme")], &[], 1, 5),
];
/// The position of the cordoned node.
const CORDONED: usize = 8;

/// Further namespaces with a label.
const NAMESPACES: [(&str, &str); 2] = [("team-red", "red"), ("team-blue", "blue")];

fn name(number: usize) -> String {
    format!("filter-{number}")
}

fn node(number: usize, (zone, labels, taints, cpus, pods): &Row) -> Value {
    let name = name(number);
    let mut all = json!({ "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" });
    if let Some(zone) = zone {
        all["topology.kubernetes.io/zone"] = (*zone).into();
    }
    for (key, value) in *labels {
        all[*key] = (*value).into();
    }
    let taints = taints
        .iter()
        .map(|(key, value, effect)| json!({ "key": key, "value": value, "effect": effect }));
    let mut amounts = json!({ "cpu": cpus.to_string(), "memory": "4Gi", "pods": pods.to_string() });
    if number.is_multiple_of(3) {
        amounts[shapes::WIDGET] = "2".into();
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": all },
        "spec": { "taints": taints.collect::<Vec<_>>(), "unschedulable": number == CORDONED },
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    })
}

impl Scene<'_> {
    /// Creates the namespaces beside the default one.
    pub(super) fn create_namespaces(&self) -> Result<Vec<&'static str>, String> {
        for (name, team) in NAMESPACES {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": name, "labels": { "team": team } },
            });
            let admin = &self.stage.admin;
            admin.expect("POST", "/api/v1/namespaces", Some(&namespace))?;
            let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
            eventually("pods can be made", || admin.expect("GET", &account, None))?;
        }
        Ok(NAMESPACES.map(|(name, _)| name).into())
    }

    /// Creates the nodes, and waits until kube-scheduler binds a pod to each of them.
    pub(super) fn create_nodes(&self) -> Result<Vec<String>, String> {
        let admin = &self.stage.admin;
        for (number, row) in NODES.iter().enumerate() {
            let node = node(number, row);
            admin.expect("POST", "/api/v1/nodes", Some(&node))?;
        }
        let cordon = "node.kubernetes.io/unschedulable";
        let tolerated = [cordon, "dedicated", "soft", "evict"];
        let tolerations = tolerated.map(|key| json!({ "key": key, "operator": "Exists" }));
        let names: Vec<String> = (0..NODES.len()).map(name).collect();
        for name in &names {
            let mut pod = shapes::plain(&format!("on-{name}"));
            pod["spec"]["schedulerName"] = self.scheduler.into();
            pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": name });
            pod["spec"]["tolerations"] = json!(tolerations);
            self.stage.create(&pod)?;
        }
        for name in &names {
            let path = format!("{PODS}/on-{name}");
            eventually(&format!("kube-scheduler knows {name}"), || {
                let pod = admin.expect("GET", &path, None)?;
                match pod["spec"]["nodeName"].is_string() {
                    true => Ok(()),
                    false => Err(pod["status"].to_string()),
                }
            })?;
        }
        self.stage.clear_pods()?;
        Ok(names)
    }
}
