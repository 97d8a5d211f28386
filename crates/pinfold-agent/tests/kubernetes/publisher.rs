//! Publishing the objects of the node.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_agent::kubernetes::{
    CustomResource, CustomResourceReport, GENERATION, OtherWriterPolicy, PodSetFingerprint,
    SyncEvent, Timing,
};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::PodUid;
use pinfold_core::occupancy::Occupancy;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::Settings;
use pinfold_core::settings::TopologyScope;
use pinfold_kube::koordinator::ReportAnnotations;
use pinfold_kube::pod_fingerprint::{ExclusiveKinds, FingerprintMethod, fingerprint};
use pinfold_kube::{koordinator, node_resource_topology, volcano};
use serde_json::{Value, json};

use super::server::{Answer, Asked, Server, status};
use super::{connect, connect_with, eventually, logged, quick};

const TOPOLOGY: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/worker-1";
const NUMA: &str = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies/worker-1";

/// A fake API server with the resources that the publisher uses.
#[derive(Default)]
struct Cluster {
    objects: BTreeMap<String, Value>,
    groups: BTreeMap<&'static str, Vec<&'static str>>,
    version: u64,
    /// Faults of the next writes.
    faults: VecDeque<Fault>,
    /// Watches of lists, by path.
    watches: Vec<(String, Sender<String>)>,
    /// Fields of Numatopology specs that the definition lacks.
    pruned: Vec<&'static str>,
}

enum Fault {
    Answer(u16),
    /// Another client changes the object first.
    Overtaken,
    /// The object is written, and the response is lost.
    Lost,
}

