//! [`Machine`]: an emulated machine with two NUMA nodes, a real kubelet, containerd and the agent, in which a suite runs
//! scripts as an operator does in a shell.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::cluster::node::{START, base_load};
use crate::cluster::stage::{Stage, eventually};
use crate::control_plane::free_ports;
use crate::emulated::{Emulated, Node};
use crate::guest::{Guest, Load, Server};
use crate::programs::{self, PINFOLD};
use crate::report::say;

const SCRIPT: &str = include_str!("../../scripts/machine.sh");
const SYSTEMCTL: &str = include_str!("../../scripts/systemctl.sh");

/// Its name, as a node.
pub(super) const NODE: &str = "numa";

/// The devices of the plugin: their ids, and their NUMA nodes.
pub(super) const DEVICES: [(&str, u32); 4] = [("gpu0", 0), ("gpu1", 0), ("gpu2", 1), ("gpu3", 1)];
/// The resource of the plugin.
pub(super) const GPU: &str = "example.com/gpu";

/// The longest that a script may run.
const PATIENCE: Duration = Duration::from_secs(400);

/// Exit code and output of a script.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) code: i32,
    pub(super) text: String,
}

/// What the kernel lets a container use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpuset {
    pub(super) cpus: String,
    pub(super) mems: String,
}

/// The machine. It is switched off with this.
pub(super) struct Machine {
    server: Server,
    port: u16,
    folder: PathBuf,
}

/// Two sockets with a NUMA node each: twelve CPUs, two of every core.
fn hardware() -> Emulated {
    let node = |first| Node {
        cpus: Some((first, 6)),
        mib: 2048,
        initiator: None,
    };
    Emulated {
        shape: (2, 3, 2),
        nodes: vec![node(0), node(6)],
        distances: vec![(0, 1, 21), (1, 0, 21)],
        ..Emulated::default()
    }
}

impl Machine {
    /// Switches it on with containerd and the device plugin, and waits until it runs scripts.
    pub(super) fn start(stage: &Stage) -> Result<Self, String> {
        programs::install_emulator()?;
        let folder = stage.plane.folder().join(NODE);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut load = base_load(stage, &folder, NODE)?;
        load.program("bin/pinfold", &programs::stripped_program(PINFOLD)?)?;
        for program in ["curl", "install"] {
            load.program(
                &format!("bin/{program}"),
                &Path::new("/usr/bin").join(program),
            )?;
        }
        for (path, text) in units() {
            add_text(&mut load, &folder, &path, &text)?;
        }
        let [port] = free_ports()?;
        let guest = Guest {
            name: NODE,
            hardware: hardware(),
            kernel: None,
            kernel_options: "hugepages=128",
        };
        say(format_args!("switching {NODE} on"));
        let server = guest.serve(&load, &format!("{START}{SCRIPT}"), Some(port))?;
        let mut machine = Self {
            server,
            port,
            folder,
        };
        machine.wait()?;
        Ok(machine)
    }

    fn wait(&mut self) -> Result<(), String> {
        // Emulation is slow: the usual timeout may not be enough.
        for _ in 0..4 {
            let serves = eventually("the machine runs scripts", || {
                let is_serving = self.server.said().iter().any(|line| line == "@@ serving");
                match is_serving {
                    true => self.run("systemctl start plugin").map(drop),
                    false => Err("it does not serve yet".to_owned()),
                }
            });
            if serves.is_ok() || !self.server.is_running() {
                return serves
                    .map_err(|problem| format!("{problem}\n  {}", self.server.last_words()));
            }
        }
        Err(self.server.last_words())
    }

    /// Runs a script; its output and exit code.
    pub(super) fn ask(&self, script: &str) -> Result<Output, String> {
        let words = |error: std::io::Error| format!("the machine: {error}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(words)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(words)?;
        let length = script.len();
        let request = format!(
            "POST /cgi-bin/run HTTP/1.0\r\nhost: node\r\ncontent-length: {length}\r\n\r\n{script}"
        );
        stream.write_all(request.as_bytes()).map_err(words)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map_err(words)?;
        let answer = String::from_utf8_lossy(&answer);
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
        let (text, code) = body
            .and_then(|body| body.trim_end().rsplit_once("@@ exit "))
            .ok_or_else(|| format!("no answer to {script:?}: {answer:?}"))?;
        Ok(Output {
            code: code.trim().parse().map_err(|_| answer.to_string())?,
            text: text.to_owned(),
        })
    }

    /// Runs a script that has to succeed; its output.
    pub(super) fn run(&self, script: &str) -> Result<String, String> {
        let output = self.ask(script)?;
        match output.code {
            0 => Ok(output.text),
            code => Err(format!("{script}: exit code {code}: {}", output.text)),
        }
    }

    /// The output of a script as JSON.
    pub(super) fn json(&self, script: &str) -> Result<Value, String> {
        let output = self.ask(script)?;
        serde_json::from_str(&output.text)
            .map_err(|error| format!("{script}: {error}: {}", output.text))
    }

    /// Writes a file.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), String> {
        self.run(&format!("cat >{path} <<'@@END'\n{text}\n@@END"))
            .map(drop)
    }

