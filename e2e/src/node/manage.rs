//! Mode manage under a real kubelet whose managers are off: the agent aligns CPUs, memory and hugepages with the devices
//! that the kubelet assigned, a rejected pod waits, and nothing is unpinned while programs end and start again.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::holdings::{Holdings, agent, array, node_of, pod_resources, text_of};
use super::kubelet::{Settings, start, start_anew, yaml};
use super::machine::{GPU, Machine, NODE};
use super::pods::{Answer, bind, burstable, container, end, end_all, pod};
use super::samples::Samples;
use super::verify::{Running, enforced, lists, node_of_cpu, running};
use crate::cluster::stage::{Stage, eventually};
use crate::report::{Report, equal, say};

const RULES: Settings = Settings {
    topology: "single-numa-node",
    scope: "pod",
    cpus: "static",
    cpu_options: &["full-pcpus-only"],
    memory: "Static",
};
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// So many failures of one pod show that its controller creates no others.
const FAILURES: u64 = 3;

/// The agent's configuration.
fn agent_configuration() -> Value {
    json!({
        "mode": "manage",
        "nodeName": NODE,
        "kubelet": { "configFile": "/etc/pinfold/rules.yaml" },
        "kubernetes": { "kubeconfig": "/etc/node/agent.kubeconfig", "publishInterval": "1s" },
        "cgroups": { "checkInterval": "2s" },
        "metrics": { "listen": "none" },
    })
}

/// Plays the theme.
pub(super) fn run(report: &mut Report, stage: &Stage, machine: &Machine) -> Result<(), String> {
    machine.run("systemctl stop pinfold-agent; rm -rf /var/lib/pinfold")?;
    machine.write(
        "/etc/pinfold/agent.yaml",
        &agent_configuration().to_string(),
    )?;
    machine.write("/etc/pinfold/rules.yaml", &yaml(&RULES.policies()))?;
    machine.run("chmod 0600 /etc/pinfold/*.yaml; systemctl start pinfold-agent")?;
    start_anew(stage, machine, &Settings::NONE)?;
    let node = Managed { stage, machine };
    let mut check = |name: &str, outcome: Result<(), String>| {
        let outcome = outcome.map_err(|problem| machine.with_logs(&problem));
        report.check(format_args!("node: manage: {name}"), outcome);
    };
    check(
        "CPUs, memory and hugepages are on the NUMA node of the device that the kubelet assigned",
        node.aligned(),
    );
    check(
        "a rejected pod waits, its controller creates no others, and it runs when there is room",
        node.rejected(),
    );
    for program in ["kubelet", "pinfold-agent", "containerd"] {
        for how in ["restart", "kill"] {
            check(
                &format!("{how} of {program}: no container is unpinned, and new pods are pinned"),
                node.survives(program, how),
            );
        }
    }
    end_all(stage)?;
    machine.run("systemctl stop pinfold-agent").map(drop)
}

/// A node on which the agent assigns resources.
struct Managed<'a> {
    stage: &'a Stage,
    machine: &'a Machine,
}