impl Cluster {
    fn with(groups: &[(&'static str, &[&'static str])]) -> Arc<Mutex<Self>> {
        let mut cluster = Self::default();
        cluster.put(
            "/api/v1/nodes/worker-1",
            json!({ "metadata": { "uid": "node-uid" } }),
        );
        cluster.groups = groups
            .iter()
            .map(|(group, versions)| (*group, versions.to_vec()))
            .collect();
        Arc::new(Mutex::new(cluster))
    }

    fn both() -> Arc<Mutex<Self>> {
        Self::with(&[
            ("topology.node.k8s.io", &["v1alpha1", "v1alpha2"]),
            ("nodeinfo.volcano.sh", &["v1alpha1"]),
        ])
    }

    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        self.send("MODIFIED", path, &object);
        object
    }

    /// Another client writes the object as this manager.
    fn put_as(&mut self, manager: &str, path: &str, mut object: Value) {
        let at = format!("2026-11-17T10:00:{:02}Z", self.version);
        let fields = json!({ "f:zones": {}, "f:topologyPolicies": {} });
        object["metadata"]["managedFields"] = json!([
            { "manager": "pinfold-agent", "time": "2026-11-17T10:00:00Z", "fieldsV1": { "f:attributes": {} } },
            { "manager": manager, "time": at, "fieldsV1": fields },
        ]);
        self.put(path, object);
    }

    fn remove(&mut self, path: &str) {
        self.version += 1;
        if let Some(object) = self.objects.remove(path) {
            self.send("DELETED", path, &object);
        }
    }

    fn send(&mut self, kind: &str, path: &str, object: &Value) {
        let event = json!({ "type": kind, "object": object }).to_string();
        let list = path.rsplit_once('/').map_or(path, |(list, _)| list);
        self.watches
            .retain(|(watched, lines)| watched != list || lines.send(event.clone()).is_ok());
    }

    /// A list of the object that the field selector names, or a watch of it.
    fn list(&mut self, asked: &Asked) -> Answer {
        let group = asked.path.split('/').nth(2).unwrap_or_default();
        if asked.path.starts_with("/apis/") && !self.groups.contains_key(group) {
            return Answer::Text(404, "404 page not found".to_owned());
        }
        if asked.query.contains("watch=1") {
            let (sender, lines) = channel();
            self.watches.push((asked.path.clone(), sender));
            return Answer::Lines(lines);
        }
        let object = self.objects.get(&format!("{}/worker-1", asked.path));
        let items: Vec<&Value> = object.into_iter().collect();
        let version = self.version.to_string();
        Answer::Json(
            200,
            json!({ "metadata": { "resourceVersion": version }, "items": items }),
        )
    }

    fn answer(&mut self, asked: &Asked) -> Answer {
        if asked.path == "/api/v1/pods" {
            return Answer::Never;
        }
        if let Some(group) = asked
            .path
            .strip_prefix("/apis/")
            .filter(|rest| !rest.contains('/'))
        {
            return match self.groups.get(group) {
                None => Answer::Text(404, "404 page not found".to_owned()),
                Some(versions) => {
                    let versions: Vec<Value> = versions
                        .iter()
                        .map(|version| json!({ "version": version }))
                        .collect();
                    Answer::Json(200, json!({ "kind": "APIGroup", "versions": versions }))
                }
            };
        }
        if asked.query.contains("fieldSelector=metadata.name") {
            return self.list(asked);
        }
        if asked.method == "GET" {
            return match self.objects.get(&asked.path) {
                Some(object) => Answer::Json(200, object.clone()),
                None => status(404, "not found"),
            };
        }
        if asked.query.contains("dryRun=All") {
            let before = (self.version, self.objects.clone());
            let watches = std::mem::take(&mut self.watches);
            let answer = self.write(asked);
            (self.version, self.objects) = before;
            self.watches = watches;
            return answer;
        }
        let lost = match self.faults.pop_front() {
            Some(Fault::Answer(code)) => return status(code, "a fault"),
            Some(Fault::Overtaken) => {
                let mut object = self
                    .objects
                    .get(&asked.path)
                    .cloned()
                    .unwrap_or_else(|| json!({ "metadata": {} }));
                object["metadata"]["annotations"]["theirs"] = "first".into();
                let path = match asked.method.as_str() {
                    "POST" => format!("{}/worker-1", asked.path),
                    _ => asked.path.clone(),
                };
                self.put(&path, object);
                false
            }
            Some(Fault::Lost) => true,
            None => false,
        };
        let answer = self.write(asked);
        match lost {
            true => Answer::Text(200, String::new()),
            false => answer,
        }
    }

    fn write(&mut self, asked: &Asked) -> Answer {
        if asked.method == "POST" {
            let path = format!(
                "{}/{}",
                asked.path,
                asked.body["metadata"]["name"].as_str().unwrap()
            );
            return match self.objects.contains_key(&path) {
                true => status(409, "already exists"),
                false => {
                    let object = self.stored(asked.body.clone());
                    Answer::Json(201, self.put(&path, object))
                }
            };
        }
        assert_eq!(asked.content_type, "application/merge-patch+json");
        let Some(there) = self.objects.get(&asked.path) else {
            return status(404, "not found");
        };
        if asked.body["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"] {
            return status(409, "the object has been modified");
        }
        let mut object = self.stored(patched(there, &asked.body));
        if let Some(managers) = object["metadata"]["managedFields"].as_array_mut() {
            managers.retain(|manager| manager["manager"] == "pinfold-agent");
        }
        Answer::Json(200, self.put(&asked.path, object))
    }

    /// The object without the fields that its definition lacks.
    fn stored(&self, mut object: Value) -> Value {
        if let Some(spec) = object["spec"].as_object_mut() {
            for field in &self.pruned {
                spec.remove(*field);
            }
        }
        object
    }
}

fn patched(target: &Value, patch: &Value) -> Value {
    let Some(changes) = patch.as_object() else {
        return patch.clone();
    };
    let mut members = target.as_object().cloned().unwrap_or_default();
    for (key, change) in changes {
        match change {
            Value::Null => drop(members.remove(key)),
            change => {
                let before = members.get(key).cloned().unwrap_or_default();
                members.insert(key.clone(), patched(&before, change));
            }
        }
    }
    Value::Object(members)
}

fn serve(cluster: &Arc<Mutex<Cluster>>) -> Server {
    let cluster = Arc::clone(cluster);
    Server::start(move |asked| cluster.lock().unwrap().answer(asked))
}

fn settings() -> Settings {
    Settings {
        topology_policy: TopologyPolicy::Restricted,
        topology_scope: TopologyScope::Pod,
        ..Settings::default()
    }
}

