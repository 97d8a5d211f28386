//! What the page is shown: a small hwloc export, pods with hostile names, a long journal, a large cluster.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_core::decision::AdmissionResult;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::pod::{Container, Pod};
use pinfold_core::settings::{CpuManagerPolicy, Settings};
use pinfold_journal::{
    FILE, Journal, JournalEntry, JournalEvent, JournalLimits, JournalSnapshot, Timestamp,
};
use serde_json::{Value, json};

/// Two NUMA nodes with two cores each, as hwloc exports them.
pub(super) const HWLOC: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f" allowed_cpuset="0x0000000f" nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="10" local_memory="8589934592"/>
      <object type="Core" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3"><object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4"/></object>
      <object type="Core" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5"><object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6"/></object>
    </object>
    <object type="Package" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="7">
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="11" local_memory="8589934592"/>
      <object type="Core" os_index="0" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="8"><object type="PU" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="9"/></object>
      <object type="Core" os_index="1" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="12"><object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="13"/></object>
    </object>
  </object>
</topology>
"#;

/// Texts that would do something if they became markup.
const HOSTILE: [&str; 4] = [
    "<img src=x onerror=window.hostile=1>",
    "</script><script>window.hostile=1</script>",
    "\"><svg onload=window.hostile=1>",
    "{{constructor.constructor('window.hostile=1')()}}",
];

/// Pods whose annotations, labels and resources are full of markup.
pub(super) fn hostile_pods() -> String {
    let pods = HOSTILE.iter().enumerate().map(|(index, hostile)| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{index}"), "annotations": {"note": hostile}},
            "spec": {"nodeSelector": {"zone": "x"}, "containers": [{
                "name": "main", "image": hostile, "command": [hostile],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            }]},
        })
    });
    json!({"apiVersion": "v1", "kind": "List", "items": pods.collect::<Vec<Value>>()}).to_string()
}

/// A journal with pods that come, are rejected and go. Their names are full of markup.
pub(super) fn journal(folder: &Path, entries: u64) -> Result<PathBuf, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let hardware =
        pinfold_hardware::open("2 sockets, 16 cores, smt2").map_err(|error| failed(&error))?;
    let (machine, _) = hardware
        .machine_within_reach()
        .map_err(|error| failed(&error))?;
    let settings = Settings {
        topology_policy: "single-numa-node".parse().map_err(|_| "a policy")?,
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some("2".parse().map_err(|_| "a quantity")?),
        ..Settings::default()
    };
    let rules = Arc::new(Rules::new(machine.into(), settings).map_err(|error| failed(&error))?);
    let mut ledger = Ledger::new(rules.clone());
    let limits = JournalLimits {
        entries: 1 << 20,
        bytes: 1 << 30,
    };
    let (mut journal, _) = Journal::open(folder, limits).map_err(|error| failed(&error))?;
    let snapshot = JournalSnapshot {
        number: 0,
        machine: rules.machine().clone(),
        settings: rules.settings().clone(),
        state: ledger.state().clone(),
        records: Default::default(),
    };
    journal
        .write_first_snapshot(snapshot)
        .map_err(|error| failed(&error))?;
    journal.begin_batch();
    let mut resident: Vec<Arc<Pod>> = Vec::new();
    let mut seed = 7_u64;
    for number in 1..=entries {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let chance = seed >> 33;
        let seconds = i64::try_from(number).map_err(|error| failed(&error))? * 13 + 1_767_225_600;
        let time = Timestamp::constant(seconds, 0);
        let mut entry = JournalEntry {
            number,
            time,
            event: JournalEvent::RulesChanged,
            pod_name: String::new(),
            message: String::new(),
            change: None,
            record: None,
            pod: None,
            decision: None,
        };
        if resident.len() > 6 || (!resident.is_empty() && chance.is_multiple_of(5)) {
            let index = usize::try_from(chance / 5).unwrap_or(0) % resident.len();
            let pod = resident.swap_remove(index);
            let change = ledger.release(&pod.uid).map_err(|error| failed(&error))?;
            entry.event = JournalEvent::Released(pod.uid.clone());
            entry.pod_name.clone_from(&pod.name);
            entry.message = "released".to_owned();
            entry.change = Some(change);
        } else {
            let hostile = HOSTILE[usize::try_from(number).unwrap_or(0) % HOSTILE.len()];
            let name = match number % 50 {
                0 => hostile.to_owned(),
                _ => format!("shop/pod-{number}"),
            };
            let pod = pod(number, &name, 1 + chance % 14)?;
            let admission = ledger
                .admit(&pod, &mut NoPreference)
                .map_err(|error| failed(&error))?;
            entry.pod_name = name;
            entry.change = admission.change;
            match &admission.decision.result {
                AdmissionResult::Admitted(_) => {
                    entry.event = JournalEvent::Admitted(pod.uid.clone());
                    entry.message = "admitted".to_owned();
                    resident.push(pod);
                }
                AdmissionResult::Rejected(rejection) => {
                    entry.event = JournalEvent::Rejected(pod.uid.clone());
                    entry.message.clone_from(&rejection.message);
                    entry.decision = serde_json::to_value(&admission.decision).ok();
                    entry.pod = Some(pod);
                }
            }
        }
        journal.write(entry).map_err(|error| failed(&error))?;
    }
    journal.end_batch().map_err(|error| failed(&error))?;
    Ok(folder.join(FILE))
}

