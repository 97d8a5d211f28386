//! Every check with a cluster that makes it fire, and one in which none does.

use std::collections::BTreeSet;

use pinfold_kube::api_object::ApiObject;
use serde_json::{Value, json};

use super::evidence::Evidence;
use super::finding::Severity;
use super::{CHECKS, DoctorReport, examine, text};

const NOW: &str = "2026-03-01T12:00:00Z";

/// The objects of a cluster in which nothing is wrong: one node with an agent in mode mirror, and one pinned pod.
struct Played {
    node: Value,
    report: Value,
    pods: Vec<Value>,
    definitions: Vec<Value>,
    events: Vec<Value>,
}

/// The state of the node as the agent publishes it.
fn state(fidelity: &str, cpus: &str) -> String {
    let pod = match cpus.is_empty() {
        true => json!({"uid": "u1"}),
        false => json!({"uid": "u1", "cpus": cpus}),
    };
    json!({"dialect": "kubelet", "fidelity": fidelity, "pods": [pod]}).to_string()
}

fn attributes(topology: &str, cpu: &str, memory: &str) -> Value {
    json!([
        {"name": "topologyManagerPolicy", "value": topology},
        {"name": "topologyManagerScope", "value": "container"},
        {"name": "cpuManagerPolicy", "value": cpu},
        {"name": "memoryManagerPolicy", "value": memory},
    ])
}

fn written_by(manager: &str) -> Value {
    json!({"manager": manager, "time": "2026-03-01T11:59:00Z", "fieldsV1": {"f:zones": {}}})
}

fn definition(version: &str, schema: &Value) -> Value {
    json!({
        "metadata": {"name": "noderesourcetopologies.topology.node.k8s.io"},
        "spec": {"versions": [{"name": version, "served": true, "schema": {"openAPIV3Schema": schema}}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    })
}

fn event(reason: &str, kind: &str, name: &str, at: &str) -> Value {
    json!({
        "metadata": {"name": "e", "namespace": "ml"}, "reason": reason, "message": "said so",
        "involvedObject": {"kind": kind, "name": name, "namespace": "ml"}, "lastTimestamp": at,
        "source": {"component": "pinfold-agent", "host": "n1"},
    })
}

fn pod(name: &str, image: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ml", "uid": name, "creationTimestamp": "2026-03-01T11:30:00Z"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": image}]},
        "status": {"phase": "Running", "startTime": "2026-03-01T11:30:00Z"},
    })
}

impl Played {
    fn healthy() -> Self {
        let mut guaranteed = pod("a", "example.com/web:1");
        guaranteed["metadata"]["uid"] = json!("u1");
        let limits = json!({"cpu": "2", "memory": "1Gi"});
        guaranteed["spec"]["containers"][0]["resources"] = json!({"limits": limits});
        Self {
            node: json!({
                "metadata": {"name": "n1"},
                "status": {
                    "nodeInfo": {
                        "kubeletVersion": "v1.36.4", "containerRuntimeVersion": "containerd://2.1.0",
                        "operatingSystem": "linux",
                    },
                    "conditions": [{
                        "type": "PinfoldReady", "status": "True", "reason": "AgentReady",
                        "lastHeartbeatTime": "2026-03-01T11:58:00Z",
                    }],
                },
            }),
            report: json!({
                "metadata": {
                    "name": "n1", "annotations": {"pinfold.dev/node-state": state("exact", "2-3")},
                    "managedFields": [written_by("pinfold-agent")],
                },
                "attributes": attributes("single-numa-node", "static", "Static"),
                "zones": [{"name": "node-0", "type": "Node", "resources": [
                    {"name": "cpu", "capacity": "8", "allocatable": "8", "available": "6"},
                ]}],
            }),
            pods: vec![guaranteed],
            definitions: vec![definition(
                "v1alpha2",
                &json!({"properties": {"attributes": {}}}),
            )],
            events: Vec::new(),
        }
    }

