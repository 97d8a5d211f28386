//! A fake cluster, and an extender that runs in it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pinfold_daemon::signals::{Signal, SignalReceiver};
use pinfold_scheduler::config::{Access, ExtenderConfig};
use pinfold_scheduler::daemon;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{Answer, Asked, Server, kubeconfig, status};

/// The report of another reporter than Pinfold's agent: two NUMA nodes with four CPUs each.
pub(crate) fn report(name: &str) -> Value {
    let zone = |id: u32| {
        json!({ "name": format!("node-{id}"), "type": "Node", "resources": [
            { "name": "cpu", "capacity": "4", "allocatable": "4", "available": "4" },
        ]})
    };
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
        "metadata": { "name": name, "resourceVersion": "1" },
        "attributes": [
            { "name": "topologyManagerPolicy", "value": "single-numa-node" },
            { "name": "topologyManagerScope", "value": "pod" },
        ],
        "zones": [zone(0), zone(1)],
    })
}

pub(crate) fn node(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "resourceVersion": "1" },
        "status": { "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" } },
    })
}

pub(crate) fn pod(name: &str, cpus: u32) -> Value {
    let amounts = json!({ "cpu": cpus.to_string(), "memory": "1Gi" });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "41" },
        "spec": {
            "containers": [{ "name": "main", "image": "i", "resources": { "requests": amounts, "limits": amounts } }],
            "schedulerName": "pinfold",
        },
        "status": { "phase": "Pending" },
    })
}

/// The objects of the fake API server, and its responses to bindings.
pub(crate) struct Objects {
    pub(crate) nodes: Vec<Value>,
    pub(crate) reports: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) lease: Option<Value>,
    /// How many more lists of reports succeed before they are not served any more; `None` for all.
    pub(crate) reports_known: Option<usize>,
    /// Status codes for bindings, the next one last; 201 if empty.
    pub(crate) bindings: Vec<u16>,
}

pub(crate) type Shared = Arc<Mutex<Objects>>;

/// The objects of a cluster with these nodes.
pub(crate) fn objects(nodes: &[&str]) -> Shared {
    Arc::new(Mutex::new(Objects {
        nodes: nodes.iter().map(|name| node(name)).collect(),
        reports: nodes.iter().map(|name| report(name)).collect(),
        pods: Vec::new(),
        lease: None,
        reports_known: None,
        bindings: Vec::new(),
    }))
}

fn list(items: &[Value]) -> Answer {
    Answer::Json(
        200,
        json!({ "metadata": { "resourceVersion": "9" }, "items": items }),
    )
}

fn answer(objects: &Shared, asked: &Asked) -> Answer {
    let mut objects = objects.lock().unwrap();
    let of_reports = asked.path.ends_with("/noderesourcetopologies");
    match &mut objects.reports_known {
        Some(_) if of_reports && asked.query.contains("watch=1") => return status(410, "too old"),
        Some(0) if of_reports => return status(404, "no such kind"),
        Some(left) if of_reports => *left -= 1,
        _ if asked.query.contains("watch=1") => return Answer::Never,
        _ => {}
    }
    let lease = "/apis/coordination.k8s.io/v1/namespaces/pinfold-system/leases";
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/api/v1/nodes") => list(&objects.nodes),
        ("GET", "/api/v1/pods") => list(&objects.pods),
        ("GET", _) if of_reports => list(&objects.reports),
        ("GET", path) if path.ends_with("/numatopologies") => status(404, "no such kind"),
        ("POST", path) if path.ends_with("/binding") => match objects.bindings.pop() {
            None => Answer::Json(201, json!({ "kind": "Status", "status": "Success" })),
            Some(code) => status(code, "as configured by the test"),
        },
        ("GET", path) if path.starts_with("/api/v1/namespaces/default/pods/") => {
            let name = path.rsplit('/').next().unwrap_or_default();
            let own = objects
                .pods
                .iter()
                .find(|pod| pod["metadata"]["name"] == name);
            own.map_or_else(
                || status(404, "no such pod"),
                |pod| Answer::Json(200, pod.clone()),
            )
        }
        ("POST", path) if path == lease => {
            let mut made = asked.body.clone();
            made["metadata"]["resourceVersion"] = "1".into();
            objects.lease = Some(made.clone());
            Answer::Json(201, made)
        }
        ("GET", path) if path.starts_with(lease) => match &objects.lease {
            Some(own) => Answer::Json(200, own.clone()),
            None => status(404, "no lease"),
        },
        ("PUT", path) if path.starts_with(lease) => {
            let before = objects
                .lease
                .as_ref()
                .map(|own| own["metadata"]["resourceVersion"].clone());
            if before.as_ref() != Some(&asked.body["metadata"]["resourceVersion"]) {
                return status(409, "conflict");
            }
            let version =
                before.and_then(|text| text.as_str().and_then(|text| text.parse::<u64>().ok()));
            let mut put = asked.body.clone();
            put["metadata"]["resourceVersion"] = (version.unwrap_or(0) + 1).to_string().into();
            objects.lease = Some(put.clone());
            Answer::Json(200, put)
        }
        _ => status(404, "not served by the test"),
    }
}

