//! What the reports of nodes cost while pods come: agents send what differs in their object, as a merge patch.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};

use super::super::kubelets::{TOPOLOGIES, read};
use super::super::machines;
use super::super::played::PlayedNode;
use super::super::pods::{cpus, pod};
use super::super::stage::Stage;
use super::by_hands;

/// As many nodes change, each once.
const CHANGES: usize = 500;
/// The pods of a node before it changes, of one CPU each.
const PODS: usize = 20;
const MACHINE: &str = "2 sockets, 16 cores, smt2, mem=128Gi";
/// The bytes that etcd wrote to its log.
const WRITTEN: &str = "etcd_disk_wal_write_bytes_total ";

/// Bytes for one pod that comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Churn {
    /// The patch of the report.
    pub(crate) patch: usize,
    /// What etcd wrote.
    pub(crate) stored: f64,
    /// The whole report.
    pub(crate) whole: usize,
}

pub(super) fn measure(stage: &Stage) -> Result<Churn, String> {
    let whole = AtomicUsize::new(0);
    let name = |number: usize| format!("churn-{number:04}");
    let filled = |number: usize| {
        let mut node = machines::node(&name(number), MACHINE, "single-numa-node", "container")?;
        (0..PODS).try_for_each(|index| admit(&mut node, index))?;
        Ok::<_, String>(node)
    };
    by_hands(stage, CHANGES, |admin, number| {
        let report = filled(number)?.topology();
        whole.fetch_add(report.to_string().len(), Ordering::Relaxed);
        admin.expect("POST", TOPOLOGIES, Some(&report)).map(drop)
    })?;
    let before = stage.plane.etcd_metric(WRITTEN)?;
    let sent = AtomicUsize::new(0);
    by_hands(stage, CHANGES, |admin, number| {
        let mut node = filled(number)?;
        let old = node.topology();
        admit(&mut node, PODS)?;
        let patch = difference(&old, &node.topology()).unwrap_or_else(|| json!({}));
        sent.fetch_add(patch.to_string().len(), Ordering::Relaxed);
        let path = format!("{TOPOLOGIES}/{}", node.name);
        admin.expect("PATCH", &path, Some(&patch)).map(drop)
    })?;
    let stored = stage.plane.etcd_metric(WRITTEN)? - before;
    stage.admin.expect("DELETE", TOPOLOGIES, None)?;
    let each = f64::from(u32::try_from(CHANGES).unwrap_or(u32::MAX));
    Ok(Churn {
        patch: sent.into_inner() / CHANGES,
        stored: stored / each,
        whole: whole.into_inner() / CHANGES,
    })
}

/// A pod of one CPU comes.
fn admit(node: &mut PlayedNode, index: usize) -> Result<(), String> {
    let mut pod = pod(
        &format!("service-7d9c6b5f4d-{index:05}"),
        "none",
        &[cpus(1)],
    );
    pod["metadata"]["uid"] = json!(format!("0c5f1a2b-3d4e-4f60-8172-{index:012}"));
    node.admit(&read(pod)?).map(drop)
}

/// The merge patch that makes one object of another; `None` if they are equal.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        let part = match old.get(key) {
            Some(old) => difference(old, value),
            None => Some(value.clone()),
        };
        patch.extend(part.map(|part| (key.clone(), part)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_has_only_what_differs() {
        let old = json!({ "a": { "b": 1, "c": [1] }, "gone": 1, "same": { "x": 1 } });
        let new = json!({ "a": { "b": 2, "c": [1] }, "new": 3, "same": { "x": 1 } });
        let expected = json!({ "a": { "b": 2 }, "gone": null, "new": 3 });
        assert_eq!(difference(&old, &new), Some(expected));
        assert_eq!(difference(&new, &new), None);
    }
}
