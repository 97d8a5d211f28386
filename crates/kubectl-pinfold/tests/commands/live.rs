//! The plugin with an API server: paged lists, contexts, and lists that are forbidden or not served.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;

use serde_json::{Value, json};

use crate::program::{Run, root, run, scratch, words};

/// The kind of the list at a path, or an error status.
type Lists = fn(&str) -> Result<&'static str, u16>;

/// All lists of a cluster with NodeResourceTopologies.
fn all_lists(path: &str) -> Result<&'static str, u16> {
    match path {
        "/api/v1/nodes" => Ok("Node"),
        "/api/v1/pods" => Ok("Pod"),
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies" => Ok("NodeResourceTopology"),
        _ => Err(404),
    }
}

fn example() -> Vec<Value> {
    let example = root().join("examples/running-cluster/cluster.yaml");
    let text = fs::read_to_string(example).expect("the example");
    serde_saphyr::from_multiple(&text).expect("objects")
}

/// Serves objects in pages of three, whatever the limit of the request.
fn serve(objects: Vec<Value>, lists: Lists) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
                request.push(byte[0]);
            }
            let request = String::from_utf8_lossy(&request);
            let target = request.split(' ').nth(1).unwrap_or_default();
            let (code, body) = respond(&objects, lists, target);
            let head = format!(
                "HTTP/1.1 {code} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    port
}

fn respond(objects: &[Value], lists: Lists, target: &str) -> (u16, String) {
    const PAGE: usize = 3;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let kind = match lists(path) {
        Ok(kind) => kind,
        Err(code) => {
            let status = json!({"kind": "Status", "code": code, "message": "not allowed"});
            return (code, status.to_string());
        }
    };
    let from = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("continue="));
    let from: usize = from.map_or(0, |token| token.parse().expect("our token"));
    let all = objects.iter().filter(|object| object["kind"] == kind);
    let mut page: Vec<Value> = all.skip(from).take(PAGE + 1).cloned().collect();
    let token = match page.len() > PAGE {
        true => (from + PAGE).to_string(),
        false => String::new(),
    };
    page.truncate(PAGE);
    for object in &mut page {
        // Items of a list have no kind.
        object.as_object_mut().expect("an object").remove("kind");
        if object["metadata"]["managedFields"].is_null() {
            object["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
        }
    }
    let list = json!({"kind": "List", "metadata": {"continue": token}, "items": page});
    (200, list.to_string())
}

/// A kubeconfig with a context `here`. Nothing listens at the server of the current context.
fn kubeconfig(port: u16) -> PathBuf {
    let path = PathBuf::from(scratch()).join(format!("kubeconfig-{port}"));
    let cluster = |name: &str, port: u16| json!({"name": name, "cluster": {"server": format!("http://127.0.0.1:{port}")}});
    let context =
        |name: &str| json!({"name": name, "context": {"cluster": name, "user": "anonymous"}});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "nowhere",
        "clusters": [cluster("nowhere", 1), cluster("here", port)],
        "users": [{"name": "anonymous", "user": {}}],
        "contexts": [context("nowhere"), context("here")],
    });
    fs::write(&path, config.to_string()).expect("writable");
    path
}

#[test]
fn names_of_pods_and_nodes_are_completed_from_the_cluster() {
    let lists: Lists = |path| match path {
        "/api/v1/nodes" => Ok("Node"),
        "/api/v1/pods" | "/api/v1/namespaces/ml/pods" => Ok("Pod"),
        _ => Err(403),
    };
    let config = kubeconfig(serve(example(), lists));
    let access = format!("--context here --kubeconfig {}", config.display());
    let nodes = crate::completion::complete(&format!("view node {access} gpu-"));
    assert_eq!(nodes.stdout, "gpu-1\ngpu-2\n:4\n", "{}", nodes.stderr);
    let pods = crate::completion::complete(&format!("explain pod {access} -n ml train"));
    assert!(pods.stdout.starts_with("train"), "{}", pods.output());
    let forbidden = crate::completion::complete(&format!("explain pod {access} x"));
    assert_eq!(forbidden.stdout, ":4\n");
}

#[test]
fn without_a_kubeconfig_the_error_names_the_flags() {
    let output = std::process::Command::new(crate::PROGRAM)
        .arg("top")
        .env("HOME", "/nowhere")
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .expect("the program starts");
    let seen = Run::from(output);
    assert_eq!(seen.code, 3);
    assert_eq!(
        seen.stderr,
        "kubectl-pinfold: no kubeconfig: set KUBECONFIG, --kubeconfig or --nodes FILE\n"
    );
}

fn run_against(lists: Lists, line: &str) -> Run {
    run_with(example(), lists, line)
}

fn run_with(objects: Vec<Value>, lists: Lists, line: &str) -> Run {
    let config = kubeconfig(serve(objects, lists));
    let line = format!("{line} --context here --kubeconfig {}", config.display());
    run(&root(), &words(&line))
}

