//! koordlet reports a played machine and pins its pods, and our scheduler decides.

mod played_kubelet;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;
use pinfold_kube::objects;
use serde_json::{Value, json};

use self::played_kubelet::PlayedKubelet;
use super::koord_scheduler::process::{self, KOORDINATOR, MODULE};
use super::programs::{Program, sources};
use super::stage::{Played, Shape, Stage, TOPOLOGIES};
use crate::agent::pretend;
use crate::cluster::OurScheduler;
use crate::cluster::dialects::{DECISION, pinned};
use crate::cluster::pods::PODS;
use crate::cluster::stage::eventually;
use crate::control_plane::{Credentials, Process, free_ports};
use crate::programs;
use crate::report::{Report, equal};

const PROGRAM: Program = Program {
    name: "koordlet",
    module: MODULE,
    package: "github.com/koordinator-sh/koordinator/cmd/koordlet",
    uses_c: true,
};

const NODE: &str = "koordlet-node";
/// The name of our scheduler.
const OURS: &str = "pinfold";
const SHAPE: Shape = Shape {
    sockets: 2,
    nodes: 1,
    cores: 4,
    threads: 2,
    gib: 16,
};

/// Hides the real control groups from the program that follows, which gets those of a folder.
const WITHOUT_GROUPS: &str = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";

/// Runs the theme.
pub(crate) fn run(report: &mut Report, stage: &mut Stage) -> Result<(), String> {
    process::definitions(stage, &sources(MODULE, KOORDINATOR)?)?;
    let mut node = SHAPE.node(NODE, &json!({}), &json!({}));
    node["status"]["addresses"] = json!([{ "type": "InternalIP", "address": "127.0.0.1" }]);
    stage.admin.expect("POST", "/api/v1/nodes", Some(&node))?;
    let mut scene = Scene::start(stage)?;
    scene.has_reported(stage)?;
    report.check(
        "peers: koordlet: its report is read without loss, and is the machine's",
        scene.report(stage),
    );
    report.check(
        "peers: koordlet: it pins the pods that our scheduler decided about",
        scene.pins(stage),
    );
    report.check(
        "peers: koordlet: our agent beside it names it as the other writer and leaves the report to it",
        scene.other_writer(stage),
    );
    stage.clear_pods()?;
    stage
        .admin
        .expect("DELETE", &format!("/api/v1/nodes/{NODE}"), None)
        .map(drop)
}

/// koordlet with what it needs. Everything ends with this.
struct Scene {
    koordlet: Process,
    _kubelet: PlayedKubelet,
    groups: PathBuf,
}

