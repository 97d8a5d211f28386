//! [`RealNode`]: a node of the cluster with a real kubelet, a real container runtime and the agent, on an emulated
//! machine with two NUMA nodes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::kubelets::TOPOLOGIES;
use super::stage::{Stage, eventually};
use crate::containerd::make_image;
use crate::containerd::packages::{self, RELEASES};
use crate::control_plane::{ControlPlane, sources};
use crate::emulated::{Emulated, Node};
use crate::guest::{Guest, Load, Server};
use crate::programs::{self, AGENT, workspace};
use crate::report::{equal, say};

/// Makes a node of an emulated machine that has [`base_load`].
pub(crate) const START: &str = include_str!("../../scripts/node-start.sh");
const SCRIPT: &str = include_str!("../../scripts/node.sh");

/// The most pods in [`Mode::Admission`].
const MOST_PODS: u32 = 20;

/// Who pins on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The kubelet's managers, under `single-numa-node`; the agent mirrors them.
    Kubelet,
    /// The agent, through the runtime; the kubelet's managers are off.
    Agent,
    /// As [`Mode::Kubelet`], with hugepages, few pods, and static pods from this port of the host.
    Admission(u16),
}

impl Mode {
    /// More for the kernel's command line.
    fn kernel_options(self) -> &'static str {
        match self {
            Mode::Kubelet | Mode::Agent => "",
            Mode::Admission(_) => "hugepages=64",
        }
    }
}

/// A real node. It is switched off with this.
pub(crate) struct RealNode {
    pub(crate) name: &'static str,
    server: Server,
}

/// Two sockets with a NUMA node each: eight CPUs, two of every core.
fn machine() -> Emulated {
    let node = |first| Node {
        cpus: Some((first, 4)),
        mib: 2048,
        initiator: None,
    };
    Emulated {
        shape: (2, 2, 2),
        nodes: vec![node(0), node(4)],
        distances: vec![(0, 1, 21), (1, 0, 21)],
        ..Emulated::default()
    }
}

impl RealNode {
    /// Switches it on. It takes its time: see [`RealNode::wait`].
    pub(crate) fn start(stage: &Stage, name: &'static str, mode: Mode) -> Result<Self, String> {
        programs::install_emulator()?;
        let folder = stage.plane.folder().join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let load = load(stage, &folder, name, mode)?;
        let guest = Guest {
            name,
            hardware: machine(),
            kernel: None,
            kernel_options: mode.kernel_options(),
        };
        say(format_args!("switching {name} on"));
        let server = guest.serve(&load, &format!("{START}{SCRIPT}"), None)?;
        Ok(Self { name, server })
    }

    /// Waits until the node is ready and has reported its NUMA nodes.
    pub(crate) fn wait(&mut self, stage: &Stage) -> Result<(), String> {
        let node = format!("/api/v1/nodes/{}", self.name);
        let report = format!("{TOPOLOGIES}/{}", self.name);
        // Emulation is slow: the usual timeout may not be enough.
        for _ in 0..4 {
            let ready = eventually("the node is ready", || {
                let found = stage.admin.expect("GET", &node, None)?;
                equal("ready", is_ready(&found), true)?;
                equal("tainted", found["spec"]["taints"].is_array(), false)?;
                stage.admin.expect("GET", &report, None).map(drop)
            });
            if ready.is_ok() || !self.server.is_running() {
                return ready.map_err(|problem| self.with_words(&problem));
            }
            say(format_args!("        {} is not ready yet", self.name));
        }
        Err(self.with_words("the node is not ready"))
    }

    /// A problem, with the last lines of the console.
    pub(crate) fn with_words(&self, problem: &str) -> String {
        format!("{problem}\n  {}", self.server.last_words())
    }

    /// What the kernel lets the containers of a pod use: CPUs and NUMA nodes, by control group.
    pub(crate) fn groups(&self, pod: &str) -> BTreeMap<String, (String, String)> {
        let own = self.rows("group").filter(|row| row[0].contains(pod));
        own.map(|[group, cpus, mems]| (group, (cpus, mems)))
            .collect()
    }