fn pod(number: u64, name: &str, cpus: u64) -> Result<Arc<Pod>, String> {
    let amounts = json!({"cpu": cpus.to_string(), "memory": "64Mi"});
    let amounts = || serde_json::from_value(amounts.clone()).map_err(|error| error.to_string());
    Ok(Arc::new(Pod {
        uid: format!("uid-{number}").into(),
        name: name.to_owned(),
        containers: vec![Container {
            name: "main".into(),
            requests: amounts()?,
            limits: amounts()?,
            ..Container::default()
        }],
        ..Pod::default()
    }))
}

/// This many nodes with two NUMA nodes each, in two zones, and pods whose messages are full of markup.
pub(super) fn nodes(count: usize) -> String {
    let mut items = String::new();
    for number in 0..count {
        let name = format!("node-{number:04}");
        let zone = if number % 2 == 0 { "a" } else { "b" };
        let free = [number * 7 % 31, number * 13 % 31];
        let zones = [0, 1].map(|numa| {
            json!({"name": format!("node-{numa}"), "type": "Node", "resources": [
                {"name": "cpu", "capacity": "32", "allocatable": "30", "available": free[numa].to_string()},
                {"name": "memory", "capacity": "64Gi", "allocatable": "62Gi", "available": format!("{}Gi", free[1 - numa] * 2)},
            ]})
        });
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"zone": zone}, "annotations": {"note": HOSTILE[number % HOSTILE.len()]}},
            "status": {
                "allocatable": {"cpu": "60", "memory": "124Gi", "pods": "110"},
                "nodeInfo": {"kubeletVersion": if number % 5 == 0 { "v1.34.2" } else { "v1.36.4" }},
            },
        });
        let topology = json!({
            "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": name},
            "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}, {"name": "topologyManagerScope", "value": "container"}],
            "zones": zones,
        });
        let _ = write!(
            items,
            "{}{node},{topology}",
            if number == 0 { "" } else { "," }
        );
    }
    for (index, hostile) in HOSTILE.iter().enumerate() {
        let pod = |name: String, node: Value, status: Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name},
                "spec": {"nodeName": node, "containers": [{"name": "main"}]}, "status": status,
            })
        };
        let unscheduled = json!([{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": hostile,
        }]);
        let pending = pod(
            format!("pending-{index}"),
            Value::Null,
            json!({"phase": "Pending", "conditions": unscheduled}),
        );
        let rejected = pod(
            format!("rejected-{index}"),
            json!("node-0001"),
            json!({
                "phase": "Failed", "reason": "TopologyAffinityError", "message": hostile,
                "startTime": "2026-01-01T00:00:00Z",
            }),
        );
        let _ = write!(items, ",{pending},{rejected}");
    }
    format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{items}]}}")
}
