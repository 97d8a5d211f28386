//! [`Settings`] of the node's kubelet, and starting it with them.

use std::fmt::Write;

use serde_json::{Value, json};

use super::machine::{DEVICES, GPU, Machine, NODE};
use crate::cluster::stage::{Stage, eventually};
use crate::report::equal;

/// The policies of a kubelet, or of an agent that has the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) topology: &'static str,
    pub(super) scope: &'static str,
    /// `static` or `none`.
    pub(super) cpus: &'static str,
    pub(super) cpu_options: &'static [&'static str],
    /// `Static` or `None`.
    pub(super) memory: &'static str,
}

impl Settings {
    /// Everything is left to others.
    pub(super) const NONE: Self = Self {
        topology: "none",
        scope: "container",
        cpus: "none",
        cpu_options: &[],
        memory: "None",
    };

    /// The KubeletConfiguration with only the policies and the reservations.
    pub(super) fn policies(&self) -> Value {
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "cpuManagerPolicy": self.cpus,
            "memoryManagerPolicy": self.memory,
            "topologyManagerPolicy": self.topology,
            "topologyManagerScope": self.scope,
            "reservedSystemCPUs": "0-1",
            "evictionHard": { "memory.available": "100Mi" },
        });
        if !self.cpu_options.is_empty() {
            let options = self.cpu_options.iter();
            let options = options.map(|option| ((*option).to_owned(), json!("true")));
            config["cpuManagerPolicyOptions"] = Value::Object(options.collect());
        }
        if self.memory == "Static" {
            config["reservedMemory"] = json!([{ "numaNode": 0, "limits": { "memory": "100Mi" } }]);
        }
        config
    }

    /// The kubelet's own configuration.
    fn configuration(&self) -> Value {
        let mut config = self.policies();
        let more = json!({
            "authentication": {
                "anonymous": { "enabled": false }, "webhook": { "enabled": false },
                "x509": { "clientCAFile": "/etc/node/ca.crt" },
            },
            "authorization": { "mode": "AlwaysAllow" },
            "containerRuntimeEndpoint": "unix:///run/node/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cpuManagerReconcilePeriod": "2s",
            "failSwapOn": false,
            "localStorageCapacityIsolation": false,
            "makeIPTablesUtilChains": false,
            "resolvConf": "",
            "nodeStatusUpdateFrequency": "4s",
            "imageGCHighThresholdPercent": 100,
            // Emulated machines take their time for everything.
            "runtimeRequestTimeout": "5m",
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        config
    }
}

/// A configuration in YAML as people write it: a line for each field, and the fields of a field below it.
pub(super) fn yaml(config: &Value) -> String {
    let mut text = String::new();
    for (key, value) in config.as_object().into_iter().flatten() {
        let _ = match value {
            Value::Object(fields) => {
                let lines = fields.iter();
                let lines = lines.map(|(key, value)| format!("\n  {key}: {value}"));
                writeln!(text, "{key}:{}", lines.collect::<String>())
            }
            Value::String(word) if word.chars().all(char::is_alphanumeric) && !word.is_empty() => {
                writeln!(text, "{key}: {word}")
            }
            other => writeln!(text, "{key}: {other}"),
        };
    }
    text
}

/// The state files that a kubelet with other policies does not start with.
const STATE: &str = "/var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state \
     /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/// Starts the kubelet with these settings and no pods of before, and waits until its Node has everything.
pub(super) fn start_anew(
    stage: &Stage,
    machine: &Machine,
    settings: &Settings,
) -> Result<(), String> {
    machine.run(&format!("systemctl stop kubelet; rm -f {STATE}"))?;
    machine.write(
        "/var/lib/kubelet/config.yaml",
        &yaml(&settings.configuration()),
    )?;
    start(stage, machine)
}

/// How often the plugin registered.
const REGISTERED: &str = "grep -c registered /var/log/plugin.log";

/// Starts the kubelet, and waits until the device plugin has registered with it and its Node has everything.
pub(super) fn start(stage: &Stage, machine: &Machine) -> Result<(), String> {
    let before = machine.ask(REGISTERED)?.text;
    machine.run("systemctl start kubelet")?;
    let wait = || {
        eventually("the device plugin registers", || {
            machine.run("systemctl status kubelet")?;
            machine.run("curl -sf http://127.0.0.1:10248/healthz")?;
            let registered = machine.ask(REGISTERED)?.text;
            equal("it registered again", registered != before, true)
        })?;
        // The kubelet asks it for its devices.
        machine.run("sleep 2")?;
        is_ready(stage)
    };
    wait().or_else(|_| wait())
}

fn is_ready(stage: &Stage) -> Result<(), String> {
    eventually("the node is ready", || {
        let node = stage
            .admin
            .expect("GET", &format!("/api/v1/nodes/{NODE}"), None)?;
        let conditions = node["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let is_ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
        equal("ready", is_ready, true)?;
        equal("tainted", node["spec"]["taints"].is_array(), false)?;
        let devices = node["status"]["allocatable"][GPU].as_str();
        equal("devices", devices, Some(DEVICES.len().to_string().as_str()))
    })
}
