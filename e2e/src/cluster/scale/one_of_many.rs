//! Only the 600th of thousands of nodes takes a pod, and in sum all have enough for it.

use serde_json::{Value, json};

use super::super::engine::Engine;
use super::super::machines;
use super::super::pods::{PODS, guaranteed, pod};
use super::super::stage::{Stage, eventually};
use super::node_name;
use crate::control_plane::Scheduler;
use crate::report::equal;

/// The label of nodes with the policy of their kubelet.
pub(super) const LABEL: &str = "e2e/policy";
const POLICY: &str = "single-numa-node";
/// A machine with more CPUs on each NUMA node than the others, and not many more in sum.
const LARGE: &str = "2 sockets, 20 cores, smt2, mem=128Gi";
/// More CPUs than a NUMA node of the other machines has.
const CPUS: &str = "36";

/// The number of the node among so many.
pub(super) fn number(count: usize) -> usize {
    // Of the nodes of that policy, which is the last of four.
    count.min(600).saturating_sub(1) / 4 * 4 + 3
}

/// The node and its report.
pub(super) fn node() -> Result<(Value, Value), String> {
    let node = machines::node("large", LARGE, POLICY, "container")?;
    Ok((node.node(), node.topology()))
}

/// A pod is bound to that node.
pub(super) fn check(stage: &Stage, engine: &Engine, count: usize) -> Result<(), String> {
    const NAME: &str = "plugged";
    let _scheduler = stage.plane.scheduler(&Scheduler {
        name: NAME,
        engine: Some(engine.socket.clone()),
        elects: false,
    })?;
    let main = guaranteed("main", &[("cpu", CPUS), ("memory", "1Gi")]);
    let mut wide = pod("wide", NAME, &[main]);
    wide["spec"]["hostNetwork"] = false.into();
    wide["spec"]["nodeSelector"] = json!({ LABEL: POLICY });
    stage.create(&wide)?;
    eventually("the pod is bound", || {
        let pod = stage.admin.expect("GET", &format!("{PODS}/wide"), None)?;
        let node = node_name(number(count));
        equal(
            "the node",
            pod["spec"]["nodeName"].as_str(),
            Some(node.as_str()),
        )
    })
}