    fn examined(&self) -> DoctorReport {
        let mut evidence = Evidence {
            now: NOW.parse().expect("a time"),
            definitions: Some(std::collections::BTreeMap::default()),
            ..Evidence::default()
        };
        let topology = "topology.node.k8s.io/v1alpha2";
        let lists = [
            ("Node", "v1", std::slice::from_ref(&self.node)),
            (
                "NodeResourceTopology",
                topology,
                std::slice::from_ref(&self.report),
            ),
            ("Pod", "v1", &self.pods),
            (
                "CustomResourceDefinition",
                "apiextensions.k8s.io/v1",
                &self.definitions,
            ),
            ("Event", "v1", &self.events),
        ];
        for (kind, version, objects) in lists {
            for object in objects.iter().filter(|object| !object.is_null()) {
                let parsed = ApiObject::parse(kind, version, &object.to_string());
                evidence.add(&parsed.expect("an object").document, object);
            }
        }
        examine(evidence)
    }

    /// Pins by the agent instead of the kubelet.
    fn manage(&mut self) {
        let annotations = &mut self.report["metadata"]["annotations"];
        annotations["pinfold.dev/node-state"] = json!(state("sound", "2-3"));
    }

    fn condition(&mut self) -> &mut Value {
        &mut self.node["status"]["conditions"][0]
    }
}

