//! nfd-topology-updater reports what the podresources API of our agent lists, and Pinfold predicts the agent's decisions
//! from its object.
//!
//! The agent manages a played machine alone, without the API server: it admits pods by the kubelet's rules and serves
//! their resources, and does not write objects. So the object of nfd-topology-updater is all that is known of the node.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pinfold_kube::objects;
use serde_json::{Value, json};

use super::programs::Program;
use super::stage::{Played, Shape, Stage, TOPOLOGIES};
use crate::agent::pretend;
use crate::agent::process::Agent;
use crate::cluster::pods::{Dice, PODS, guaranteed, on, pod};
use crate::cluster::stage::eventually;
use crate::control_plane::{Credentials, Process, free_ports};
use crate::report::{Report, equal, say};

const PROGRAM: Program = Program {
    name: "nfd-topology-updater",
    module: "node-feature-discovery",
    package: "sigs.k8s.io/node-feature-discovery/cmd/nfd-topology-updater",
    uses_c: false,
};

/// Pods come to every machine so many times.
const STEPS: u64 = 16;
/// The fewest decisions that are compared, uncertain ones left out.
const CERTAIN: usize = 50;

const fn shape(sockets: u32, nodes: u32, cores: u32, threads: u32) -> Shape {
    Shape {
        sockets,
        nodes,
        cores,
        threads,
        gib: 16,
    }
}

/// The node whose object two programs write.
const BESIDE: &str = "nfd-beside";

/// Machines and lines of the kubelet's configuration.
const KINDS: [(&str, Shape, &str); 5] = [
    (
        "nfd-single",
        shape(2, 1, 4, 2),
        "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node",
    ),
    (
        "nfd-pod",
        shape(2, 2, 4, 1),
        "cpuManagerPolicy: static\ntopologyManagerPolicy: restricted\ntopologyManagerScope: pod",
    ),
    (
        "nfd-memory",
        shape(2, 1, 6, 1),
        "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\nmemoryManagerPolicy: Static\nkubeReserved: {memory: 412Mi}\nevictionHard: {memory.available: 100Mi}\nreservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}]",
    ),
    (
        "nfd-effort",
        shape(1, 1, 8, 2),
        "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort",
    ),
    (
        "nfd-none",
        shape(2, 1, 4, 2),
        "cpuManagerPolicy: none\ntopologyManagerPolicy: single-numa-node",
    ),
];

/// Parts of the reasons with which a prediction is uncertain.
const UNCERTAIN: [&str; 4] = [
    "does not report",
    "near several NUMA nodes",
    "look at cores",
    "in several ways",
];

/// What happened so far.
#[derive(Default)]
struct Counts {
    admitted: usize,
    rejected: usize,
    uncertain: usize,
    scans: usize,
    differences: Vec<String>,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} scans; {} pods admitted and {} rejected as predicted, {} uncertain",
            self.scans, self.admitted, self.rejected, self.uncertain
        )
    }
}

/// Runs the theme.
pub(crate) fn run(report: &mut Report, stage: &mut Stage) -> Result<(), String> {
    let program = PROGRAM.build()?;
    let mut dice = Dice::new(stage.seed);
    let mut counts = Counts::default();
    let mut played = Ok(());
    for (name, shape, rules) in KINDS {
        played = played.and_then(|()| {
            let mut node = Node::start(stage, &program, name, shape, rules, Value::Null)?;
            for step in 0..STEPS {
                if step == STEPS / 2 {
                    node.restart_agent(stage)?;
                }
                node.step(stage, &mut dice, step, &mut counts)?;
            }
            Ok(())
        });
    }
    say(format_args!("        {counts}"));
    report.check(
        "peers: nfd: it scans the agent's podresources API without an error, its object is read without loss, and decisions are predicted from it or uncertain",
        played
            .and_then(|()| equal("differences", counts.differences.join("\n"), String::new()))
            .and_then(|()| match counts.admitted + counts.rejected {
                certain if certain >= CERTAIN => Ok(()),
                certain => Err(format!("{certain} certain decisions, fewer than {CERTAIN}")),
            }),
    );
    report.check(
        "peers: nfd: an agent beside it names it as the other writer",
        other_writer(stage, &program),
    );
    stage.clear_pods()?;
    for name in KINDS.map(|(name, ..)| name).into_iter().chain([BESIDE]) {
        // After a failure not all of them are there.
        let path = format!("/api/v1/nodes/{name}");
        stage.admin.ask("DELETE", &path, None)?;
    }
    stage.clear_reports()
}

/// A machine with its agent, of which nfd-topology-updater reports.
struct Node {
    name: &'static str,
    shape: Shape,
    rules: String,
    kubernetes: Value,
    program: PathBuf,
    agent: Agent,
    /// Names and UIDs of the pods that the agent admitted.
    running: Vec<(String, String)>,
}