/// The report of a node with eight CPUs, of which these are the shared pool.
fn report(generation: u64, shared: &str) -> CustomResourceReport {
    let hardware = pinfold_hardware::open("2 sockets, 4 cores").unwrap();
    let (machine, _) = hardware.machine_within_reach().unwrap();
    let machine = &machine;
    let occupancy = Occupancy {
        shared: CpuSet::parse(shared).unwrap(),
        ..Occupancy::default()
    };
    let topology = node_resource_topology::publish("worker-1", machine, &occupancy, &settings());
    let facts = ReportAnnotations::of(machine, &settings(), CpuSet::new());
    let numa = volcano::publish("worker-1", machine, &occupancy, &settings(), Vec::new());
    CustomResourceReport {
        generation,
        objects: vec![
            CustomResource::topology(&koordinator::publish(&topology, &facts)),
            CustomResource::numatopology(&numa),
        ],
        pods: None,
    }
}

fn object(cluster: &Arc<Mutex<Cluster>>, path: &str) -> Value {
    let cluster = cluster.lock().unwrap();
    cluster.objects.get(path).cloned().unwrap_or_default()
}

fn generation(cluster: &Arc<Mutex<Cluster>>, path: &str) -> Value {
    object(cluster, path)["metadata"]["annotations"][GENERATION].clone()
}

/// The requests except lists, watches and dry runs.
fn requests(server: &Server) -> Vec<Asked> {
    let mut asked = server.asked();
    asked.retain(|asked| !asked.query.contains("fieldSelector") && !asked.query.contains("dryRun"));
    asked
}

fn written(server: &Server) -> usize {
    let asked = requests(server).into_iter();
    asked.filter(|asked| asked.method != "GET").count()
}

#[test]
fn the_node_is_known_before_the_first_report_and_followed() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    let (client, _) = connect(&server, quick());
    let node = client.node();
    assert!(node.wait(Duration::from_secs(60)), "without a report");
    let (first, there) = node.wait_for_change(0);
    assert!(there.settings.annotations.reservation.cpus.is_empty());
    let reserving = json!({ "metadata": { "uid": "node-uid", "name": "worker-1", "annotations": {
        "node.koordinator.sh/reservation": "{\"reservedCPUs\":\"2-3\"}",
    } } });
    eventually("the watch runs", || {
        let cluster = cluster.lock().unwrap();
        cluster
            .watches
            .iter()
            .any(|(list, _)| list == "/api/v1/nodes")
    });
    cluster
        .lock()
        .unwrap()
        .put("/api/v1/nodes/worker-1", reserving);
    let (_, changed) = node.wait_for_change(first);
    let reserved = changed.settings.annotations.reservation.cpus;
    assert_eq!(reserved.to_string(), "2-3");
}

#[test]
fn an_agent_that_may_not_read_its_node_does_not_wait_for_it() {
    let server = Server::start(|_| status(403, "forbidden"));
    let (client, log) = connect(&server, quick());
    assert!(client.node().wait(Duration::from_secs(60)));
    logged(&log, "it is logged with a hint", |event| {
        matches!(event, SyncEvent::NodeWatchFailed { .. })
            && event.to_string().contains("rbac.yaml")
    });
}

#[test]
fn objects_are_created_with_the_node_as_owner_and_the_journal_generation() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    let (client, _) = connect(&server, quick());
    client.publisher().publish(report(7, "0-7"));
    eventually("both are there", || generation(&cluster, NUMA) == "7");
    let topology = object(&cluster, TOPOLOGY);
    let meta = &topology["metadata"];
    assert_eq!(meta["annotations"][GENERATION], "7");
    assert_eq!(meta["ownerReferences"][0]["uid"], "node-uid");
    assert_eq!(
        meta["labels"]["app.kubernetes.io/managed-by"],
        "Koordinator"
    );
    assert!(meta["annotations"]["node.koordinator.sh/cpu-topology"].is_string());
    // One object serves the readers of both versions.
    assert_eq!(topology["apiVersion"], "topology.node.k8s.io/v1alpha2");
    assert_eq!(topology["topologyPolicies"], json!(["RestrictedPodLevel"]));
    assert_eq!(
        topology["attributes"][0],
        json!({ "name": "topologyManagerPolicy", "value": "restricted" })
    );
    assert_eq!(topology["zones"].as_array().unwrap().len(), 2);
    assert_eq!(
        object(&cluster, NUMA)["spec"]["numares"]["cpu"]["allocatable"],
        "0-7"
    );
}