#[test]
fn an_api_server_gives_the_same_result_as_its_objects_in_a_file() {
    for line in [
        "top",
        "explain pod trainer-3 -n ml",
        "view node worker-1 -o svg",
    ] {
        let live = run_against(all_lists, line);
        let file = format!("{line} --nodes examples/running-cluster/cluster.yaml");
        let file = run(&root(), &words(&file));
        assert_eq!(live.stdout, file.stdout, "{line}: {}", live.stderr);
        assert_eq!(live.code, file.code, "{line}");
    }
}

#[test]
fn lists_that_are_forbidden_or_not_served_become_notes() {
    let bare = run_against(
        |path| match path {
            "/api/v1/nodes" => Ok("Node"),
            "/api/v1/pods" => Err(403),
            _ => Err(404),
        },
        "top",
    );
    assert_eq!(bare.code, 0, "{}", bare.stderr);
    let text = bare.stdout.replace("\n      ", " ");
    for expected in [
        "the cluster serves no noderesourcetopologies: no node reports its NUMA topology",
        "pods cannot be listed (GET /api/v1/pods",
        "403 not allowed): the pods of nodes are unknown",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }

    let humble = run_against(
        |path| match path {
            "/api/v1/pods" | "/api/v1/nodes" => Err(403),
            "/api/v1/namespaces/ml/pods" => Ok("Pod"),
            other => all_lists(other),
        },
        "explain pod trainer-3 -n ml",
    );
    let text = humble.stdout.replace("\n      ", " ");
    assert_eq!(humble.code, 1, "{}", humble.stderr);
    assert!(
        text.contains("pods can only be listed at /api/v1/namespaces/ml/pods"),
        "{text}"
    );
    assert!(
        text.contains("no Node object for gpu-1, gpu-2, worker-1"),
        "{text}"
    );
}

#[test]
fn without_rights_the_error_says_what_is_forbidden() {
    for line in [
        "top",
        "explain pod trainer-3 -n ml",
        "view node worker-1",
        "doctor",
    ] {
        let denied = run_against(|_| Err(403), line);
        assert_eq!(denied.code, 3, "{line}: {}", denied.stdout);
        for expected in [
            "nodes cannot be listed (GET /api/v1/nodes",
            "noderesourcetopologies cannot be listed",
            "403 not allowed",
        ] {
            assert!(
                denied.stderr.contains(expected),
                "{line}: {}",
                denied.stderr
            );
        }
    }
}

/// The object of this kind and name.
fn object<'a>(objects: &'a mut [Value], kind: &str, name: &str) -> &'a mut Value {
    let mut all = objects.iter_mut();
    let is_it = |object: &&mut Value| object["kind"] == kind && object["metadata"]["name"] == name;
    all.find(is_it).expect("in the example")
}

#[test]
fn a_report_that_is_older_than_a_pod_on_its_node_is_noted() {
    let mut objects = example();
    let report = object(&mut objects, "NodeResourceTopology", "worker-1");
    report["metadata"]["managedFields"] =
        json!([{"manager": "pinfold-agent", "time": "2020-01-01T00:00:00Z"}]);
    let pods = objects.iter_mut();
    let on_worker = |object: &&mut Value| object["spec"]["nodeName"] == "worker-1";
    for pod in pods.filter(on_worker) {
        pod["status"] = json!({
            "phase": "Running", "qosClass": "Guaranteed", "startTime": "2021-01-01T00:00:00Z",
        });
    }
    let top = run_with(objects, all_lists, "top");
    let text = top.stdout.replace("\n      ", " ");
    assert!(
        text.contains("the report of worker-1 was written "),
        "{text}"
    );
    assert!(!text.contains("the report of gpu-1 was written"), "{text}");
}

#[test]
fn a_bound_pod_that_its_node_does_not_start_is_explained_with_the_reason() {
    let mut objects = example();
    let bound = objects
        .iter_mut()
        .find(|object| object["kind"] == "Pod" && object["spec"]["nodeName"].is_string());
    let pod = bound.expect("a bound pod in the example");
    pod["status"]["phase"] = json!("Pending");
    let name = pod["metadata"]["name"].as_str().expect("a name").to_owned();
    let namespace = pod["metadata"]["namespace"]
        .as_str()
        .unwrap_or("default")
        .to_owned();
    pod["metadata"]["namespace"] = json!(namespace);
    let event = |at: &str, of: &str, message: &str| {
        json!({
            "kind": "Event", "metadata": {"name": at}, "reason": "FailedCreatePodSandBox",
            "involvedObject": {"name": of}, "lastTimestamp": at, "message": message,
        })
    };
    objects.push(event(
        "2026-01-02T00:00:01Z",
        &name,
        "TopologyAffinityError: the last",
    ));
    objects.push(event("2026-01-02T00:00:00Z", &name, "an earlier one"));
    objects.push(event("2026-01-02T00:00:02Z", "other", "of another pod"));
    let lists: Lists = |path| match path.ends_with("/events") {
        true => Ok("Event"),
        false => all_lists(path),
    };
    let line = format!("explain pod {name} -n {namespace}");
    let waiting = run_with(objects.clone(), lists, &line);
    let text = waiting.stdout.replace("\n  ", " ");
    assert!(
        text.contains("which does not start it"),
        "{text}{}",
        waiting.stderr
    );
    assert!(
        text.contains("Node: TopologyAffinityError: the last"),
        "{text}"
    );

    let unseen = run_with(objects.clone(), all_lists, &line).stdout;
    assert!(unseen.contains("events cannot be listed"), "{unseen}");

    object(&mut objects, "Pod", &name)["status"]["phase"] = json!("Running");
    let running = run_with(objects, lists, &line).stdout;
    assert!(!running.contains("does not start it"), "{running}");
}

