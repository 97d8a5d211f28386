//! `pinfold cluster` with an API server: pages, contexts, and lists that are forbidden or not served.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;

use serde_json::{Value, json};

use crate::program::{Run, root, run, scratch, words};

/// What a server says to a path without its query: a list of this kind, or a rejection.
type Answer = fn(&str) -> Result<&'static str, u16>;

/// Everything there is.
fn whole(path: &str) -> Result<&'static str, u16> {
    match path {
        "/api/v1/nodes" => Ok("Node"),
        "/api/v1/pods" => Ok("Pod"),
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies" => Ok("NodeResourceTopology"),
        _ => Err(404),
    }
}

/// A cluster that is asked for three objects at a time, whatever was wished for.
fn serve(answer: Answer) -> u16 {
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
            let (code, body) = respond(&objects, answer, target);
            let head = format!(
                "HTTP/1.1 {code} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    port
}

fn respond(objects: &[Value], answer: Answer, target: &str) -> (u16, String) {
    const PAGE: usize = 3;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let kind = match answer(path) {
        Ok(kind) => kind,
        Err(code) => {
            let status = json!({"kind": "Status", "code": code, "message": "not for you"});
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
        // Items of a list do not say what they are.
        object.as_object_mut().expect("an object").remove("kind");
        object["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
    }
    let list = json!({"kind": "List", "metadata": {"continue": token}, "items": page});
    (200, list.to_string())
}

/// A kubeconfig whose current context leads nowhere.
fn kubeconfig(port: u16) -> PathBuf {
    let path = PathBuf::from(scratch()).join(format!("kubeconfig-{port}"));
    let cluster = |name: &str, port: u16| json!({"name": name, "cluster": {"server": format!("http://127.0.0.1:{port}")}});
    let context =
        |name: &str| json!({"name": name, "context": {"cluster": name, "user": "nobody"}});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "nowhere",
        "clusters": [cluster("nowhere", 1), cluster("here", port)],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [context("nowhere"), context("here")],
    });
    fs::write(&path, config.to_string()).expect("writable");
    path
}

fn ask(answer: Answer, line: &str) -> Run {
    let config = kubeconfig(serve(answer));
    let line = format!(
        "cluster {line} --context here --kubeconfig {}",
        config.display()
    );
    run(&root(), &words(&line))
}

#[test]
fn an_api_server_gives_the_same_answers_as_its_objects_in_a_file() {
    for line in [
        "top",
        "explain pod trainer-3 -n ml",
        "view node worker-1 -o svg",
    ] {
        let live = ask(whole, line);
        let file = format!("cluster {line} --nodes examples/running-cluster/cluster.yaml");
        let file = run(&root(), &words(&file));
        assert_eq!(live.stdout, file.stdout, "{line}: {}", live.stderr);
        assert_eq!(live.code, file.code, "{line}");
    }
}

#[test]
fn what_is_not_served_or_forbidden_is_said_and_the_rest_is_answered() {
    let bare = ask(
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
        "the cluster serves no noderesourcetopologies: nobody reports NUMA nodes",
        "pods cannot be listed (GET /api/v1/pods",
        "403 not for you): nobody knows who runs where",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }

    let humble = ask(
        |path| match path {
            "/api/v1/pods" | "/api/v1/nodes" => Err(403),
            "/api/v1/namespaces/ml/pods" => Ok("Pod"),
            other => whole(other),
        },
        "explain pod trainer-3 -n ml",
    );
    let text = humble.stdout.replace("\n      ", " ");
    assert_eq!(humble.code, 1, "{}", humble.stderr);
    assert!(
        text.contains("pods may only be listed below /api/v1/namespaces/ml/pods"),
        "{text}"
    );
    assert!(
        text.contains("no Node object for gpu-1, gpu-2, worker-1"),
        "{text}"
    );
}

#[test]
fn a_server_that_is_not_there_is_the_environments_fault() {
    let config = kubeconfig(2);
    let line = format!("cluster top --kubeconfig {}", config.display());
    let gone = run(&root(), &words(&line));
    assert_eq!(gone.code, 3, "{}", gone.stdout);
    assert!(
        gone.stderr.contains("http://127.0.0.1:1"),
        "{}",
        gone.stderr
    );

    let line = format!(
        "cluster top --context neverland --kubeconfig {}",
        config.display()
    );
    let lost = run(&root(), &words(&line));
    assert_eq!(lost.code, 3, "{}", lost.stdout);
    assert!(lost.stderr.contains("neverland"), "{}", lost.stderr);
}