#[test]
fn an_unchanged_report_sends_nothing_and_a_changed_one_sends_only_the_changes() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    let (client, _) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    eventually("both are there", || generation(&cluster, NUMA) == "1");
    let before = requests(&server).len();
    for number in 2..20 {
        client.publisher().publish(report(number, "0-7"));
    }
    client.publisher().publish(report(20, "2-7"));
    eventually("the change is there", || generation(&cluster, NUMA) == "20");
    let asked = requests(&server).split_off(before);
    let methods: Vec<&str> = asked.iter().map(|asked| asked.method.as_str()).collect();
    assert_eq!(methods, ["PATCH", "PATCH"], "one request for each object");
    let patch = &asked[1].body;
    assert_eq!(
        patch["spec"],
        json!({ "numares": { "cpu": { "allocatable": "2-7" } } })
    );
    assert!(patch["metadata"].get("labels").is_none());
}

#[test]
fn a_restarted_agent_does_not_rewrite_unchanged_objects() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    let (first, _) = connect(&server, quick());
    first.publisher().publish(report(1, "0-7"));
    eventually("both are there", || generation(&cluster, NUMA) == "1");
    drop(first);
    let (second, _) = connect(&server, quick());
    second.publisher().publish(report(5, "0-7"));
    eventually("both were looked at", || {
        second.counts().unchanged.get() == 2
    });
    assert_eq!(written(&server), 2);
    assert_eq!(generation(&cluster, TOPOLOGY), "1");
}

#[test]
fn changes_by_others_to_owned_fields_are_reverted_and_other_fields_are_kept() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    // No periodic check within the test: the watch shows the changes.
    let (client, _) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    eventually("it is there", || generation(&cluster, TOPOLOGY) == "1");
    let gpu =
        json!({ "name": "example.com/gpu", "capacity": "1", "allocatable": "1", "available": "1" });
    let mut changed = object(&cluster, TOPOLOGY);
    changed["zones"][0]["resources"]
        .as_array_mut()
        .unwrap()
        .push(gpu.clone());
    changed["zones"][1]["resources"] = json!([]);
    changed["metadata"]["labels"]["theirs"] = "x".into();
    cluster.lock().unwrap().put(TOPOLOGY, changed);
    eventually("our resources are back", || {
        let resources = object(&cluster, TOPOLOGY)["zones"][1]["resources"].clone();
        resources.as_array().is_some_and(|all| !all.is_empty())
    });
    let now = object(&cluster, TOPOLOGY);
    assert!(
        now["zones"][0]["resources"]
            .as_array()
            .unwrap()
            .contains(&gpu)
    );
    assert_eq!(now["metadata"]["labels"]["theirs"], "x");
    cluster.lock().unwrap().remove(TOPOLOGY);
    eventually("a deleted object is made anew", || {
        generation(&cluster, TOPOLOGY) == "1"
    });
}

#[test]
fn a_conflicting_write_is_retried_with_the_new_resource_version() {
    let cluster = Cluster::both();
    cluster.lock().unwrap().faults.extend([Fault::Overtaken]);
    let server = serve(&cluster);
    let (client, _) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    eventually("created in spite of it", || {
        generation(&cluster, TOPOLOGY) == "1"
    });
    eventually("both are there", || generation(&cluster, NUMA) == "1");
    cluster
        .lock()
        .unwrap()
        .faults
        .extend([Fault::Overtaken, Fault::Overtaken]);
    client.publisher().publish(report(2, "4-7"));
    eventually("changed in spite of it", || {
        generation(&cluster, TOPOLOGY) == "2"
    });
    assert_eq!(
        object(&cluster, TOPOLOGY)["metadata"]["annotations"]["theirs"],
        "first"
    );
}

#[test]
fn after_server_errors_the_latest_report_is_written() {
    let cluster = Cluster::both();
    let faults = [500, 503, 429, 409, 409, 409, 409].map(Fault::Answer);
    cluster.lock().unwrap().faults.extend(faults);
    cluster.lock().unwrap().faults.push_back(Fault::Lost);
    let server = serve(&cluster);
    let (client, log) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    client.publisher().publish(report(2, "6-7"));
    eventually("the latest is there", || {
        object(&cluster, NUMA)["spec"]["numares"]["cpu"]["allocatable"] == "6-7"
    });
    eventually("both are", || !object(&cluster, TOPOLOGY).is_null());
    logged(&log, "the error is logged", |event| {
        matches!(event, SyncEvent::PublishFailed { .. })
    });
}