/// A check, the change of a healthy cluster that makes it fire, and how bad it is.
type Case = (&'static str, Severity, fn(&mut Played));

const CASES: &[Case] = &[
    ("two-managers", Severity::Error, |cluster| {
        cluster.pods.push(pod(
            "koordlet-x",
            "example.com/koordinator-sh/koordlet:v1.8.0",
        ));
        cluster.manage();
    }),
    ("two-managers", Severity::Error, |cluster| {
        cluster.pods.push(pod(
            "balloons",
            "example.com/nri-plugins/nri-resource-policy-balloons:v1",
        ));
    }),
    ("two-managers", Severity::Error, |cluster| {
        cluster
            .pods
            .push(pod("dra", "example.com/dra-driver-cpu/dracpu:v1"));
    }),
    ("two-managers", Severity::Error, |cluster| {
        cluster.manage();
        let annotations = &mut cluster.report["metadata"]["annotations"];
        annotations["kubelet.koordinator.sh/cpu-manager-policy"] =
            json!("{\"policy\": \"static\"}");
    }),
    ("not-pinned", Severity::Error, |cluster| {
        let annotations = &mut cluster.report["metadata"]["annotations"];
        annotations["pinfold.dev/node-state"] = json!(state("exact", ""));
    }),
    ("not-pinned", Severity::Error, |cluster| {
        cluster
            .events
            .push(event("StartedUnpinned", "Pod", "a", "2026-03-01T11:30:00Z"));
    }),
    ("not-pinned", Severity::Error, |cluster| {
        cluster
            .events
            .push(event("CPUsNotApplied", "Pod", "a", "2026-03-01T11:30:00Z"));
    }),
    ("cpus-differ", Severity::Warning, |cluster| {
        cluster.pods[0]["metadata"]["annotations"] =
            json!({"scheduling.koordinator.sh/resource-status": "{\"cpuset\": \"4-5\"}"});
    }),
    ("runtime-disconnected", Severity::Error, |cluster| {
        cluster.condition()["status"] = json!("False");
        cluster.condition()["reason"] = json!("RuntimeDisconnected");
    }),
    ("runtime-disconnected", Severity::Error, |cluster| {
        cluster.node["status"]["conditions"] = json!([]);
        cluster.events.push(event(
            "RuntimeDisconnected",
            "Node",
            "n1",
            "2026-03-01T11:59:00Z",
        ));
    }),
    ("agent-not-ready", Severity::Error, |cluster| {
        cluster.condition()["status"] = json!("False");
        cluster.condition()["reason"] = json!("JournalWriteFailed");
    }),
    ("agent-not-ready", Severity::Error, |cluster| {
        let mut agent = pod("agent-x", "example.com/pinfold-agent:1");
        agent["metadata"]["labels"] = json!({"app": "pinfold-agent"});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        agent["status"]["containerStatuses"] = json!([{"name": "agent", "state": waiting}]);
        cluster.pods.push(agent);
    }),
    ("agent-silent", Severity::Error, |cluster| {
        cluster.condition()["lastHeartbeatTime"] = json!("2026-03-01T11:44:59Z");
    }),
    ("agent-missing", Severity::Warning, |cluster| {
        cluster.report = Value::Null;
    }),
    ("report-stale", Severity::Error, |cluster| {
        cluster.pods[0]["metadata"]["uid"] = json!("u2");
    }),
    ("report-stale", Severity::Error, |cluster| {
        // A report that lists no pods, written before the pod started.
        cluster.report["metadata"]["annotations"] = json!({});
        cluster.report["metadata"]["managedFields"][0]["time"] = json!("2026-03-01T11:00:00Z");
    }),
    ("report-orphaned", Severity::Warning, |cluster| {
        cluster.report["metadata"]["name"] = json!("n2");
        cluster.node["metadata"]["labels"] = json!({"pinfold.dev/dialect": "unknown"});
    }),
    ("report-invalid", Severity::Error, |cluster| {
        cluster.report["zones"][0]["resources"][0]["capacity"] = json!("many");
    }),
    ("other-writer", Severity::Error, |cluster| {
        cluster.report["metadata"]["managedFields"] =
            json!([written_by("pinfold-agent"), written_by("koordlet")]);
    }),
    ("other-writer", Severity::Info, |cluster| {
        cluster.report["metadata"]["annotations"] = json!({});
        cluster.report["metadata"]["managedFields"] = json!([written_by("nfd-topology-updater")]);
    }),
    ("other-writer", Severity::Error, |cluster| {
        cluster
            .events
            .push(event("OtherWriter", "Node", "n1", "2026-03-01T11:30:00Z"));
    }),
    ("definition", Severity::Error, |cluster| {
        cluster.definitions.clear();
    }),
    ("definition", Severity::Error, |cluster| {
        cluster.definitions[0]["status"]["conditions"][0]["status"] = json!("False");
    }),
    ("definition", Severity::Warning, |cluster| {
        cluster.definitions[0] = definition("v1alpha1", &json!({}));
    }),
    ("definition", Severity::Warning, |cluster| {
        cluster.definitions[0] = definition("v1alpha2", &json!({"properties": {"zones": {}}}));
    }),
    ("rejected-pods", Severity::Warning, |cluster| {
        let mut rejected = pod("b", "example.com/web:1");
        rejected["status"] =
            json!({"phase": "Failed", "reason": "TopologyAffinityError", "message": "why"});
        cluster.pods.push(rejected);
    }),
    ("prediction-failed", Severity::Warning, |cluster| {
        let mut rejected = pod("b", "example.com/web:1");
        rejected["spec"]["schedulerName"] = json!("pinfold");
        rejected["status"] =
            json!({"phase": "Failed", "reason": "TopologyAffinityError", "message": "why"});
        cluster.pods.push(rejected);
    }),
    ("rejected-pods", Severity::Warning, |cluster| {
        cluster
            .events
            .push(event("PinfoldRejected", "Pod", "b", "2026-03-01T11:30:00Z"));
    }),
    ("rejected-pods", Severity::Warning, |cluster| {
        cluster
            .events
            .push(event("NodeWillReject", "Pod", "a", "2026-03-01T11:30:00Z"));
    }),
    ("kubelet-policies", Severity::Warning, |cluster| {
        cluster.report["attributes"] = attributes("none", "static", "None");
    }),
    ("takeover", Severity::Info, |cluster| {
        cluster.manage();
        let annotations = &mut cluster.report["metadata"]["annotations"];
        let pod = json!([{"namespace": "ml", "name": "a", "uid": "u1", "cpuset": "2-3", "managedByKubelet": true}]);
        annotations["node.koordinator.sh/pod-cpu-allocs"] = json!(pod.to_string());
    }),
    ("runtime-version", Severity::Info, |cluster| {
        cluster.node["status"]["nodeInfo"]["containerRuntimeVersion"] =
            json!("containerd://1.7.24");
    }),
    ("runtime-version", Severity::Warning, |cluster| {
        cluster.manage();
        cluster.node["status"]["nodeInfo"]["containerRuntimeVersion"] =
            json!("containerd://1.6.20");
    }),
    ("kubelet-version", Severity::Info, |cluster| {
        cluster.node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.99.0");
    }),
    ("kubelet-version", Severity::Info, |cluster| {
        cluster.node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.28.9");
    }),
];

#[test]
fn in_a_healthy_cluster_only_the_policies_are_described() {
    let report = Played::healthy().examined();
    let found: Vec<&str> = report
        .findings
        .iter()
        .map(|finding| finding.check)
        .collect();
    assert_eq!(found, ["kubelet-policies"], "{:?}", report.findings);
    assert_eq!((report.errors, report.warnings), (0, 0));
    assert!(text(&report).starts_with("1 node: nothing is wrong.\n"));
}

#[test]
fn every_check_fires_alone_on_what_it_is_about() {
    let mut fired = BTreeSet::new();
    for (index, (check, severity, change)) in CASES.iter().enumerate() {
        let mut cluster = Played::healthy();
        change(&mut cluster);
        let report = cluster.examined();
        let others = report
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::Info && finding.check != *check);
        assert_eq!(
            others.count(),
            0,
            "case {index}, {check}: {:?}",
            report.findings
        );
        let own = report
            .findings
            .iter()
            .find(|finding| finding.check == *check);
        let own = own.unwrap_or_else(|| panic!("case {index}: {check}: {:?}", report.findings));
        assert_eq!(own.severity, *severity, "case {index}: {own:?}");
        assert!(
            *severity == Severity::Info || !own.remedy.is_empty(),
            "{own:?}"
        );
        fired.insert(*check);
    }
    let all: BTreeSet<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    assert_eq!(fired, all);
}