/// An extender that stops when it is dropped.
pub(crate) struct Extender {
    pub(crate) address: SocketAddr,
    pub(crate) probes: SocketAddr,
    pub(crate) api: Server,
    stop: Option<Sender<Signal>>,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

/// A free port outside the kernel's range of ephemeral ports, so that no other process gets it before it is used.
fn free_port() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    loop {
        let address = SocketAddr::from(([127, 0, 0, 1], NEXT.fetch_add(1, Ordering::Relaxed)));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

impl Extender {
    /// Starts an extender without leader election.
    pub(crate) fn start(objects: &Shared) -> Self {
        Self::start_with(objects, |config| config.leader.elect = false)
    }

    pub(crate) fn start_with(objects: &Shared, change: impl FnOnce(&mut ExtenderConfig)) -> Self {
        let objects = objects.clone();
        let api = Server::start(move |asked| answer(&objects, asked));
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig(&api.connection().url())).unwrap();
        let (address, probes) = (free_port(), free_port());
        let mut config = ExtenderConfig {
            listen: address,
            ..ExtenderConfig::default()
        };
        config.metrics.listen = Some(probes);
        config.kubernetes.kubeconfig = Access::File(path);
        change(&mut config);
        let (stop, signals) = SignalReceiver::channel();
        let thread = thread::spawn(move || {
            let reread = || Err("no other configuration".to_owned());
            daemon::run(&config, &reread, &signals).unwrap();
        });
        Self {
            address,
            probes,
            api,
            stop: Some(stop),
            thread: Some(thread),
            _folder: folder,
        }
    }

    /// Waits until the extender is ready.
    pub(crate) fn ready(self) -> Self {
        self.eventually_ready();
        self
    }

    pub(crate) fn eventually_ready(&self) {
        eventually("the extender is ready", || self.readiness().0 == 200);
    }

    pub(crate) fn readiness(&self) -> (u16, String) {
        match TcpStream::connect(self.probes) {
            Ok(stream) => exchange(stream, "GET", "/readyz", b""),
            Err(_) => (0, String::new()),
        }
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        exchange(
            TcpStream::connect(self.address).unwrap(),
            method,
            path,
            body,
        )
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (code, text) = self.send("POST", path, body.to_string().as_bytes());
        (code, serde_json::from_str(&text).unwrap_or_default())
    }

    pub(crate) fn filter(&self, pod: &Value, names: &[&str]) -> Value {
        let (code, answer) = self.post(
            "/filter",
            &json!({ "Pod": pod, "Nodes": null, "NodeNames": names }),
        );
        assert_eq!(code, 200, "{answer}");
        answer
    }

    pub(crate) fn bind(&self, name: &str, node: &str) -> String {
        let body = json!({
            "PodName": name, "PodNamespace": "default", "PodUID": format!("uid-{name}"), "Node": node,
        });
        let (code, answer) = self.post("/bind", &body);
        assert_eq!(code, 200, "{answer}");
        answer["Error"].as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for Extender {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || thread::panicking(),
                "the daemon stops without an error"
            );
        }
    }
}

pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends one request and reads the response.
pub(crate) fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    body: &[u8],
) -> (u16, String) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // The server may close the connection before everything is sent.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return (0, String::new());
    };
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.unwrap_or(0), body.to_owned())
}
