//! [`Cluster`]: a control plane and a node with containerd and a kubelet, in the namespaces that the suite runs in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::stage::eventually;
use crate::control_plane::{Admin, ControlPlane, Credentials, Process, Reach, Scheduler};
use crate::programs::workspace;
use crate::report::equal;

/// The environment variable with the control group of the node.
pub(super) const GROUP: &str = "PINFOLD_E2E_GROUP";
/// The name of the node.
pub(super) const NODE: &str = "node-1";
/// The address of the node, which `host-node.sh` gave to this network.
const ADDRESS: &str = "10.98.0.1";
/// The configuration of the kubelet, where `mode: mirror` reads it.
const CONFIGURATION: &str = "/var/lib/kubelet/config.yaml";

/// The control group of the node.
pub(super) fn group() -> String {
    std::env::var(GROUP).unwrap_or_default()
}

/// A running cluster. Everything ends with it.
pub(super) struct Cluster {
    kubelet: Option<Process>,
    pub(super) admin: Admin,
    _containerd: Process,
    _scheduler: Process,
    _controllers: Process,
    pub(super) plane: ControlPlane,
    pub(super) prepared: PathBuf,
    kubeconfig: PathBuf,
    user_home: PathBuf,
}

impl Cluster {
    /// Starts everything, and waits until the node is ready.
    pub(super) fn start(prepared: &Path, folder: &Path) -> Result<Self, String> {
        let plane = ControlPlane::start_for(folder, Reach::Pods(ADDRESS))?;
        let admin = plane.admin()?;
        let controllers = plane.every_controller()?;
        let scheduler = plane.scheduler(&Scheduler {
            name: "default-scheduler",
            engine: None,
            elects: false,
        })?;
        let kubeconfig = plane.kubeconfig("admin", &Credentials::Certificate("admin"))?;
        let containerd = containerd(prepared, folder)?;
        plane.client_certificate(NODE, &format!("/O=system:nodes/CN=system:node:{NODE}"))?;
        plane.kubeconfig(NODE, &Credentials::Certificate(NODE))?;
        let user_home = folder.join("home");
        fs::create_dir_all(&user_home)
            .map_err(|error| format!("{}: {error}", user_home.display()))?;
        let mut cluster = Self {
            kubelet: None,
            admin,
            _containerd: containerd,
            _scheduler: scheduler,
            _controllers: controllers,
            plane,
            prepared: prepared.to_owned(),
            kubeconfig,
            user_home,
        };
        eventually("containerd answers", || {
            cluster.user("ctr version").map(drop)
        })?;
        let image = prepared.join("image/image.tar");
        cluster.user(&format!("ctr -n k8s.io images import {}", image.display()))?;
        cluster.start_kubelet("static", "single-numa-node", "Static")?;
        Ok(cluster)
    }