#[test]
fn what_happened_more_than_an_hour_ago_is_no_finding() {
    let mut cluster = Played::healthy();
    for reason in ["StartedUnpinned", "PinfoldRejected"] {
        cluster
            .events
            .push(event(reason, "Pod", "a", "2026-03-01T10:59:59Z"));
    }
    let mut rejected = pod("b", "example.com/web:1");
    rejected["status"] =
        json!({"phase": "Failed", "reason": "OutOfcpu", "startTime": "2026-03-01T10:00:00Z"});
    cluster.pods.push(rejected);
    let report = cluster.examined();
    assert_eq!(report.errors + report.warnings, 0, "{:?}", report.findings);
}

#[test]
fn a_node_that_is_taken_over_and_one_with_koordlet_beside_the_kubelet_have_one_manager() {
    let mut cluster = Played::healthy();
    cluster
        .pods
        .push(pod("koordlet-x", "example.com/koordlet:v1.8.0"));
    let report = cluster.examined();
    assert_eq!(report.errors, 0, "{:?}", report.findings);
}

#[test]
fn a_pod_that_opted_out_may_run_on_shared_cpus() {
    let mut cluster = Played::healthy();
    cluster.report["metadata"]["annotations"]["pinfold.dev/node-state"] = json!(state("exact", ""));
    cluster.pods[0]["metadata"]["annotations"] = json!({"pinfold.dev/pin": "false"});
    assert_eq!(cluster.examined().errors, 0);
}

#[test]
fn nodes_with_the_same_problem_share_a_finding() {
    let mut found = super::finding::Grouped::default();
    for node in ["n2", "n1", "n2"] {
        found.node(Severity::Error, node, "broken".to_owned(), "mend it");
    }
    let found = found.finish();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].nodes, ["n1", "n2"]);
}

#[test]
fn the_worst_finding_comes_first_and_every_line_fits_80_columns() {
    let mut cluster = Played::healthy();
    cluster.node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.30.2");
    cluster.condition()["lastHeartbeatTime"] = json!("2026-03-01T11:00:00Z");
    cluster.report["attributes"] = attributes("none", "static", "None");
    let report = cluster.examined();
    let order: Vec<Severity> = report
        .findings
        .iter()
        .map(|finding| finding.severity)
        .collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!((report.errors, report.warnings), (1, 1));
    let text = text(&report);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}