#[test]
fn a_report_is_stale_until_the_server_has_it_or_does_not_serve_its_objects() {
    let cluster = Cluster::with(&[("topology.node.k8s.io", &["v1alpha1", "v1alpha2"])]);
    let server = serve(&cluster);
    cluster.lock().unwrap().faults = (0..3).map(|_| Fault::Answer(500)).collect();
    let (client, log) = connect(&server, quick());
    let publisher = client.publisher();
    assert_eq!(publisher.stale_for(), Duration::ZERO, "no report yet");
    publisher.publish(report(1, "0-3"));
    logged(&log, "a write fails", |event| {
        matches!(event, SyncEvent::PublishFailed { .. })
    });
    assert!(publisher.stale_for() > Duration::ZERO);
    // Volcano's object is not served here, which makes no report stale.
    eventually("it is written", || {
        publisher.stale_for() == Duration::ZERO && generation(&cluster, TOPOLOGY) == "1"
    });
}

#[test]
fn an_object_is_written_in_the_older_version_if_only_that_is_served() {
    let cluster = Cluster::with(&[("topology.node.k8s.io", &["v1alpha1"])]);
    let server = serve(&cluster);
    let (client, log) = connect(&server, quick());
    client.publisher().publish(report(3, "0-7"));
    let path = TOPOLOGY.replace("v1alpha2", "v1alpha1");
    eventually("it is there", || generation(&cluster, &path) == "3");
    let topology = object(&cluster, &path);
    assert_eq!(topology["apiVersion"], "topology.node.k8s.io/v1alpha1");
    assert_eq!(topology["topologyPolicies"], json!(["RestrictedPodLevel"]));
    logged(&log, "the missing resource is logged", |event| {
        event
            .to_string()
            .contains("does not serve numatopologies.nodeinfo.volcano.sh")
    });
}

#[test]
fn a_resource_that_is_served_later_is_published() {
    let cluster = Cluster::with(&[]);
    let server = serve(&cluster);
    let timing = Timing {
        check: Duration::from_millis(20),
        ..quick()
    };
    let (client, log) = connect(&server, timing);
    client.publisher().publish(report(3, "0-7"));
    logged(&log, "both are missed", |event| {
        event.to_string().contains("does not serve")
    });
    assert_eq!(written(&server), 0);
    let groups = [
        ("topology.node.k8s.io", vec!["v1alpha2"]),
        ("nodeinfo.volcano.sh", vec!["v1alpha1"]),
    ];
    cluster.lock().unwrap().groups.extend(groups);
    eventually("the first is there", || {
        generation(&cluster, TOPOLOGY) == "3"
    });
    eventually("the second is there", || generation(&cluster, NUMA) == "3");
}

#[test]
fn publishing_waits_until_the_node_is_registered() {
    let cluster = Cluster::both();
    let node = cluster
        .lock()
        .unwrap()
        .objects
        .remove("/api/v1/nodes/worker-1")
        .unwrap();
    let server = serve(&cluster);
    let (client, log) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    logged(&log, "it is logged", |event| {
        event.to_string().contains("/api/v1/nodes/worker-1")
    });
    cluster.lock().unwrap().put("/api/v1/nodes/worker-1", node);
    eventually("it is there", || generation(&cluster, NUMA) == "1");
}

#[test]
fn an_invalid_object_does_not_stop_the_publisher() {
    let cluster = Cluster::both();
    let server = {
        let cluster = Arc::clone(&cluster);
        let odd = Mutex::new(VecDeque::from([
            json!([]),
            json!({ "metadata": 7 }),
            json!({}),
            json!("x"),
        ]));
        Server::start(move |asked| {
            let odd = match asked.method == "GET" && asked.path == TOPOLOGY {
                true => odd.lock().unwrap().pop_front(),
                false => None,
            };
            match odd {
                Some(odd) => Answer::Json(200, odd),
                None => cluster.lock().unwrap().answer(asked),
            }
        })
    };
    let (client, _) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    eventually("it is there in the end", || {
        generation(&cluster, TOPOLOGY) == "1"
    });
}

