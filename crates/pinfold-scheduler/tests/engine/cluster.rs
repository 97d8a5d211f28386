//! A fake cluster, and an engine that runs in it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pinfold_daemon::signals::{Signal, SignalReceiver};
use pinfold_scheduler::config::{Access, EngineConfig};
use pinfold_scheduler::daemon;
use pinfold_scheduler::engine::wire::{
    ConnectRequest, EngineCallsClient, FilterNodeRequest, PreFilterReply, PreFilterRequest,
    ReserveReply, ReserveRequest, UnreserveRequest, VERSION, WirePod, WireRejection,
    WireReservation,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::Status;

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

/// The objects of the fake API server.
pub(crate) struct Objects {
    pub(crate) nodes: Vec<Value>,
    pub(crate) reports: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    /// How many more lists of reports succeed before they are not served any more; `None` for all.
    pub(crate) reports_known: Option<usize>,
}

pub(crate) type Shared = Arc<Mutex<Objects>>;

/// The objects of a cluster with these nodes.
pub(crate) fn objects(nodes: &[&str]) -> Shared {
    Arc::new(Mutex::new(Objects {
        nodes: nodes.iter().map(|name| node(name)).collect(),
        reports: nodes.iter().map(|name| report(name)).collect(),
        pods: Vec::new(),
        reports_known: None,
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
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/api/v1/nodes") => list(&objects.nodes),
        ("GET", "/api/v1/pods") => list(&objects.pods),
        ("GET", _) if of_reports => list(&objects.reports),
        ("GET", path) if path.ends_with("/numatopologies") => status(404, "no such kind"),
        _ => status(404, "not served by the test"),
    }
}

/// An engine that stops when it is dropped.
pub(crate) struct RunningEngine {
    pub(crate) socket: PathBuf,
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

impl RunningEngine {
    pub(crate) fn start(objects: &Shared) -> Self {
        let objects = objects.clone();
        let api = Server::start(move |asked| answer(&objects, asked));
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig(&api.connection().url())).unwrap();
        let (socket, probes) = (folder.path().join("run/engine.sock"), free_port());
        let mut config = EngineConfig {
            socket: socket.clone(),
            ..EngineConfig::default()
        };
        config.metrics.listen = Some(probes);
        config.kubernetes.kubeconfig = Access::File(path);
        let (stop, signals) = SignalReceiver::channel();
        let thread = thread::spawn(move || {
            let reread = || Err("no other configuration".to_owned());
            daemon::run(&config, &reread, &signals).unwrap();
        });
        let engine = Self {
            socket,
            probes,
            api,
            stop: Some(stop),
            thread: Some(thread),
            _folder: folder,
        };
        eventually("the engine is ready", || engine.get("/readyz").0 == 200);
        engine
    }

    /// A page of its probes and metrics.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        match TcpStream::connect(self.probes) {
            Ok(stream) => exchange(stream, "GET", path, b""),
            Err(_) => (0, String::new()),
        }
    }

    /// A kube-scheduler of this number, without a session.
    pub(crate) fn scheduler(&self, number: u64) -> FakeScheduler {
        let runtime = Runtime::new().unwrap();
        let channel = runtime.block_on(kubelet_api::unix::connect(&self.socket));
        FakeScheduler {
            calls: EngineCallsClient::new(channel.unwrap()),
            runtime,
            number,
        }
    }

    /// A kube-scheduler with a session.
    pub(crate) fn connected(&self, number: u64) -> FakeScheduler {
        let mut scheduler = self.scheduler(number);
        scheduler.connect_with(&[]);
        scheduler
    }
}

/// A kube-scheduler that calls the engine.
pub(crate) struct FakeScheduler {
    pub(crate) calls: EngineCallsClient,
    pub(crate) runtime: Runtime,
    number: u64,
}

/// The message of a pod with its object.
pub(crate) fn wire(pod: &Value) -> WirePod {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default().to_owned();
    WirePod {
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        json: pod.to_string().into_bytes(),
    }
}

impl FakeScheduler {
    /// Starts a session in which these pods are reserved; waits until the engine has listed all pods.
    pub(crate) fn connect_with(&mut self, reserved: &[(&Value, &str)]) {
        let reserved = reserved.iter().map(|(pod, node)| (wire(pod), *node));
        self.connect_as(reserved.collect());
    }

    /// The same for the uids of pods, without their objects and with another version than the engine has.
    pub(crate) fn connect_naming(&mut self, reserved: &[(&str, &str)]) {
        let named = |uid: &str| WirePod {
            uid: uid.to_owned(),
            resource_version: "99".to_owned(),
            json: Vec::new(),
        };
        let reserved = reserved.iter().map(|(uid, node)| (named(uid), *node));
        self.connect_as(reserved.collect());
    }

    fn connect_as(&mut self, reserved: Vec<(WirePod, &str)>) {
        let reserved = reserved.into_iter().map(|(pod, node)| WireReservation {
            pod: Some(pod),
            node: node.to_owned(),
        });
        let request = ConnectRequest {
            version: VERSION,
            scheduler: self.number,
            reservations: reserved.collect(),
            dialects: None,
        };
        eventually("the session starts", || {
            let reply = self.calls.connect(request.clone());
            self.runtime.block_on(reply).is_ok()
        });
    }

    pub(crate) fn pre_filter(&mut self, pod: &Value) -> Result<PreFilterReply, Status> {
        let request = PreFilterRequest {
            scheduler: self.number,
            pod: Some(wire(pod)),
            nodes_generation: 0,
            pods_version: 0,
            nominated_node: String::new(),
        };
        let reply = self.calls.pre_filter(request);
        Ok(self.runtime.block_on(reply)?.into_inner())
    }

    /// The names of the nodes that take the pod.
    pub(crate) fn fitting(&mut self, pod: &Value) -> Vec<String> {
        let reply = self.pre_filter(pod).unwrap();
        let fits = |at: usize| reply.fits[at / 8] & (1 << (at % 8)) != 0;
        let names = reply.nodes.iter().enumerate();
        names
            .filter(|(at, _)| fits(*at))
            .map(|(_, name)| name.clone())
            .collect()
    }

    /// Why a node rejects the pod with pods added and removed.
    pub(crate) fn filter_node(
        &mut self,
        pod: &Value,
        node: &str,
        added: &[&Value],
        removed: &[&str],
    ) -> Option<WireRejection> {
        let request = FilterNodeRequest {
            scheduler: self.number,
            pod: Some(wire(pod)),
            node: node.to_owned(),
            added: added.iter().map(|pod| wire(pod)).collect(),
            removed: removed.iter().map(|uid| (*uid).to_owned()).collect(),
        };
        let reply = self.runtime.block_on(self.calls.filter_node(request));
        reply.unwrap().into_inner().rejection
    }

    pub(crate) fn reserve(&mut self, pod: &Value, node: &str) -> Result<ReserveReply, Status> {
        let request = ReserveRequest {
            scheduler: self.number,
            pod: Some(wire(pod)),
            node: node.to_owned(),
        };
        let reply = self.runtime.block_on(self.calls.reserve(request));
        Ok(reply?.into_inner())
    }

    pub(crate) fn unreserve(&mut self, uid: &str, maybe_bound: bool) {
        let request = UnreserveRequest {
            scheduler: self.number,
            uid: uid.to_owned(),
            maybe_bound,
        };
        let reply = self.runtime.block_on(self.calls.unreserve(request));
        reply.unwrap();
    }
}

impl Drop for RunningEngine {
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
