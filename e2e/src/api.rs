//! The suite of the agent's link to the API server, with a real one: our definitions, our role, a token of our service
//! account; written, changed, left alone, rejected, killed and started again.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_agent::kubernetes::{
    ApiServerClient, Connection, CustomResource, CustomResourceReport, GENERATION, SyncEvent,
    Timing, Warning,
};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::machine::Machine;
use pinfold_core::occupancy::Occupancy;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::Settings;
use pinfold_kube::koordinator::ReportAnnotations;
use pinfold_kube::pod::PodIdentity;
use pinfold_kube::{koordinator, node_resource_topology, volcano};
use serde_json::{Value, json};

use crate::control_plane::{Admin, ControlPlane, Credentials, PATIENCE};
use crate::programs::workspace;
use crate::report::{Report, equal, say};

const NODE: &str = "worker-1";
const USER: &str = "system:serviceaccount:pinfold-system:pinfold-agent";
const TOPOLOGY: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/worker-1";
const OLD_TOPOLOGY: &str = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies/worker-1";
const NUMA: &str = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies/worker-1";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Runs the story.
pub(crate) fn run(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-api-{}", std::process::id()));
    if let Err(problem) = story(report, &folder) {
        report.check("api", Err(problem));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn story(report: &mut Report, folder: &Path) -> Result<(), String> {
    let mut plane = ControlPlane::start(folder)?;
    let admin = plane.admin()?;
    prepare(&admin)?;
    let token = admin.token("pinfold-agent")?;
    let kubeconfig = plane.kubeconfig("agent", &Credentials::Token(&token))?;
    let connection = Connection::from_kubeconfig(&kubeconfig).map_err(|error| error.to_string())?;
    let timing = Timing {
        interval: Duration::from_millis(100),
        event_repeat: Duration::from_millis(100),
        ..Timing::default()
    };
    let remarks = |remark| say(format_args!("        {remark}"));
    let link = ApiServerClient::start(&connection, NODE, timing, remarks)
        .map_err(|error| error.to_string())?;

    report.check(
        "api: a report is created in both versions",
        created(&link, &admin),
    );
    report.check(
        "api: a report without news sends nothing",
        silent(&link, &plane),
    );
    report.check(
        "api: what others add survives a change",
        shared(&link, &admin),
    );
    report.check(
        "api: pods of this node are seen and forgotten",
        pods(&link, &admin),
    );
    report.check(
        "api: a rejection is an event of the pod",
        event(&link, &admin),
    );
    report.check(
        "api: a killed server is found again",
        killed(&link, &mut plane, &admin),
    );
    report.check(
        "api: nothing else is allowed",
        denied(&Admin::new(&kubeconfig)?),
    );
    report.check(
        "api: only what the role names was asked for",
        asked_for(&plane),
    );
    let served = definitions(&admin, &connection);
    report.check("api: clusters that serve less get what they serve", served);
    report.check(
        "api: a client certificate does as well",
        certificate(&plane),
    );
    Ok(())
}

/// Our definitions and our role; a node, and what pods need.
fn prepare(admin: &Admin) -> Result<(), String> {
    let deploy = workspace().join("deploy");
    for file in [
        "crds/noderesourcetopologies.yaml",
        "crds/numatopologies.yaml",
        "agent/rbac.yaml",
    ] {
        admin.create(&deploy.join(file))?;
    }
    admin.expect(
        "POST",
        "/api/v1/nodes",
        Some(&json!({ "metadata": { "name": NODE } })),
    )?;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({ "metadata": { "name": "default" } });
    eventually("the namespace is there", || {
        admin.expect("POST", accounts, Some(&account))
    })?;
    for object in [TOPOLOGY, OLD_TOPOLOGY, NUMA] {
        let all = object.trim_end_matches(NODE).trim_end_matches('/');
        eventually("the definitions are served", || {
            admin.expect("GET", all, None)
        })?;
    }
    Ok(())
}

/// The report of the node with these CPUs in the shared pool.
fn news(generation: u64, shared: &str) -> Result<CustomResourceReport, String> {
    let machine = machine()?;
    let settings = Settings {
        topology_policy: TopologyPolicy::SingleNumaNode,
        ..Settings::default()
    };
    let occupancy = Occupancy {
        shared: CpuSet::parse(shared).map_err(|error| error.to_string())?,
        ..Occupancy::default()
    };
    let topology = node_resource_topology::publish(NODE, &machine, &occupancy, &settings);
    let facts = ReportAnnotations::of(&machine, &settings, CpuSet::new());
    let numa = volcano::publish(NODE, &machine, &occupancy, &settings, Vec::new());
    Ok(CustomResourceReport {
        pods: None,
        generation,
        objects: vec![
            CustomResource::topology(&koordinator::publish(&topology, &facts)),
            CustomResource::numatopology(&numa),
        ],
    })
}

fn machine() -> Result<Machine, String> {
    let hardware =
        pinfold_hardware::open("2 sockets, 4 cores").map_err(|error| error.to_string())?;
    let within = hardware
        .machine_within_reach()
        .map_err(|error| error.to_string())?;
    Ok(within.0)
}

/// Waits until it works; the last problem otherwise.
fn eventually<T>(what: &str, mut tried: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match tried() {
            Ok(value) => return Ok(value),
            Err(problem) if Instant::now() > deadline => return Err(format!("{what}: {problem}")),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Waits until both objects are of a generation.
fn arrived(admin: &Admin, generation: &str) -> Result<Value, String> {
    eventually("the report arrives", || {
        for path in [NUMA, TOPOLOGY] {
            let object = admin.expect("GET", path, None)?;
            let found = &object["metadata"]["annotations"][GENERATION];
            equal("generation", found.as_str(), Some(generation))?;
        }
        admin.expect("GET", TOPOLOGY, None)
    })
}

fn created(link: &ApiServerClient, admin: &Admin) -> Result<(), String> {
    link.publisher().publish(news(1, "0-7")?);
    let topology = arrived(admin, "1")?;
    let node = admin.expect("GET", "/api/v1/nodes/worker-1", None)?;
    let owner = &topology["metadata"]["ownerReferences"][0]["uid"];
    equal("owner", owner, &node["metadata"]["uid"])?;
    let attribute = json!({ "name": "topologyManagerPolicy", "value": "single-numa-node" });
    equal("attribute", &topology["attributes"][0], &attribute)?;
    let old = admin.expect("GET", OLD_TOPOLOGY, None)?;
    equal(
        "policies",
        &old["topologyPolicies"],
        &json!(["SingleNUMANodeContainerLevel"]),
    )?;
    let label = &old["metadata"]["labels"]["app.kubernetes.io/managed-by"];
    equal("label", label, &json!("Koordinator"))?;
    let annotation = &old["metadata"]["annotations"]["node.koordinator.sh/cpu-topology"];
    equal("annotation", annotation.is_string(), true)?;
    equal("zones", &old["zones"], &topology["zones"])
}

/// The writes of the agent so far.
fn writes(plane: &ControlPlane) -> Result<usize, String> {
    let asked = plane.audited(USER)?;
    let topologies = asked
        .iter()
        .filter(|(_, resource)| resource.contains("topologies"));
    Ok(topologies
        .filter(|(verb, _)| verb == "create" || verb == "patch")
        .count())
}

fn silent(link: &ApiServerClient, plane: &ControlPlane) -> Result<(), String> {
    equal("writes", writes(plane)?, 2)?;
    // Lists and watches of pods, the Node and the objects go on meanwhile.
    let requests = || -> Result<Vec<(String, String)>, String> {
        let mut asked = plane.audited(USER)?;
        asked.retain(|(verb, _)| verb != "list" && verb != "watch");
        Ok(asked)
    };
    let before = requests()?;
    for number in 2..10 {
        link.publisher().publish(news(number, "0-7")?);
        thread::sleep(Duration::from_millis(200));
    }
    let after = requests()?;
    equal("requests", after.get(before.len()..), Some(&[][..]))
}

fn shared(link: &ApiServerClient, admin: &Admin) -> Result<(), String> {
    let mut topology = admin.expect("GET", TOPOLOGY, None)?;
    let gpu =
        json!({ "name": "example.com/gpu", "capacity": "1", "allocatable": "1", "available": "1" });
    let resources = topology["zones"][0]["resources"].as_array_mut();
    resources.ok_or("no resources")?.push(gpu.clone());
    let theirs = json!({
        "metadata": { "annotations": { "theirs": "stays" } },
        "zones": topology["zones"],
    });
    admin.expect("PATCH", TOPOLOGY, Some(&theirs))?;
    link.publisher().publish(news(20, "2-7")?);
    let topology = arrived(admin, "20")?;
    let resources = topology["zones"][0]["resources"]
        .as_array()
        .ok_or("no resources")?;
    equal("their resource", resources.contains(&gpu), true)?;
    equal(
        "their annotation",
        &topology["metadata"]["annotations"]["theirs"],
        &json!("stays"),
    )?;
    let cpu = resources.iter().find(|resource| resource["name"] == "cpu");
    equal(
        "our resource",
        cpu.map(|cpu| cpu["available"].clone()),
        Some(json!("2")),
    )
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "metadata": { "name": name, "annotations": { "scheduling.koordinator.sh/resource-status": "{\"cpuset\":\"0-1\"}" } },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "none" }] },
    })
}