#[test]
fn objects_are_back_after_their_node_was_made_anew() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    let (client, _) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    eventually("both are there", || generation(&cluster, NUMA) == "1");
    {
        let mut cluster = cluster.lock().unwrap();
        for path in ["/api/v1/nodes/worker-1", NUMA, TOPOLOGY] {
            cluster.remove(path);
        }
        let node = json!({ "metadata": { "uid": "second-uid", "name": "worker-1" } });
        cluster.put("/api/v1/nodes/worker-1", node);
    }
    for path in [NUMA, TOPOLOGY] {
        eventually("the new Node owns it", || {
            object(&cluster, path)["metadata"]["ownerReferences"][0]["uid"] == "second-uid"
        });
    }
}

#[test]
fn a_replaced_definition_gets_the_object_again() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    let (client, log) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    eventually("both are there", || generation(&cluster, NUMA) == "1");
    eventually("the object is watched", || {
        let cluster = cluster.lock().unwrap();
        let mut watches = cluster.watches.iter();
        watches.any(|(path, _)| path.contains("numatopologies"))
    });
    {
        let mut cluster = cluster.lock().unwrap();
        cluster.groups.remove("nodeinfo.volcano.sh");
        cluster.remove(NUMA);
        // The server ends the watches of a deleted definition.
        cluster.watches.clear();
    }
    logged(&log, "the definition is missed", |event| {
        event.to_string().contains("does not serve numatopologies")
    });
    let mut locked = cluster.lock().unwrap();
    locked
        .groups
        .insert("nodeinfo.volcano.sh", vec!["v1alpha1"]);
    drop(locked);
    eventually("the object is back", || generation(&cluster, NUMA) == "1");
}

#[test]
fn fields_that_the_definition_lacks_cause_no_second_write_not_even_after_a_restart() {
    let cluster = Cluster::both();
    cluster.lock().unwrap().pruned.push("cpuDetail");
    let server = serve(&cluster);
    let timing = Timing {
        check: Duration::from_millis(20),
        ..quick()
    };
    let (first, _) = connect(&server, timing.clone());
    first.publisher().publish(report(1, "0-7"));
    eventually("both are there", || generation(&cluster, NUMA) == "1");
    let checks = first.counts().unchanged.get();
    eventually("they were checked", || {
        first.counts().unchanged.get() > checks + 4
    });
    drop(first);
    let (second, _) = connect(&server, timing);
    second.publisher().publish(report(9, "0-7"));
    eventually("both were checked again", || {
        second.counts().unchanged.get() > 4
    });
    assert_eq!(written(&server), 2, "one write of each object");
    assert_eq!(generation(&cluster, NUMA), "1");
}

/// koordlet writes zones and drops the attributes of the agent.
fn written_by_koordlet(cluster: &Arc<Mutex<Cluster>>) {
    let mut theirs = object(cluster, TOPOLOGY);
    theirs.as_object_mut().unwrap().remove("attributes");
    theirs["zones"] = json!([{ "name": "node-0", "type": "Node", "resources": [] }]);
    cluster.lock().unwrap().put_as("koordlet", TOPOLOGY, theirs);
}

#[test]
fn another_writer_is_reported_and_the_agent_yields_by_default() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    let (client, log) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    eventually("both are there", || generation(&cluster, NUMA) == "1");
    written_by_koordlet(&cluster);
    logged(&log, "the writer is named", |event| {
        event
            .to_string()
            .starts_with("koordlet also writes noderesourcetopologies")
    });
    eventually("an event of the Node says so", || {
        let asked = server.asked().into_iter();
        let mut events = asked.filter(|asked| asked.path.ends_with("/events"));
        events.any(|event| {
            event.body["involvedObject"]["kind"] == "Node" && event.body["reason"] == "OtherWriter"
        })
    });
    let problems = client.other_writers().problems();
    assert!(
        problems[0].contains("kubernetes.otherWriters: repair"),
        "{problems:?}"
    );
    client.publisher().publish(report(2, "4-7"));
    eventually("the other object is written", || {
        generation(&cluster, NUMA) == "2"
    });
    let left = object(&cluster, TOPOLOGY);
    assert_eq!(
        left["zones"].as_array().unwrap().len(),
        1,
        "left to koordlet"
    );
    cluster.lock().unwrap().remove(TOPOLOGY);
    eventually("a deleted object is the agent's again", || {
        generation(&cluster, TOPOLOGY) == "2"
    });
}