impl Scene {
    fn start(stage: &Stage) -> Result<Self, String> {
        let program = PROGRAM.build()?;
        let folder = stage.plane.folder().join("koordlet");
        let groups = folder.join("cgroup");
        // koordlet ends if it cannot watch the groups of all classes.
        for class in ["kubepods", "kubepods/burstable", "kubepods/besteffort"] {
            for controller in ["cpu", "cpuset", "memory", "cpuacct", "blkio"] {
                let path = groups.join(controller).join(class);
                fs::create_dir_all(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        let machine = folder.join("machine");
        pretend::write(&machine, &SHAPE.description())?;
        // Where koordlet looks for NUMA nodes.
        let devices = machine.join("sys/bus/node/devices");
        fs::create_dir_all(&devices).map_err(|error| format!("{}: {error}", devices.display()))?;
        for node in 0..SHAPE.sockets * SHAPE.nodes {
            let target = format!("../../../devices/system/node/node{node}");
            let link = devices.join(format!("node{node}"));
            let made = symlink(target, &link);
            made.map_err(|error| format!("{}: {error}", link.display()))?;
        }
        let kubeconfig = stage
            .plane
            .kubeconfig("koordlet", &Credentials::Certificate("admin"))?;
        let kubelet = PlayedKubelet::start(&kubeconfig, NODE)?;
        let [port] = free_ports()?;
        let mut arguments = vec![
            format!("NODE_NAME={NODE}"),
            format!("KUBECONFIG={}", kubeconfig.display()),
            "agent_mode=hostMode".to_owned(),
            pretend::UNSHARE.to_owned(),
        ];
        arguments.extend(pretend::arguments(&machine, Path::new("/bin/sh")));
        arguments.extend(["-c", WITHOUT_GROUPS, "sh"].map(str::to_owned));
        arguments.push(program.display().to_string());
        let inside = |name: &str| folder.join(name).display().to_string();
        for (flag, value) in [
            ("addr", format!("127.0.0.1:{port}")),
            ("cgroup-root-dir", format!("{}/", groups.display())),
            ("sys-root-dir", inside("machine/sys/")),
            ("var-run-root-dir", inside("run/")),
            ("run-root-dir", inside("run/")),
            ("var-lib-kubelet-dir", inside("kubelet/")),
            ("tsdb-path", inside("metrics")),
            ("runtime-hooks-addr", inside("koordlet.sock")),
            ("enable-nri-runtime-hook", "false".to_owned()),
            ("runtime-hooks-reconcile-interval", "1s".to_owned()),
            ("kubelet-sync-interval", "1s".to_owned()),
            ("kubelet-insecure-tls", "true".to_owned()),
            ("kubelet-read-only-port", kubelet.port.to_string()),
            ("disable-query-kubelet-config", "true".to_owned()),
            ("v", "4".to_owned()),
        ] {
            arguments.push(format!("-{flag}={value}"));
        }
        let koordlet = Process::start(
            Path::new("/usr/bin/env"),
            stage.plane.folder(),
            "koordlet",
            &arguments,
        )?;
        Ok(Self {
            koordlet,
            _kubelet: kubelet,
            groups,
        })
    }

    /// Waits until koordlet has written its report, which it does only while it runs.
    fn has_reported(&mut self, stage: &Stage) -> Result<(), String> {
        eventually("koordlet has reported", || {
            let path = format!("{TOPOLOGIES}/{NODE}");
            let (_, report) = stage.admin.ask("GET", &path, None)?;
            match report["zones"].as_array().map(Vec::len) {
                Some(2) => Ok(Ok(())),
                _ if self.koordlet.is_running() => Err(report.to_string()),
                _ => Ok(Err(format!(
                    "koordlet ended:\n{}",
                    self.koordlet.last_words()
                ))),
            }
        })?
    }

    /// The report has every CPU, and Pinfold writes it as it read it.
    fn report(&self, stage: &mut Stage) -> Result<(), String> {
        let mut report = stage.report(NODE)?;
        report["apiVersion"] = "topology.node.k8s.io/v1alpha1".into();
        report["kind"] = "NodeResourceTopology".into();
        let read = objects::read("koordlet's report", report.to_string().as_bytes());
        let read = read.map_err(|error| format!("{error:?}"))?;
        equal("warnings", read.warnings.len(), 0)?;
        let topology = read.value.topologies.first().ok_or("no report was read")?;
        let written: Value = serde_json::from_str(&topology.content().to_json())
            .map_err(|error| error.to_string())?;
        equal("as it is written again", &written, &report)?;
        let zones = report["zones"].as_array().into_iter().flatten();
        let cpus = zones.flat_map(|zone| zone["resources"].as_array().into_iter().flatten());
        let cpus: Vec<&Value> = cpus
            .filter(|resource| resource["name"] == "cpu")
            .map(|resource| &resource["capacity"])
            .collect();
        equal("CPUs of the zones", cpus, vec![&json!("8"), &json!("8")])?;
        if let Some(meta) = report["metadata"].as_object_mut() {
            meta.remove("managedFields");
        }
        stage.recorder.add("koordlet", &report);
        Ok(())
    }

    /// LSE and LSR pods run on the CPUs of our decision, and an LS pod on those that are left. The LS pod comes first:
    /// koordlet writes the shared pool of a pod that runs already when the pool changes.
    fn pins(&self, stage: &Stage) -> Result<(), String> {
        let program = programs::debug_program(programs::SCHEDULER)?;
        let _ours = OurScheduler::start(stage, &program, OURS)?;
        let mut left = CpuSet::parse("0-15").map_err(|error| error.to_string())?;
        let mut shared = None;
        for (name, class, count) in [("ls", "LS", 2), ("lse", "LSE", 4), ("lsr", "LSR", 3)] {
            let how = json!({ "preferredCPUBindPolicy": "FullPCPUs" });
            let mut pod = pinned(name, OURS, count, &how);
            pod["metadata"]["labels"]["koordinator.sh/qosClass"] = class.into();
            stage.create(&pod)?;
            let pod = eventually(&format!("{name} is bound"), || {
                let pod = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
                match pod["spec"]["nodeName"].is_string() {
                    true => Ok(pod),
                    false => Err(pod["status"].to_string()),
                }
            })?;
            let file = self.runs(stage, name, &pod)?;
            let decision = pod["metadata"]["annotations"][DECISION].as_str();
            let decision: Value = decision
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default();
            match decision["cpuset"].as_str() {
                Some(cpus) => {
                    let cpus = CpuSet::parse(cpus).map_err(|error| error.to_string())?;
                    equal(&format!("CPUs of {name}"), cpus.len(), count as usize)?;
                    self.writes(&file, &cpus)?;
                    left = &left - &cpus;
                }
                None => {
                    equal("a class without CPUs of its own", class, "LS")?;
                    shared = Some(file);
                }
            }
        }
        self.writes(&shared.ok_or("the LS pod has CPUs of its own")?, &left)
    }

    /// Waits until koordlet has written these CPUs.
    fn writes(&self, file: &Path, cpus: &CpuSet) -> Result<(), String> {
        eventually("koordlet pins the container", || {
            let text = fs::read_to_string(file).unwrap_or_default();
            let found = CpuSet::parse(text.trim()).map_err(|error| error.to_string())?;
            equal(&file.display().to_string(), found, cpus.clone())
        })
        .map_err(|problem| format!("{problem}\n{}", self.koordlet.last_words()))
    }

    /// The pod gets a container with control groups, as if a kubelet had started it; its file of CPUs.
    fn runs(&self, stage: &Stage, name: &str, pod: &Value) -> Result<PathBuf, String> {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let group = format!("kubepods/pod{uid}/{name}");
        for (controller, file, content) in [
            ("cpuset", "cpuset.cpus", "0-15"),
            ("cpu", "cpu.cfs_quota_us", "-1"),
            ("cpu", "cpu.shares", "2"),
            ("cpu", "cgroup.procs", ""),
        ] {
            let path = self.groups.join(controller).join(&group);
            let failed = |error: std::io::Error| format!("{}: {error}", path.display());
            fs::create_dir_all(&path).map_err(failed)?;
            fs::write(path.join(file), content).map_err(failed)?;
        }
        let status = json!({ "status": {
            "phase": "Running",
            "containerStatuses": [{
                "name": "main", "image": "none", "imageID": "none", "ready": true, "restartCount": 0,
                "containerID": format!("containerd://{name}"),
                "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
            }],
        }});
        let path = format!("{PODS}/{name}/status");
        stage.admin.expect("PATCH", &path, Some(&status))?;
        Ok(self.groups.join("cpuset").join(group).join("cpuset.cpus"))
    }

    fn other_writer(&self, stage: &Stage) -> Result<(), String> {
        let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        let agent = stage.agent(&Played {
            name: NODE,
            shape: SHAPE,
            mode: "manage",
            dialect: "koordinator",
            rules: head,
            kubernetes: json!({ "publish": ["v1alpha2", "v1alpha1"] }),
        })?;
        eventually("the agent names koordlet", || {
            let status = agent.status()?;
            match status.to_string().contains("koordlet") {
                true => Ok(()),
                false => Err(status.to_string()),
            }
        })?;
        eventually("an event of the Node names koordlet", || {
            let path = "/api/v1/events?fieldSelector=reason%3DOtherWriter";
            let events = stage.admin.expect("GET", path, None)?;
            match events["items"].to_string().contains("koordlet") {
                true => Ok(()),
                false => Err(events["items"].to_string()),
            }
        })?;
        let report = stage.report(NODE)?;
        let ours = &report["metadata"]["annotations"]["pinfold.dev/node-state"];
        equal("what the agent adds to reports", ours, &Value::Null)
    }
}