    /// A recording of the machine as a file here.
    pub(super) fn record(&self) -> Result<PathBuf, String> {
        let script =
            "pinfold topology --record /tmp/recorded >/dev/null && base64 -w 0 </tmp/recorded";
        let text = self.run(script)?;
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text.trim())
            .map_err(|error| format!("the recording: {error}"))?;
        let path = self.folder.join("recorded.machine");
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// The cpusets of all containers with processes in the kernel, by the id of the container.
    pub(super) fn cpusets(&self) -> Result<BTreeMap<String, Cpuset>, String> {
        let text = self.run(CPUSETS)?;
        let rows = text.lines().filter_map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            let (id, cpus, mems) = (words.next()?, words.next()?, words.next()?);
            Some((id, Cpuset { cpus, mems }))
        });
        Ok(rows.collect())
    }

    /// A problem, with the last lines of the logs.
    pub(super) fn with_logs(&self, problem: &str) -> String {
        let script = "for unit in kubelet pinfold-agent; do echo \"== $unit\"; \
            grep -E '^[EF][0-9]|level=(error|warn)|error|panic' /var/log/$unit.log | grep -vE 'eviction|cri_stats|Skipping pod' | tail -8 | cut -c1-400; done";
        let logs = self.ask(script);
        let logs = logs.map_or_else(|problem| problem, |output| output.text);
        format!("{problem}\n{logs}")
    }
}

/// Prints container id, CPUs and NUMA nodes of every control group with a process.
pub(super) const CPUSETS: &str = r#"find /sys/fs/cgroup/kubepods -name cgroup.procs 2>/dev/null | while read -r file; do
    group=${file%/cgroup.procs}
    read -r process <"$file" 2>/dev/null || continue
    echo "${group##*/} $(cat "$group/cpuset.cpus.effective") $(cat "$group/cpuset.mems.effective")"
done"#;

/// The units of the machine, by their paths.
fn units() -> Vec<(String, String)> {
    let devices: Vec<String> = DEVICES
        .iter()
        .map(|(id, node)| format!("{id}:Healthy:{node}"))
        .collect();
    let devices = devices.join(" ");
    let unit = |name: &str, text: String| (format!("etc/units/{name}"), text);
    let quick = "export GOMAXPROCS=2 TOKIO_WORKER_THREADS=2";
    vec![
        ("etc/node/systemctl.sh".to_owned(), SYSTEMCTL.to_owned()),
        unit(
            "kubelet",
            format!(
                "{quick}\nexec kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/node/kubeconfig \
                 --hostname-override={NODE} --node-ip=10.0.2.15 --v=2\n"
            ),
        ),
        unit(
            "pinfold-agent",
            format!(
                "{quick}\nexport NODE_NAME={NODE}\nexec pinfold-agent --config /etc/pinfold/agent.yaml\n"
            ),
        ),
        unit(
            "pinfold-agent.ready",
            // systemd waits until the agent is ready, for ten seconds at most. An emulated machine has more.
            "for turn in $(seq 60); do pinfold status >/dev/null 2>&1 && exit 0; sleep 0.5; done\n"
                .to_owned(),
        ),
        unit(
            "containerd",
            "exec containerd --config /etc/node/containerd.toml\n".to_owned(),
        ),
        unit(
            "plugin",
            // The plugin reads its input: this one never ends.
            format!(
                "[ -p /run/plugin ] || mkfifo /run/plugin\nmkdir -p /var/lib/kubelet/device-plugins\n\
                 export PLUGIN_FOLDER=/opt/plugin PLUGIN_PREFERENCE=none\n\
                 exec e2e device-plugin /var/lib/kubelet/device-plugins {GPU} {devices} <>/run/plugin\n"
            ),
        ),
    ]
}

/// A file at this path of the machine.
fn add_text(load: &mut Load, folder: &Path, path: &str, text: &str) -> Result<(), String> {
    let here = folder.join(path.replace('/', "-"));
    fs::write(&here, text).map_err(|error| format!("{}: {error}", here.display()))?;
    load.file(path, &here);
    Ok(())
}