#[test]
fn another_writer_is_repaired_at_once_if_configured() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    let (client, log) = connect_with(&server, quick(), OtherWriterPolicy::Repair);
    client.publisher().publish(report(1, "0-7"));
    eventually("both are there", || generation(&cluster, NUMA) == "1");
    written_by_koordlet(&cluster);
    eventually("the agent's attributes are back", || {
        let now = object(&cluster, TOPOLOGY);
        now["attributes"].is_array() && now["zones"].as_array().unwrap().len() == 2
    });
    logged(&log, "the writer is named", |event| {
        event.to_string().starts_with("koordlet also writes")
    });
}

#[test]
fn a_client_that_adds_its_own_fields_is_no_other_writer() {
    let cluster = Cluster::both();
    let server = serve(&cluster);
    let (client, _) = connect(&server, quick());
    client.publisher().publish(report(1, "0-7"));
    eventually("both are there", || generation(&cluster, NUMA) == "1");
    let mut theirs = object(&cluster, TOPOLOGY);
    let zone = json!({ "name": "rack-1", "type": "Rack" });
    theirs["zones"].as_array_mut().unwrap().push(zone);
    cluster.lock().unwrap().put_as("racks", TOPOLOGY, theirs);
    client.publisher().publish(report(2, "4-7"));
    eventually("the change is there", || {
        generation(&cluster, TOPOLOGY) == "2"
    });
    assert_eq!(
        object(&cluster, TOPOLOGY)["zones"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(client.other_writers().problems(), [""; 0]);
}

fn pod(name: &str, phase: &str) -> Value {
    let amounts = json!({ "cpu": "2", "memory": "1Gi" });
    json!({
        "metadata": { "name": name, "namespace": "default", "uid": format!("{name}-uid") },
        "spec": { "nodeName": "worker-1", "containers": [
            { "name": "app", "resources": { "requests": amounts, "limits": amounts } },
        ] },
        "status": { "phase": phase },
    })
}

#[test]
fn the_fingerprint_covers_running_pods_that_the_report_accounts_for() {
    let cluster = Cluster::both();
    let server = {
        let cluster = Arc::clone(&cluster);
        Server::start(move |asked| match asked.path.as_str() {
            "/api/v1/pods" if asked.query.contains("watch=1") => Answer::Never,
            "/api/v1/pods" => Answer::Json(
                200,
                json!({ "metadata": { "resourceVersion": "1" }, "items": [
                    pod("one", "Running"), pod("new", "Running"), pod("waiting", "Pending"),
                ] }),
            ),
            _ => cluster.lock().unwrap().answer(asked),
        })
    };
    let (client, _) = connect(&server, quick());
    let all = ExclusiveKinds {
        cpus: true,
        memory: true,
        devices: true,
    };
    let publish = |generation, accounted: &[&str]| {
        let accounted = accounted.iter().map(|uid| PodUid::from(*uid)).collect();
        let method = FingerprintMethod::WithExclusiveResources;
        let pods = Some(PodSetFingerprint {
            method,
            accounted,
            tracked: all,
        });
        client.publisher().publish(CustomResourceReport {
            pods,
            ..report(generation, "0-7")
        });
    };
    let attribute = |name: &str| {
        let topology = object(&cluster, TOPOLOGY);
        let mut all = topology["attributes"].as_array().into_iter().flatten();
        let found = all.find(|attribute| attribute["name"] == name);
        found.map_or(Value::Null, |found| found["value"].clone())
    };
    publish(1, &["one-uid", "waiting-uid"]);
    // The fingerprint that NFD wrote for the pod default/one alone.
    eventually("the fingerprint is there", || {
        attribute("nodeTopologyPodsFingerprint") == "pfp0v001a1f66932655ac43f"
    });
    assert_eq!(
        attribute("nodeTopologyPodsFingerprintMethod"),
        "with-exclusive-resources"
    );
    let annotations = object(&cluster, TOPOLOGY)["metadata"]["annotations"].clone();
    assert_eq!(
        annotations["topology.node.k8s.io/fingerprint"],
        "pfp0v001a1f66932655ac43f"
    );
    publish(2, &["one-uid", "waiting-uid", "new-uid"]);
    let both = fingerprint([("default", "one"), ("default", "new")]);
    eventually("the second pod is covered", || {
        attribute("nodeTopologyPodsFingerprint") == both.as_str()
    });
}