impl Managed<'_> {
    fn admitted(&self, pod: &Value) -> Result<(), String> {
        let (_, answer) = bind(self.stage, pod)?;
        equal("the kubelet's answer", answer, Answer::Admitted)?;
        self.stage
            .runs(&text_of(&pod["metadata"]["name"]))
            .map(drop)
    }

    /// What the agent reports, by the names of pods.
    fn reported(&self) -> Result<Holdings, String> {
        let pods = self.stage.pods()?;
        let name = |uid: &str| {
            let mut found = pods.iter().filter(|(_, pod)| pod["metadata"]["uid"] == uid);
            found.next().map(|(name, _)| name.clone())
        };
        let reported = agent(self.machine)?.into_iter();
        Ok(reported
            .filter_map(|((uid, container), held)| Some(((name(&uid)?, container), held)))
            .collect())
    }

    /// The kernel enforces what the agent reports; the report.
    fn agent_and_kernel_agree(&self) -> Result<Holdings, String> {
        let own = self.reported()?;
        let status = self.machine.json("pinfold status -o json")?;
        let shared = text_of(&status["occupancy"]["shared"]);
        let shared = CpuSet::parse(&shared).map_err(|error| error.to_string())?;
        enforced(self.stage, self.machine, &own, &shared)?;
        Ok(own)
    }

    fn aligned(&self) -> Result<(), String> {
        let amounts = [
            ("cpu", "2"),
            ("memory", "200Mi"),
            ("hugepages-2Mi", "8Mi"),
            (GPU, "1"),
        ];
        for number in 0..4 {
            let mut pod = pod(&format!("device-{number}"), &[container("main", &amounts)]);
            // Memory that the kernel counts by NUMA node.
            pod["spec"]["containers"][0]["command"] = json!([
                "/bin/busybox",
                "sh",
                "-c",
                "x=0123456789abcdef; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do x=$x$x; done; exec 3<&0; while :; do /bin/busybox sleep 1000; done"
            ]);
            self.admitted(&pod)?;
        }
        self.admitted(&pod("shared", &[burstable("main", "100m")]))?;
        let own = self.agent_and_kernel_agree()?;
        let kubelet = "/var/lib/kubelet/pod-resources/kubelet.sock";
        let devices = pod_resources(self.machine, kubelet)?;
        let pods = self.stage.pods()?;
        lists(
            &pods,
            &pod_resources(self.machine, "/run/pinfold/pod-resources.sock")?,
            &own,
        )?;
        let ids: BTreeMap<String, String> = running(self.stage)?
            .into_iter()
            .map(|one| (one.pod, one.id))
            .collect();
        let mut nodes = Vec::new();
        for number in 0..4 {
            let key = (format!("device-{number}"), "main".to_owned());
            let held = own
                .get(&key)
                .ok_or_else(|| format!("the agent does not list {key:?}"))?;
            let ids_held = devices.get(&key).map(|held| held.devices.clone());
            let node = match ids_held.as_deref() {
                Some([id]) => node_of(id).ok_or("unknown device")?,
                other => return Err(format!("{key:?}: expected one device, found {other:?}")),
            };
            let cpus: Vec<u32> = held.cpus.iter().map(|cpu| node_of_cpu(cpu.get())).collect();
            equal(
                &format!("NUMA nodes of CPUs of {key:?}"),
                cpus,
                vec![node; 2],
            )?;
            equal(
                "NUMA nodes of its memory",
                held.memory_nodes(),
                [node].into(),
            )?;
            let kinds: Vec<&str> = held
                .memory
                .iter()
                .map(|(kind, _, _)| kind.as_str())
                .collect();
            equal(
                "kinds of its memory",
                kinds,
                vec!["hugepages-2Mi", "memory"],
            )?;
            let id = ids.get(&key.0).ok_or("it does not run")?;
            let pages = self.anonymous_memory(id)?;
            for (other, bytes) in &pages {
                equal(
                    &format!("anonymous memory on node {other} of {key:?}"),
                    *bytes > 0,
                    *other == node,
                )?;
            }
            nodes.push(node);
        }
        nodes.sort_unstable();
        say(format_args!("        devices on NUMA nodes {nodes:?}"));
        equal("NUMA nodes of the devices", nodes, vec![0, 0, 1, 1])
    }

    /// Anonymous memory of a container by NUMA node.
    fn anonymous_memory(&self, id: &str) -> Result<BTreeMap<u32, u64>, String> {
        let script =
            format!("grep '^anon ' $(find /sys/fs/cgroup/kubepods -path '*{id}/memory.numa_stat')");
        let text = self.machine.run(&script)?;
        let words = text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix('N'));
        let nodes = words.filter_map(|word| {
            let (node, bytes) = word.split_once('=')?;
            Some((node.parse().ok()?, bytes.parse().ok()?))
        });
        Ok(nodes.collect())
    }

    /// One pod with a device is left on each NUMA node. A pod with more CPUs than either has left is within the node's sum,
    /// so the kubelet, which has no managers, admits it, and the agent does not.
    fn rejected(&self) -> Result<(), String> {
        let held = self.reported()?;
        // Its request would be beyond the sum.
        end(self.stage, "shared")?;
        for node in [0, 1] {
            let mut on_node = held.iter().filter(|((pod, _), held)| {
                let cpus = &held.cpus;
                pod.starts_with("device-") && cpus.iter().any(|cpu| node_of_cpu(cpu.get()) == node)
            });
            let ((pod, _), _) = on_node.next().ok_or("no pod on a NUMA node")?;
            end(self.stage, pod)?;
        }
        let held = self.reported()?;
        let free = |node| {
            let first = if node == 0 { 4 } else { 6 };
            let taken = held.values().flat_map(|held| held.cpus.iter());
            first - taken.filter(|cpu| node_of_cpu(cpu.get()) == node).count()
        };
        let (left, right) = (free(0), free(1));
        let wide = (left.max(right) + 1).next_multiple_of(2);
        say(format_args!(
            "        {left} and {right} CPUs are free, and a pod needs {wide}"
        ));
        equal("it is within the sum", wide <= left + right, true)?;
        let wide = wide.to_string();
        let mut template = pod(
            "x",
            &[container("main", &[("cpu", &wide), ("memory", "32Mi")])],
        );
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "wide", "namespace": "default" },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "app": "wide" } },
                "template": { "metadata": { "labels": { "app": "wide" } }, "spec": template["spec"].take() },
            },
        });
        self.stage
            .admin
            .expect("POST", DEPLOYMENTS, Some(&deployment))?;
        let outcome = self.waits_and_runs();
        self.stage
            .admin
            .expect("DELETE", &format!("{DEPLOYMENTS}/wide"), None)?;
        outcome
    }

    fn waits_and_runs(&self) -> Result<(), String> {
        let failed = || {
            eventually("the kubelet retries", || {
                let events =
                    self.stage
                        .admin
                        .expect("GET", "/api/v1/namespaces/default/events", None)?;
                let own = array(&events["items"])
                    .filter(|event| text_of(&event["involvedObject"]["name"]).starts_with("wide-"));
                let own: Vec<&Value> = own.collect();
                let failures: u64 = own
                    .iter()
                    .filter(|event| event["reason"] == "FailedCreatePodSandBox")
                    .map(|event| event["count"].as_u64().unwrap_or(1))
                    .sum();
                let reasons: BTreeMap<String, String> = own
                    .iter()
                    .map(|event| (text_of(&event["reason"]), text_of(&event["message"])))
                    .collect();
                match failures >= FAILURES && reasons.contains_key("TopologyAffinityError") {
                    true => Ok((failures, reasons)),
                    false => Err(format!("{failures} failures, events {reasons:?}")),
                }
            })
        };
        let (failures, reasons) = failed().or_else(|_| failed())?;
        for (reason, message) in &reasons {
            say(format_args!("        event {reason}: {message}"));
        }
        let wide = self.wide_pods()?;
        let phases: Vec<String> = wide
            .iter()
            .map(|pod| text_of(&pod["status"]["phase"]))
            .collect();
        say(format_args!(
            "        after {failures} failures: {} pod, phases {phases:?}",
            wide.len()
        ));
        equal("pods of the deployment", wide.len(), 1)?;
        equal("its phase", phases, vec!["Pending".to_owned()])?;
        let others = self.stage.pods()?.into_keys();
        for name in others.filter(|name| name.starts_with("device-")) {
            end(self.stage, &name)?;
        }
        let name = text_of(&wide[0]["metadata"]["name"]);
        self.stage.runs(&name)?;
        equal("pods of the deployment", self.wide_pods()?.len(), 1)?;
        self.agent_and_kernel_agree().map(drop)
    }

    fn wide_pods(&self) -> Result<Vec<Value>, String> {
        let pods = self.stage.pods()?.into_values();
        Ok(pods
            .filter(|pod| pod["metadata"]["labels"]["app"] == "wide")
            .collect())
    }

    /// A program starts again, or is killed and started.
    fn survives(&self, program: &str, how: &str) -> Result<(), String> {
        end_all(self.stage)?;
        let amounts = [("cpu", "2"), ("memory", "64Mi"), (GPU, "1")];
        self.admitted(&pod("own", &[container("main", &amounts)]))?;
        let pinned: Vec<Running> = running(self.stage)?;
        self.agent_and_kernel_agree()?;
        let samples = Samples::start(self.machine)?;
        match how {
            "kill" => self
                .machine
                .run(&format!("systemctl kill --signal=KILL {program}; sleep 2"))?,
            _ => self.machine.run(&format!("systemctl stop {program}"))?,
        };
        match program {
            "kubelet" => start(self.stage, self.machine)?,
            _ => self
                .machine
                .run(&format!("systemctl start {program}"))
                .map(drop)?,
        }
        eventually("the agent is connected and has no problem", || {
            let status = self.machine.json("pinfold status -o json")?;
            equal("connected", &status["runtimeConnected"], &Value::Bool(true))?;
            equal("problems", &status["problems"], &Value::Array(Vec::new()))
        })?;
        let amounts = [("cpu", "2"), ("memory", "64Mi")];
        self.admitted(&pod("new", &[container("main", &amounts)]))?;
        self.agent_and_kernel_agree()?;
        let count = samples.finish(&pinned)?;
        equal("it was sampled", count >= 5, true)
    }
}
