//! A Kubernetes control plane of real programs on this machine: etcd and the API server, with certificates and roles,
//! and those that a story asks for: kube-scheduler, kube-controller-manager.
//!
//! Every program is a [`Process`] with a log of its own and a [`ControlPlane::kubeconfig`].

mod admin;
mod certificates;
mod controllers;
mod process;
mod scheduler;
pub(crate) mod sources;

pub(crate) use admin::Admin;
pub(crate) use process::Process;
pub(crate) use scheduler::Scheduler;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The timeout of every request on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The audit log has the metadata of every request without its body.
const AUDIT: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

/// The address of the Service `kubernetes`, the first of the range of Services.
pub(crate) const SERVICE_ADDRESS: &str = "10.96.0.1";

/// Who can connect to an API server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach<'t> {
    /// Programs of this machine.
    Loopback,
    /// Also pods of a node at this address of this machine, which has [`SERVICE_ADDRESS`] too: the API server listens on the
    /// port of its Service.
    Pods(&'t str),
}

/// The credentials of a client.
pub(crate) enum Credentials<'t> {
    /// The name of a certificate.
    Certificate(&'t str),
    /// The token of a service account.
    Token(&'t str),
}

/// A control plane. Everything ends with this, the API server first.
pub(crate) struct ControlPlane {
    api_server: Process,
    _etcd: Process,
    programs: PathBuf,
    folder: PathBuf,
    address: Option<String>,
    port: u16,
    etcd_port: u16,
}

impl ControlPlane {
    /// Builds what is not there yet, and starts it in an empty folder.
    pub(crate) fn start(folder: &Path) -> Result<Self, String> {
        Self::start_for(folder, Reach::Loopback)
    }

    /// The same, for these clients.
    pub(crate) fn start_for(folder: &Path, reach: Reach<'_>) -> Result<Self, String> {
        let programs = sources::build(&["etcd", "kube-apiserver"])?;
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
        certificates::make(folder)?;
        write(&folder.join("audit.yaml"), AUDIT)?;
        let [free_port, etcd_port, peer_port] = free_ports()?;
        let (port, address) = match reach {
            Reach::Loopback => (free_port, None),
            Reach::Pods(address) => (443, Some(address.to_owned())),
        };
        let etcd = etcd(&programs, folder, etcd_port, peer_port)?;
        let api_server = api_server(&programs, folder, address.as_deref(), port, etcd_port)?;
        let mut plane = Self {
            api_server,
            _etcd: etcd,
            programs,
            folder: folder.to_owned(),
            address,
            port,
            etcd_port,
        };
        plane.wait()?;
        Ok(plane)
    }

    /// The administrator, by a client certificate.
    pub(crate) fn admin(&self) -> Result<Admin, String> {
        Admin::new(&self.kubeconfig("admin", &Credentials::Certificate("admin"))?)
    }

    /// A kubeconfig for a client.
    pub(crate) fn kubeconfig(
        &self,
        name: &str,
        credentials: &Credentials<'_>,
    ) -> Result<PathBuf, String> {
        let file = |name: String| self.folder.join(name).display().to_string();
        let user = match credentials {
            Credentials::Token(token) => json!({ "token": token }),
            Credentials::Certificate(name) => json!({
                "client-certificate": file(format!("{name}.crt")),
                "client-key": file(format!("{name}.key")),
            }),
        };
        let cluster = json!({
            "server": format!("https://127.0.0.1:{}", self.port),
            "certificate-authority": file("ca.crt".to_owned()),
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{ "name": "e2e", "cluster": cluster }],
            "users": [{ "name": "e2e", "user": user }],
            "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
        });
        let path = self.folder.join(format!("{name}.kubeconfig"));
        write(&path, &config.to_string())?;
        Ok(path)
    }

    /// Where everything of this run is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the API server listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A certificate of a client with this subject, such as `/O=system:nodes/CN=system:node:worker-1`.
    pub(crate) fn client_certificate(&self, name: &str, subject: &str) -> Result<(), String> {
        certificates::signed(&self.folder, name, subject, certificates::CLIENT)
    }

    /// Ends the API server as a crash does.
    pub(crate) fn kill_api_server(&mut self) {
        self.api_server.kill();
    }

    /// Starts it again at the same place.
    pub(crate) fn start_api_server(&mut self) -> Result<(), String> {
        self.api_server = api_server(
            &self.programs,
            &self.folder,
            self.address.as_deref(),
            self.port,
            self.etcd_port,
        )?;
        self.wait()
    }

    /// Makes etcd forget everything but the present.
    pub(crate) fn compact(&self) -> Result<(), String> {
        let status = self.etcd("/v3/maintenance/status", &json!({}))?;
        let revision = &status["header"]["revision"];
        self.etcd(
            "/v3/kv/compaction",
            &json!({ "revision": revision, "physical": true }),
        )
        .map(drop)
    }

    /// A metric of etcd without labels.
    pub(crate) fn etcd_metric(&self, name: &str) -> Result<f64, String> {
        let text = self.etcd_page("GET", "/metrics", "")?;
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
        let value = values.find_map(|value| value.trim().parse().ok());
        value.ok_or_else(|| format!("etcd has no metric {name}"))
    }

    /// Asks etcd.
    fn etcd(&self, path: &str, body: &Value) -> Result<Value, String> {
        let answer = self.etcd_page("POST", path, &body.to_string())?;
        serde_json::from_str(&answer).map_err(|error| format!("etcd: {error}: {answer}"))
    }

    fn etcd_page(&self, method: &str, path: &str, body: &str) -> Result<String, String> {
        let words = |error: std::io::Error| format!("etcd: {error}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.etcd_port)).map_err(words)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(words)?;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).map_err(words)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(words)?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
            _ => Err(format!("etcd: {path}: {answer}")),
        }
    }

    /// Waits until the API server can do everything.
    fn wait(&mut self) -> Result<(), String> {
        let admin = self.admin()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = admin.ask("GET", "/readyz", None);
            if matches!(answer, Ok((200, _))) {
                return Ok(());
            }
            if !self.api_server.is_running() {
                return Err(format!(
                    "the API server ended:\n{}",
                    self.api_server.last_words()
                ));
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "the API server is not ready: {answer:?}\n{}",
                    self.api_server.last_words()
                ));
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// What a user asked for so far, as verb and resource.
    pub(crate) fn audited(&self, user: &str) -> Result<Vec<(String, String)>, String> {
        let path = self.folder.join("audit.log");
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = events.filter(|event| event["user"]["username"] == user);
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(own
            .map(|event| (word(&event["verb"]), word(&event["objectRef"]["resource"])))
            .collect())
    }
}