/// The names of the pods that the link knows.
fn known(link: &ApiServerClient) -> Vec<String> {
    let pods = link.pods().all().unwrap_or_default();
    pods.iter()
        .map(|pod| pod.object.meta.name.clone())
        .collect()
}

fn pods(link: &ApiServerClient, admin: &Admin) -> Result<(), String> {
    admin.expect("POST", PODS, Some(&pod("elsewhere", "worker-2")))?;
    let here = admin.expect("POST", PODS, Some(&pod("here", NODE)))?;
    let identity = PodIdentity::parse(&here.to_string()).ok_or("the pod has no uid")?;
    let wait = Duration::from_millis(500);
    let seen = eventually("the pod is seen", || {
        link.pods()
            .get(&identity, wait)
            .ok_or_else(|| "not seen".to_owned())
    })?;
    let status = seen
        .meta
        .annotations
        .get("scheduling.koordinator.sh/resource-status");
    equal(
        "its annotation",
        status.map(String::as_str),
        Some("{\"cpuset\":\"0-1\"}"),
    )?;
    equal("its containers", seen.pod.containers.len(), 1)?;
    equal("pods", known(link), vec!["here".to_owned()])?;
    let path = format!("{PODS}/here?gracePeriodSeconds=0");
    admin.expect("DELETE", &path, None)?;
    eventually("the pod is forgotten", || {
        equal("pods", known(link), Vec::new())
    })
}

