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

/// Serves the objects of an example in pages of three, whatever the limit of the request.
fn serve(lists: Lists) -> u16 {
    let example = root().join("examples/running-cluster/cluster.yaml");
    let text = fs::read_to_string(example).expect("the example");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("objects");
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
        object["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
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

fn run_against(lists: Lists, line: &str) -> Run {
    let config = kubeconfig(serve(lists));
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