fn etcd(programs: &Path, folder: &Path, port: u16, peer_port: u16) -> Result<Process, String> {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    let data = folder.join("etcd").display().to_string();
    let cluster = format!("default={peer}");
    run(
        programs,
        folder,
        "etcd",
        &[
            ("data-dir", &data),
            ("listen-client-urls", &client),
            ("advertise-client-urls", &client),
            ("listen-peer-urls", &peer),
            ("initial-advertise-peer-urls", &peer),
            ("initial-cluster", &cluster),
            // Nothing here outlives the machine.
            ("unsafe-no-fsync", "true"),
        ],
    )
}

fn api_server(
    programs: &Path,
    folder: &Path,
    address: Option<&str>,
    port: u16,
    etcd_port: u16,
) -> Result<Process, String> {
    let file = |name: &str| folder.join(name).display().to_string();
    run(
        programs,
        folder,
        "kube-apiserver",
        &[
            ("etcd-servers", &format!("http://127.0.0.1:{etcd_port}")),
            ("bind-address", address.map_or("127.0.0.1", |_| "0.0.0.0")),
            ("advertise-address", address.unwrap_or("127.0.0.1")),
            ("kubelet-client-certificate", &file("admin.crt")),
            ("kubelet-client-key", &file("admin.key")),
            ("kubelet-preferred-address-types", "InternalIP"),
            ("secure-port", &port.to_string()),
            ("tls-cert-file", &file("server.crt")),
            ("tls-private-key-file", &file("server.key")),
            ("client-ca-file", &file("ca.crt")),
            ("authorization-mode", "Node,RBAC"),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-account-key-file", &file("accounts.key")),
            ("service-account-signing-key-file", &file("accounts.key")),
            ("service-cluster-ip-range", "10.96.0.0/16"),
            // Its own address is not reachable on a loopback interface.
            ("endpoint-reconciler-type", "none"),
            ("audit-policy-file", &file("audit.yaml")),
            ("audit-log-path", &file("audit.log")),
        ],
    )
}

/// Starts a program with these flags.
fn run(
    programs: &Path,
    folder: &Path,
    name: &str,
    flags: &[(&str, &str)],
) -> Result<Process, String> {
    let flags = flags.iter();
    let arguments: Vec<String> = flags
        .map(|(flag, value)| format!("--{flag}={value}"))
        .collect();
    Process::start(&programs.join(name), folder, name, &arguments)
}

/// Ports without a listener: not of those that the kernel hands out, of which another process may get one while the
/// program that it is meant for starts, or starts again.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N], String> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Another suite may be starting too: each looks in a part of its own.
    let first = u16::try_from(std::process::id() % 100).unwrap_or(0) * 100;
    let mut ports = [0; N];
    for port in &mut ports {
        let next = || 22_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        let mut tried = std::iter::repeat_with(next).take(5000);
        let free = tried.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
        *port = free.ok_or("no port is free")?;
    }
    Ok(ports)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