    /// The CPUs in the agent's podresources API, for the containers of a pod.
    pub(crate) fn held(&self, pod: &str) -> Vec<String> {
        let own = self.rows("held").filter(|row| row[0] == pod);
        own.map(|[_, _, cpus]| cpus).collect()
    }

    /// The lines of the last complete round on the console that begin with a word.
    fn rows(&self, word: &str) -> impl Iterator<Item = [String; 3]> {
        let said = self.server.said();
        let rounds: Vec<&[String]> = said.split(|line| line == "round").collect();
        // The last round may not be whole.
        let last = rounds.len().checked_sub(2);
        let last = last.map_or(&[][..], |last| rounds[last]);
        let rows = last.iter().filter_map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            let is_own = words.next().is_some_and(|first| first == word);
            is_own.then_some([words.next()?, words.next()?, words.next()?])
        });
        rows.collect::<Vec<_>>().into_iter()
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Everything that the guest carries.
fn load(stage: &Stage, folder: &Path, name: &str, mode: Mode) -> Result<Load, String> {
    let mut load = base_load(stage, folder, name)?;
    let texts = [
        ("kubelet.yaml", kubelet_configuration(mode).to_string()),
        ("rules.yaml", rules().to_string()),
        ("agent.yaml", agent_configuration(name, mode).to_string()),
    ];
    for (file, text) in texts {
        add_text(&mut load, folder, file, &text)?;
    }
    Ok(load)
}

/// The programs of a node, its certificate, the kubeconfigs of kubelet and agent, and the configuration of containerd.
pub(crate) fn base_load(stage: &Stage, folder: &Path, name: &str) -> Result<Load, String> {
    let plane = &stage.plane;
    let release = RELEASES.last().ok_or("there is no containerd")?;
    let runtime = packages::fetch(release)?;
    let kubelet = sources::build(&["kubelet"])?.join("kubelet");
    let mut load = Load::of(&[
        ("containerd", &runtime.containerd.join("containerd")),
        (
            "containerd-shim-runc-v2",
            &runtime.containerd.join("containerd-shim-runc-v2"),
        ),
        ("ctr", &runtime.containerd.join("ctr")),
        ("runc", &runtime.runc),
        ("kubelet", &kubelet),
        (AGENT, &programs::stripped_program(AGENT)?),
        ("e2e", &programs::stripped_e2e()?),
    ])?;
    load.module("e1000");
    let image = make_image(&folder.join("image"))?;
    load.file("etc/node/image.tar", &image);
    let user = format!("/O=system:nodes/CN=system:node:{name}");
    plane.client_certificate(name, &user)?;
    for (inside, outside) in [
        ("ca.crt", "ca.crt".to_owned()),
        ("node.crt", format!("{name}.crt")),
        ("node.key", format!("{name}.key")),
    ] {
        load.file(&format!("etc/node/{inside}"), &plane.folder().join(outside));
    }
    let role = workspace().join("deploy/agent/rbac.yaml");
    stage.admin.create(&role)?;
    let token = stage.admin.token("pinfold-agent")?;
    let certificate = json!({
        "client-certificate": "/etc/node/node.crt", "client-key": "/etc/node/node.key",
    });
    let texts = [
        ("name", name.to_owned()),
        ("kubeconfig", kubeconfig(plane, &certificate)),
        (
            "agent.kubeconfig",
            kubeconfig(plane, &json!({ "token": token })),
        ),
        ("containerd.toml", CONTAINERD.to_owned()),
        ("cni.conflist", CNI.to_owned()),
    ];
    for (file, text) in texts {
        add_text(&mut load, folder, file, &text)?;
    }
    load.file(
        "etc/cni/net.d/10-loopback.conflist",
        &folder.join("cni.conflist"),
    );
    Ok(load)
}