impl Node {
    fn start(
        stage: &Stage,
        program: &Path,
        name: &'static str,
        shape: Shape,
        rules: &str,
        kubernetes: Value,
    ) -> Result<Self, String> {
        let mut object = shape.node(name, &json!({}), &json!({}));
        object["status"]["allocatable"]["cpu"] = (shape.cpus() - 1).to_string().into();
        stage.admin.expect("POST", "/api/v1/nodes", Some(&object))?;
        let rules = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nsystemReserved: {{cpu: '1'}}\n{rules}\n"
        );
        Ok(Self {
            name,
            shape,
            program: program.to_owned(),
            agent: stage.agent(&played(name, shape, &rules, &kubernetes))?,
            kubernetes,
            rules,
            running: Vec::new(),
        })
    }

    /// Ends the agent as a crash does, and starts it again.
    fn restart_agent(&mut self, stage: &Stage) -> Result<(), String> {
        self.agent.kill();
        let played = played(self.name, self.shape, &self.rules, &self.kubernetes);
        self.agent = stage.agent(&played)?;
        Ok(())
    }

    /// Pods end, nfd-topology-updater scans, and the decision about a new pod is predicted from its object.
    fn step(
        &mut self,
        stage: &mut Stage,
        dice: &mut Dice,
        step: u64,
        counts: &mut Counts,
    ) -> Result<(), String> {
        for (name, uid) in std::mem::take(&mut self.running) {
            if !dice.says(25) {
                self.running.push((name, uid));
                continue;
            }
            let (code, said) = self.agent.ask("DELETE", &format!("/v1/pods/{uid}"), "")?;
            equal(&format!("{name} is released: {said}"), code < 300, true)?;
            stage.delete(&name)?;
        }
        self.scan(stage)?;
        counts.scans += 1;
        let report = self.read(stage)?;
        let pod = random_pod(dice, &format!("{}-{step}", self.name), self.name);
        let predicted = self.predict(stage, report, &pod)?;
        let pod = self.bound(stage, pod)?;
        let (code, said) = self.agent.ask("POST", "/v1/pods", &pod.to_string())?;
        let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default().to_owned();
        let is_admitted = code == 201;
        match is_admitted {
            true => self.running.push((text("name"), text("uid"))),
            false => stage.delete(&text("name"))?,
        }
        match predicted {
            Prediction::Uncertain => counts.uncertain += 1,
            Prediction::NotOffered => {}
            Prediction::Certain(same, _) if same == is_admitted => match same {
                true => counts.admitted += 1,
                false => counts.rejected += 1,
            },
            Prediction::Certain(_, event) => counts.differences.push(format!(
                "{}: {}: the agent: {code} {said}\n    predicted: {event}",
                self.name, pod["spec"]
            )),
        }
        Ok(())
    }

    /// The pod as the API server has it: bound and running.
    fn bound(&self, stage: &Stage, mut pod: Value) -> Result<Value, String> {
        pod["spec"]["nodeName"] = self.name.into();
        let mut made = stage.admin.expect("POST", PODS, Some(&pod))?;
        let name = made["metadata"]["name"].as_str().unwrap_or_default();
        let running = json!({ "status": { "phase": "Running" } });
        let path = format!("{PODS}/{name}/status");
        stage.admin.expect("PATCH", &path, Some(&running))?;
        made["apiVersion"] = "v1".into();
        made["kind"] = "Pod".into();
        if let Some(fields) = made.as_object_mut() {
            fields.remove("status");
        }
        if let Some(meta) = made["metadata"].as_object_mut() {
            meta.remove("managedFields");
        }
        Ok(made)
    }

    /// nfd-topology-updater writes its object once.
    fn scan(&self, stage: &Stage) -> Result<(), String> {
        let folder = stage.plane.folder().join("agents").join(self.name);
        let state = folder.join("nfd");
        let plugins = state.join("device-plugins");
        fs::create_dir_all(&plugins).map_err(|error| format!("{}: {error}", plugins.display()))?;
        let kubeconfig = stage
            .plane
            .kubeconfig("nfd", &Credentials::Certificate("admin"))?;
        let [port] = free_ports()?;
        let mut arguments = vec![
            format!("NODE_NAME={}", self.name),
            "KUBERNETES_NAMESPACE=default".to_owned(),
            pretend::UNSHARE.to_owned(),
        ];
        arguments.extend(pretend::arguments(&folder.join("machine"), &self.program));
        arguments.extend([
            "-oneshot".to_owned(),
            "-sleep-interval=100ms".to_owned(),
            format!("-port={port}"),
            format!("-kubeconfig={}", kubeconfig.display()),
            format!(
                "-kubelet-config-uri=file://{}",
                folder.join("rules.yaml").display()
            ),
            format!(
                "-podresources-socket={}",
                self.agent.pod_resources().display()
            ),
            format!("-kubelet-state-dir={}", state.display()),
        ]);
        let log = format!("nfd-{}", self.name);
        let folder = stage.plane.folder();
        let mut process = Process::start(Path::new("/usr/bin/env"), folder, &log, &arguments)?;
        eventually("nfd-topology-updater has written its object", || {
            equal("it runs", process.is_running(), false)
        })?;
        let said = process.said();
        // Lines of errors begin so; the last one has the reason of a failed start.
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with('E')).collect();
        equal("errors in its log", errors.join("\n"), String::new())?;
        let report = stage.admin.expect("GET", &self.path(), None)?;
        let zones = report["zones"].as_array().map_or(0, Vec::len);
        let nodes = (self.shape.sockets * self.shape.nodes) as usize;
        equal(&format!("zones\n{}", process.last_words()), zones, nodes)
    }

    fn path(&self) -> String {
        format!(
            "{}/{}",
            TOPOLOGIES.replace("v1alpha1", "v1alpha2"),
            self.name
        )
    }

    /// Its object, which Pinfold writes as it read it.
    fn read(&self, stage: &Stage) -> Result<Value, String> {
        let mut report = stage.admin.expect("GET", &self.path(), None)?;
        report["apiVersion"] = "topology.node.k8s.io/v1alpha2".into();
        report["kind"] = "NodeResourceTopology".into();
        let read = objects::read("its object", report.to_string().as_bytes());
        let read = read.map_err(|error| format!("{error:?}"))?;
        equal("warnings", read.warnings.len(), 0)?;
        let topology = read.value.topologies.first().ok_or("no object was read")?;
        let written: Value = serde_json::from_str(&topology.content().to_json())
            .map_err(|error| error.to_string())?;
        equal("as it is written again", &written, &report)?;
        Ok(report)
    }

    /// The answer of the command line, from the Node, its pods and the object.
    fn predict(&self, stage: &Stage, report: Value, pod: &Value) -> Result<Prediction, String> {
        let mut state = stage.state(&[("/api/v1/nodes", "v1", "Node"), (PODS, "v1", "Pod")])?;
        let items = state["items"].as_array_mut().ok_or("no objects")?;
        items.retain(|object| {
            object["metadata"]["name"] == self.name || object["spec"]["nodeName"] == self.name
        });
        items.push(report);
        let folder = stage.plane.folder();
        let file = |name: &str, content: &Value| {
            let path = folder.join(name);
            let written = fs::write(&path, content.to_string());
            written.map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>(path)
        };
        let mut asked = Command::new(&stage.pinfold);
        asked.args(["simulate", "--as", "kubelet", "-o", "json", "--nodes"]);
        asked.arg(file("nfd-state.json", &state)?);
        asked.arg(file("nfd-pod.json", pod)?);
        let output = asked.output().map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("{asked:?}: {error}: {errors}")
        })?;
        let event = answer["events"][0].clone();
        let reason = event["rejections"][0]["reason"].as_str();
        Ok(
            match (event["node"].is_string(), reason.unwrap_or_default()) {
                (true, _) => Prediction::Certain(true, event),
                (_, reason) if UNCERTAIN.iter().any(|part| reason.contains(part)) => {
                    Prediction::Uncertain
                }
                (_, reason) if reason.starts_with("Insufficient") => Prediction::NotOffered,
                _ => Prediction::Certain(false, event),
            },
        )
    }
}