#[test]
fn an_unreachable_server_or_unknown_context_exits_with_3() {
    let config = kubeconfig(2);
    let line = format!("top --kubeconfig {}", config.display());
    let gone = run(&root(), &words(&line));
    assert_eq!(gone.code, 3, "{}", gone.stdout);
    assert!(
        gone.stderr.contains("http://127.0.0.1:1"),
        "{}",
        gone.stderr
    );

    let line = format!("top --context neverland --kubeconfig {}", config.display());
    let lost = run(&root(), &words(&line));
    assert_eq!(lost.code, 3, "{}", lost.stdout);
    assert!(lost.stderr.contains("neverland"), "{}", lost.stderr);
}

/// A cluster of one node whose only pod excludes pods of namespaces with a label, and a pending pod in namespace `ml`.
fn namespaced() -> Vec<Value> {
    let term = json!({
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchLabels": {"team": "ml"}},
        "topologyKey": "kubernetes.io/hostname",
    });
    let affinity =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let containers = json!([{"name": "main"}]);
    vec![
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "one", "labels": {"kubernetes.io/hostname": "one"}},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
        }),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": {"team": "ml"}}}),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "alone", "namespace": "other", "uid": "a"},
            "spec": {"nodeName": "one", "affinity": affinity, "containers": containers},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "ml", "uid": "w", "labels": {"app": "web"}},
            "spec": {"containers": containers},
        }),
    ]
}

#[test]
fn affinity_terms_read_the_labels_of_namespaces_of_a_live_cluster() {
    let lists: Lists = |path| match path {
        "/api/v1/namespaces" => Ok("Namespace"),
        other => all_lists(other),
    };
    let line = "explain pod web -n ml";
    let excluded = run_with(namespaced(), lists, line);
    assert_eq!(excluded.code, 1, "{}", excluded.output());
    assert!(
        excluded
            .stdout
            .contains("existing pods anti-affinity rules"),
        "{}",
        excluded.stdout
    );

    let forbidden: Lists = |path| match path {
        "/api/v1/namespaces" => Err(403),
        other => all_lists(other),
    };
    let unknown = run_with(namespaced(), forbidden, line);
    assert_eq!(unknown.code, 0, "{}", unknown.output());
    let text = unknown.stdout.replace("\n      ", " ");
    assert!(
        text.contains(
            "not simulated: labels of namespaces in pod affinity (namespaces cannot be listed"
        ),
        "{text}"
    );

    let mut plain = namespaced();
    plain[2]["spec"]["affinity"] = json!({});
    let unread = run_with(plain, forbidden, line);
    assert!(
        !unread.output().contains("namespaces"),
        "{}",
        unread.output()
    );
}

#[test]
fn doctor_reads_events_definitions_and_writers_of_a_live_cluster() {
    let lists: Lists = |path| match path {
        "/api/v1/events" => Ok("Event"),
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" => Ok("CustomResourceDefinition"),
        other => all_lists(other),
    };
    let mut objects = example();
    let writer = |manager: &str| json!({"manager": manager, "fieldsV1": {"f:zones": {}}});
    object(&mut objects, "NodeResourceTopology", "worker-1")["metadata"]["managedFields"] =
        json!([writer("pinfold-agent"), writer("koordlet")]);
    let found = run_with(objects.clone(), lists, "doctor -o json");
    assert_eq!(found.code, 1, "{}", found.output());
    let report: Value = serde_json::from_str(&found.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("a list");
    let of = |check: &str| findings.iter().find(|finding| finding["check"] == check);
    let writers = of("other-writer").expect("a second writer");
    assert_eq!(writers["nodes"], json!(["worker-1"]));
    // The server has no definition at all.
    let definition = of("definition").expect("a missing definition");
    assert_eq!(definition["severity"], "error");
    assert_eq!(report["not_checked"], json!([]), "{report}");

    let forbidden = run_with(objects, all_lists, "doctor -o json");
    let report: Value = serde_json::from_str(&forbidden.stdout).expect("JSON");
    let missing = report["not_checked"].to_string();
    for expected in ["serves no customresourcedefinitions", "serves no events"] {
        assert!(missing.contains(expected), "{missing}");
    }
    let findings = report["findings"].as_array().expect("a list");
    assert!(
        findings
            .iter()
            .all(|finding| finding["check"] != "definition"),
        "{findings:?}"
    );
}