/// A file in the node's /etc/node.
fn add_text(load: &mut Load, folder: &Path, file: &str, text: &str) -> Result<(), String> {
    let path: PathBuf = folder.join(file);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    load.file(&format!("etc/node/{file}"), &path);
    Ok(())
}

fn kubeconfig(plane: &ControlPlane, user: &Value) -> String {
    let cluster = json!({
        "server": format!("https://10.0.2.2:{}", plane.port()),
        "certificate-authority": "/etc/node/ca.crt",
    });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
        "clusters": [{ "name": "e2e", "cluster": cluster }],
        "users": [{ "name": "e2e", "user": user }],
        "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
    });
    config.to_string()
}

/// The kubelet settings of the node, for the kubelet or the agent.
fn rules() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "topologyManagerPolicy": "single-numa-node",
        "reservedSystemCPUs": "0",
        "evictionHard": { "memory.available": "100Mi" },
    })
}

/// The configuration of the node's kubelet.
pub(crate) fn kubelet_configuration(mode: Mode) -> Value {
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false }, "webhook": { "enabled": false },
            "x509": { "clientCAFile": "/etc/node/ca.crt" },
        },
        "authorization": { "mode": "AlwaysAllow" },
        "containerRuntimeEndpoint": "unix:///run/node/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        "makeIPTablesUtilChains": false,
        "resolvConf": "",
        "nodeStatusUpdateFrequency": "4s",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": { "memory.available": "100Mi" },
        "reservedSystemCPUs": "0",
        // Emulated machines take their time for everything.
        "runtimeRequestTimeout": "5m",
    });
    if mode != Mode::Agent {
        config["cpuManagerPolicy"] = "static".into();
        config["topologyManagerPolicy"] = "single-numa-node".into();
    }
    if let Mode::Admission(port) = mode {
        config["maxPods"] = MOST_PODS.into();
        config["staticPodURL"] = format!("http://10.0.2.2:{port}/").into();
        config["httpCheckFrequency"] = "1s".into();
    }
    config
}

fn agent_configuration(name: &str, mode: Mode) -> Value {
    let mut config = json!({
        "nodeName": name,
        "kubelet": { "configFile": "/etc/node/kubelet.yaml", "rootDirectory": "/var/lib/kubelet" },
        "stateDirectory": "/var/lib/pinfold",
        "kubernetes": { "kubeconfig": "/etc/node/agent.kubeconfig", "publishInterval": "1s" },
        "metrics": { "listen": "none" },
    });
    match mode {
        Mode::Kubelet | Mode::Admission(_) => {
            config["mode"] = "mirror".into();
            config["runtime"] = json!({ "nriSocket": "none" });
        }
        Mode::Agent => {
            config["mode"] = "manage".into();
            config["dialect"] = "koordinator".into();
            // What best-effort pods have depends on the classes alone here, not on the load of the machine.
            config["koordinator"] = json!({ "suppression": false });
            config["kubelet"]["configFile"] = "/etc/node/rules.yaml".into();
            config["runtime"] = json!({ "nriSocket": "/run/node/nri.sock" });
        }
    }
    config
}

/// A network that is there, and no more: pods of the suite use the host's.
const CNI: &str = r#"{"cniVersion":"1.0.0","name":"none","plugins":[{"type":"loopback"}]}"#;

/// Plugins on emulated machines need more time than the two seconds that they usually have.
const CONTAINERD: &str = r#"version = 3
root = "/var/lib/containerd"
state = "/run/node/state"
[grpc]
address = "/run/node/containerd.sock"
[ttrpc]
address = "/run/node/containerd.sock.ttrpc"
[plugins."io.containerd.nri.v1.nri"]
disable = false
disable_connections = false
socket_path = "/run/node/nri.sock"
plugin_path = "/run/node/plugins"
plugin_config_path = "/run/node/plugins.conf"
plugin_registration_timeout = "2m"
plugin_request_timeout = "2m"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "native"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "localhost/e2e:1"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "/bin/runc"
SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dir = "/opt/cni"
conf_dir = "/etc/cni/net.d"
"#;