fn event(link: &ApiServerClient, admin: &Admin) -> Result<(), String> {
    let rejected = admin.expect("POST", PODS, Some(&pod("rejected", NODE)))?;
    let uid = rejected["metadata"]["uid"].as_str().unwrap_or_default();
    let path =
        format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid%3D{uid}");
    for times in [1, 2] {
        link.events().warn(Warning {
            kind: "Pod",
            namespace: "default".to_owned(),
            name: "rejected".to_owned(),
            uid: uid.into(),
            reason: "TopologyAffinityError".to_owned(),
            message: "two more CPUs would do".to_owned(),
        });
        eventually("the event is there", || {
            let events = admin.expect("GET", &path, None)?;
            equal("events", events["items"].as_array().map(Vec::len), Some(1))?;
            equal(
                "message",
                &events["items"][0]["message"],
                &json!("two more CPUs would do"),
            )?;
            equal("count", &events["items"][0]["count"], &json!(times))
        })?;
    }
    Ok(())
}

fn killed(link: &ApiServerClient, plane: &mut ControlPlane, admin: &Admin) -> Result<(), String> {
    plane.kill_api_server();
    link.publisher().publish(news(30, "4-7")?);
    let failures = link.counts().failures.get();
    eventually("the loss is noticed", || {
        equal("noticed", link.counts().failures.get() > failures, true)
    })?;
    plane.start_api_server()?;
    arrived(admin, "30")?;
    admin.expect("POST", PODS, Some(&pod("later", NODE)))?;
    eventually("a later pod is seen", || {
        equal("seen", known(link).contains(&"later".to_owned()), true)
    })
}