/// Whether the kubelet admits a pod, with the event of the command line.
enum Prediction {
    Certain(bool, Value),
    Uncertain,
    /// The scheduler finds the node too small: its kubelet is not asked.
    NotOffered,
}

fn played<'a>(name: &'a str, shape: Shape, rules: &'a str, kubernetes: &Value) -> Played<'a> {
    Played {
        name,
        shape,
        mode: "manage",
        dialect: "kubelet",
        rules,
        kubernetes: kubernetes.clone(),
    }
}

/// An agent that writes the object of its node names nfd-topology-updater, which writes it too, and leaves it alone.
fn other_writer(stage: &Stage, program: &Path) -> Result<(), String> {
    let (_, shape, rules) = KINDS[0];
    let kubernetes = json!({ "publish": ["v1alpha2"] });
    let node = Node::start(stage, program, BESIDE, shape, rules, kubernetes)?;
    stage.report(BESIDE)?;
    node.scan(stage)?;
    eventually("the agent names nfd-topology-updater", || {
        let status = node.agent.status()?.to_string();
        let is_named = status.contains(PROGRAM.name);
        equal(&format!("named in {status}"), is_named, true)
    })?;
    eventually("an event of the Node names nfd-topology-updater", || {
        let path = "/api/v1/events?fieldSelector=reason%3DOtherWriter";
        let events = stage.admin.expect("GET", path, None)?["items"].to_string();
        let is_named = events.contains(PROGRAM.name);
        equal(&format!("named in {events}"), is_named, true)
    })
}

/// Pods of one to three containers, mostly with whole CPUs.
fn random_pod(dice: &mut Dice, name: &str, node: &str) -> Value {
    let count = 1 + dice.below(8).saturating_sub(5);
    let containers = (0..count).map(|number| {
        let cpu = match dice.below(8) {
            0 => "500m".to_owned(),
            _ => (1 + dice.below(5)).to_string(),
        };
        let memory = format!("{}Mi", 64 << dice.below(7));
        guaranteed(&format!("c{number}"), &[("cpu", &cpu), ("memory", &memory)])
    });
    let containers: Vec<Value> = containers.collect();
    let mut pod = on(pod(name, "default-scheduler", &containers), node);
    pod["metadata"]["uid"] = format!("uid-{name}").into();
    pod
}