    /// Runs commands as a user with access to the cluster, in the sources; the output.
    pub(super) fn user(&self, commands: &str) -> Result<String, String> {
        let output = self.answer(commands)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.success() {
            true => Ok(said),
            false => Err(format!(
                "{commands}\n{}: {said}{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }

    /// The same, whatever the commands end with.
    pub(super) fn answer(&self, commands: &str) -> Result<Output, String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.prepared.join("bin").display());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", commands]);
        as_user(&mut command)
            .current_dir(workspace())
            .env("PATH", path)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HELM_CACHE_HOME", &self.user_home)
            .env("HELM_CONFIG_HOME", &self.user_home)
            .env("HELM_DATA_HOME", &self.user_home)
            .output()
            .map_err(|error| format!("bash: {error}"))
    }

    /// Imports the images of `make images`, as a registry would serve them.
    pub(super) fn import_images(&self) -> Result<(), String> {
        let import = "for archive in target/images/*.oci.tar; do ctr -n k8s.io images import \"$archive\"; done";
        self.user(import).map(drop)
    }

    /// Starts the kubelet with these policies of its CPU, topology and memory manager, and waits until the node is ready.
    pub(super) fn start_kubelet(
        &mut self,
        cpu: &str,
        topology: &str,
        memory: &str,
    ) -> Result<(), String> {
        let folder = self.plane.folder();
        let config = configuration(folder, cpu, topology, memory);
        fs::write(CONFIGURATION, config.to_string())
            .map_err(|error| format!("{CONFIGURATION}: {error}"))?;
        let kubeconfig = folder.join(format!("{NODE}.kubeconfig"));
        let arguments = [
            format!("--config={CONFIGURATION}"),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={NODE}"),
            format!("--node-ip={ADDRESS}"),
            "--v=2".to_owned(),
        ];
        let program = self.prepared.join("bin/kubelet");
        let mut kubelet = Process::start(&program, folder, "kubelet", &arguments)?;
        let path = format!("/api/v1/nodes/{NODE}");
        let started = eventually("the node is ready", || {
            if !kubelet.is_running() {
                return Err("the kubelet ended".to_owned());
            }
            let node = self.admin.expect("GET", &path, None)?;
            let mut conditions = node["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            let ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
            equal("ready", ready, true)?;
            equal("tainted", node["spec"]["taints"].is_array(), false)
        });
        let words = kubelet.last_words();
        self.kubelet = Some(kubelet);
        started.map_err(|problem| format!("{problem}\n{words}"))
    }

    /// Stops the kubelet as a service manager does; its containers run on.
    pub(super) fn stop_kubelet(&mut self) -> Result<(), String> {
        if let Some(mut kubelet) = self.kubelet.take() {
            kubelet.signal("TERM")?;
            let ended = || equal("running", kubelet.is_running(), false);
            eventually("the kubelet ends", ended)?;
        }
        Ok(())
    }

    /// Waits until an object is so.
    pub(super) fn wait(
        &self,
        what: &str,
        path: &str,
        mut is_so: impl FnMut(&Value) -> Result<(), String>,
    ) -> Result<Value, String> {
        eventually(what, || {
            let object = self.admin.expect("GET", path, None)?;
            is_so(&object)?;
            Ok(object)
        })
    }
}

/// A command without the variables of the build that this program is of.
pub(super) fn as_user(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let is_of_build = name.to_string_lossy().starts_with("CARGO");
        if is_of_build && name != "CARGO_HOME" && name != "CARGO_TARGET_DIR" {
            command.env_remove(&name);
        }
    }
    command.env_remove("RUSTUP_TOOLCHAIN")
}

/// How long the kubelet may wait for an object that changed.
const FREQUENCY: Duration = Duration::from_secs(2);

/// As an operator writes it; small for a machine of two CPUs.
fn configuration(folder: &Path, cpu: &str, topology: &str, memory: &str) -> Value {
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false }, "webhook": { "enabled": true },
            "x509": { "clientCAFile": folder.join("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cpuManagerPolicy": cpu, "topologyManagerPolicy": topology, "memoryManagerPolicy": memory,
        "kubeReserved": { "cpu": "50m", "memory": "1Gi" },
        "evictionHard": { "memory.available": "100Mi" },
        "clusterDNS": ["10.96.0.10"], "resolvConf": "",
        "syncFrequency": format!("{}s", FREQUENCY.as_secs()),
        "nodeStatusUpdateFrequency": "2s",
        // What this machine needs, which is a container of another one.
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{}", group()), "failCgroupV1": false,
        "failSwapOn": false, "oomScoreAdj": 0, "makeIPTablesUtilChains": false,
        "localStorageCapacityIsolation": false, "imageGCHighThresholdPercent": 100,
    });
    if memory == "Static" {
        config["reservedMemory"] = json!([{ "numaNode": 0, "limits": { "memory": "1124Mi" } }]);
    }
    config
}

/// containerd at its usual places, with NRI as the installation page says.
fn containerd(prepared: &Path, folder: &Path) -> Result<Process, String> {
    let config = folder.join("containerd.toml");
    let runc = prepared.join("bin/runc");
    let text = format!(
        r#"version = 2
[plugins."io.containerd.nri.v1.nri"]
disable = false
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/e2e:1"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
"#,
        runc.display()
    );
    fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let program = "/usr/bin/env".as_ref();
    let arguments = [
        format!("PATH={}:{path}", prepared.join("bin").display()),
        "containerd".to_owned(),
        format!("--config={}", config.display()),
    ];
    Process::start(program, folder, "containerd", &arguments)
}