fn denied(agent: &Admin) -> Result<(), String> {
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    let cases = [
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/namespaces"),
        ("PATCH", "/api/v1/nodes/worker-1"),
        ("GET", "/api/v1/namespaces/default/pods/later"),
        ("PATCH", "/api/v1/namespaces/default/pods/later"),
        ("DELETE", "/api/v1/namespaces/default/pods/later"),
        ("POST", "/api/v1/namespaces/default/pods/later/binding"),
        ("GET", "/api/v1/events"),
        ("DELETE", TOPOLOGY),
        ("PUT", TOPOLOGY),
        ("DELETE", NUMA),
        (
            "GET",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        ),
    ];
    for (method, path) in cases {
        let body = (method != "GET").then_some(&patch);
        let (code, _) = agent.ask(method, path, body)?;
        equal(&format!("{method} {path}"), code, 403)?;
    }
    Ok(())
}

/// The role names nothing that was not needed, and everything that was.
fn asked_for(plane: &ControlPlane) -> Result<(), String> {
    let rights = [
        ("pods", "list"),
        ("pods", "watch"),
        ("nodes", "get"),
        ("nodes", "list"),
        ("nodes", "watch"),
        ("events", "create"),
        ("events", "patch"),
        ("noderesourcetopologies", "get"),
        ("noderesourcetopologies", "list"),
        ("noderesourcetopologies", "watch"),
        ("noderesourcetopologies", "create"),
        ("noderesourcetopologies", "patch"),
        ("numatopologies", "get"),
        ("numatopologies", "list"),
        ("numatopologies", "watch"),
        ("numatopologies", "create"),
        ("numatopologies", "patch"),
    ];
    let asked = plane.audited(USER)?;
    for (resource, verb) in rights {
        let used = asked
            .iter()
            .any(|(own_verb, own)| own_verb == verb && own == resource);
        equal(&format!("{verb} {resource} was needed"), used, true)?;
    }
    Ok(())
}

/// Without v1alpha2 the object is written in v1alpha1; without any version the others still are.
fn definitions(admin: &Admin, connection: &Connection) -> Result<(), String> {
    let said = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&said);
    let remarks = move |remark: SyncEvent| {
        let mut said = sink.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&remark.to_string());
    };
    let timing = Timing {
        interval: Duration::from_millis(100),
        check: Duration::from_secs(1),
        ..Timing::default()
    };
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io";
    let mut versions = admin.expect("GET", path, None)?["spec"]["versions"].take();
    for version in versions.as_array_mut().into_iter().flatten() {
        version["served"] = (version["name"] == "v1alpha1").into();
    }
    admin.expect(
        "PATCH",
        path,
        Some(&json!({ "spec": { "versions": versions } })),
    )?;
    eventually("v1alpha2 is gone", || {
        equal("code", admin.ask("GET", TOPOLOGY, None)?.0, 404)
    })?;
    let link = ApiServerClient::start(connection, NODE, timing, remarks);
    let link = link.map_err(|error| error.to_string())?;
    link.publisher().publish(news(40, "6-7")?);
    eventually("v1alpha1 is written", || {
        let old = admin.expect("GET", OLD_TOPOLOGY, None)?;
        let generation = &old["metadata"]["annotations"][GENERATION];
        equal("generation", generation.as_str(), Some("40"))
    })?;
    admin.expect("DELETE", path, None)?;
    link.publisher().publish(news(41, "7")?);
    eventually("the other kind is written", || {
        let numa = admin.expect("GET", NUMA, None)?;
        let free = &numa["spec"]["numares"]["cpu"]["allocatable"];
        equal("shared CPUs", free.as_str(), Some("7"))
    })?;
    eventually("the missing resource is named", || {
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        let named = said.contains("does not serve noderesourcetopologies");
        equal("the missing resource", named, true)
    })
}

fn certificate(plane: &ControlPlane) -> Result<(), String> {
    let kubeconfig = plane.kubeconfig("by-certificate", &Credentials::Certificate("admin"))?;
    let connection = Connection::from_kubeconfig(&kubeconfig).map_err(|error| error.to_string())?;
    let link = ApiServerClient::start(&connection, NODE, Timing::default(), |_| {})
        .map_err(|error| error.to_string())?;
    eventually("the pods are known", || {
        equal("known", known(&link).contains(&"later".to_owned()), true)
    })
}
