//! What the real kubelet decided, decided again by an agent and seen in the kernel.
//!
//! A case is played if its machine fits into this one: its CPUs and NUMA nodes are among ours, so that the kernel can
//! enforce the decisions. The agent reads that machine instead of this one (see [`pretend`]), the case's rules, and its
//! pods in their order. Cases with devices are left out. So are cases in which the core in mode *sound*, asked first,
//! decides otherwise than the kubelet (its defects); they are counted and must stay fewer than the cases that are played.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use pinfold_core::cpu_set::CpuSet;
use pinfold_kube::pod;
use serde_json::{Value, json};

use super::options::Options;
use super::oracle::{self, Oracle};
use super::pretend;
use super::process::Agent;
use super::stage::Stage;
use crate::containerd::cri::{FOREVER, LinuxPod, Pod, PodConfig, PodMetadata, Resources};
use crate::containerd::eventually;
use crate::report::{Report, Stop, equal, say};

/// Steps of a case that are played.
const STEPS: usize = 12;
/// Containers that are run at the end of a case.
const RUNS: usize = 4;
/// Why cases are left out that the kubelet decided by a defect.
const DIFFERS: &str = "where sound differs from the kubelet";

/// Plays as many cases as fit.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, options: &Options) -> Result<(), Stop> {
    let machines = lines(&stage.programs.join("topologies.jsonl"))?;
    let machines: BTreeMap<String, Value> = machines
        .into_iter()
        .map(|line| (text(&line["id"]), line["machine"].clone()))
        .collect();
    let (here, _) = oracle::machine()?;
    let fits = |machine: &Value| {
        let nodes = machine["nodes"].as_array();
        nodes.into_iter().flatten().all(|node| {
            let id = node["id"].as_u64().unwrap_or(u64::MAX);
            let has = |there: &pinfold_core::machine::NumaNode| u64::from(there.id.get()) == id;
            here.nodes().iter().any(has)
        }) && cpus_of(machine).is_subset(here.online())
    };
    let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
    let mut played = 0;
    let mut checked = 0;
    for case in lines(&stage.programs.join("admission.jsonl.gz"))? {
        if played >= options.vectors {
            break;
        }
        let machine = machines.get(&text(&case["input"]["topology"]));
        let Some(machine) = machine.filter(|machine| fits(machine)) else {
            *tally.entry("on larger machines").or_default() += 1;
            continue;
        };
        if let Some(why) = not_for_us(&case) {
            *tally.entry(why).or_default() += 1;
            continue;
        }
        let folder = stage.fresh();
        let pretended = folder.join("machine");
        pretend::write(&pretended, machine)?;
        let rules = rules(&case["input"]);
        if !agrees(&case, &pretended, &rules)? {
            *tally.entry(DIFFERS).or_default() += 1;
            continue;
        }
        played += 1;
        match play(stage, &case, &folder, &pretended, &rules) {
            Ok(looks) => checked += looks,
            Err(problem) => {
                report.check(
                    format_args!("agent: vector {}", text(&case["case"])),
                    Err(problem),
                );
            }
        }
    }
    say(format_args!(
        "agent: {played} cases of the kubelet played, {checked} containers looked at; not played: {tally:?}"
    ));
    if played == 0 {
        let cpus = here.online().len();
        return Err(Stop::Skip(format!("no case fits into {cpus} CPUs")));
    }
    report.check(
        format_args!(
            "agent: {played} cases that the real kubelet decided are decided alike, down to the kernel"
        ),
        match checked > 0 {
            true => Ok(()),
            false => Err("no container was looked at".to_owned()),
        },
    );
    let differing = tally.get(DIFFERS).copied().unwrap_or(0);
    report.check(
        "agent: most cases of the kubelet are compared",
        match played > differing {
            true => Ok(()),
            false => Err(format!("{played} compared, {differing} left out {DIFFERS}")),
        },
    );
    Ok(())
}

/// Why a case is none for an agent with a runtime.
fn not_for_us(case: &Value) -> Option<&'static str> {
    let input = &case["input"];
    let expect = &case["expect"];
    let steps = || input["steps"].as_array().into_iter().flatten().take(STEPS);
    let expected = || expect["steps"].as_array().into_iter().flatten().take(STEPS);
    let devices = input["devices"].as_array();
    match () {
        () if devices.is_some_and(|devices| !devices.is_empty()) => Some("with devices"),
        () if input["cpu_policy"] != "static" => Some("without CPUs of one's own"),
        () if !expect["init_error"].is_null() => Some("that do not start"),
        () if expected().any(|step| step["hang"] == true || step["panic"].is_string()) => {
            Some("that hang")
        }
        () if steps().any(|step| step["op"] == "restart") => Some("with restarts"),
        () => None,
    }
}

/// The rules of a case as a KubeletConfiguration.
fn rules(input: &Value) -> String {
    let rows = input["reserved_memory"].as_array();
    let rows = rows.cloned().unwrap_or_default();
    let mut bytes = 0_u64;
    for row in &rows {
        let limit = text(&row["limits"]["memory"]);
        let limit = limit.parse::<pinfold_core::quantity::Quantity>();
        let limit = limit.map_or(0, |limit| limit.value());
        bytes += u64::try_from(limit).unwrap_or(0);
    }
    let reserved: Vec<Value> = rows
        .iter()
        .map(|row| json!({"numaNode": row["numa"], "limits": row["limits"]}))
        .collect();
    let eviction = 1 << 20;
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": input["cpu_policy"],
        "cpuManagerPolicyOptions": input["cpu_options"],
        "topologyManagerPolicy": input["topology_policy"],
        "topologyManagerScope": input["topology_scope"],
        "topologyManagerPolicyOptions": input["topology_options"],
        "memoryManagerPolicy": input["memory_policy"],
        "kubeReserved": {"memory": bytes.saturating_sub(eviction).to_string()},
        "evictionHard": {"memory.available": eviction.to_string()},
        "featureGates": {"CPUManagerPolicyAlphaOptions": true},
    });
    if !reserved.is_empty() {
        config["reservedMemory"] = Value::Array(reserved);
    }
    if let Some(cpus) = input["reserved_cpus"].as_str() {
        config["reservedSystemCPUs"] = json!(cpus);
    } else if let Some(cpu) = input["reserved_cpu"].as_str() {
        config["kubeReserved"]["cpu"] = json!(cpu);
    }
    config.to_string()
}

/// Steps of a case with what the kubelet made of them.
fn steps(case: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    let steps = case["input"]["steps"].as_array().into_iter().flatten();
    let expected = case["expect"]["steps"].as_array().into_iter().flatten();
    steps.zip(expected).take(STEPS)
}

/// Whether a sound core decides as the kubelet did.
fn agrees(case: &Value, machine: &Path, rules: &str) -> Result<bool, String> {
    let Ok(mut oracle) = Oracle::on(machine, rules) else {
        return Ok(false);
    };
    for (step, expected) in steps(case) {
        let uid = text(&step["uid"]);
        match step["op"].as_str() {
            Some("add") => {
                let object = object(&step["pod"])?;
                let Ok(is_in) = oracle.admit(&object.pod) else {
                    return Ok(false);
                };
                let admit = &expected["admit"];
                if admit["admit"] != is_in {
                    return Ok(false);
                }
                for container in object.pod.all_containers().filter(|_| is_in) {
                    let (cpus, own, _) = oracle.expected(&object.pod.uid, &container.name);
                    let held = &admit["containers"][container.name.as_str()]["cpus"];
                    let same = match held.as_str() {
                        Some(list) => own && cpus.to_string() == list,
                        None => !own,
                    };
                    if !same {
                        return Ok(false);
                    }
                }
            }
            Some("start") => {
                let residents = oracle.ledger().state().admitted_pods();
                let pod = residents.get(uid.as_str()).map(|one| one.pod.clone());
                for container in pod.iter().flat_map(|pod| pod.all_containers()) {
                    oracle.start(&pod_uid(&uid), &container.name)?;
                }
            }
            Some("remove") => oracle.release(&pod_uid(&uid))?,
            _ => return Ok(false),
        }
        let shared = oracle.ledger().state().cpus().shared().to_string();
        if expected["default_cpuset"] != shared.as_str() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn pod_uid(uid: &str) -> pinfold_core::name::PodUid {
    uid.into()
}

/// A pod of a case as a manifest.
fn manifest(pod: &Value) -> String {
    let of = |list: &Value| -> Vec<Value> {
        let containers = list.as_array().into_iter().flatten();
        containers
            .map(|container| {
                let mut made = json!({
                    "name": container["name"],
                    "resources": {"requests": container["requests"], "limits": container["limits"]},
                });
                if container["restartable"] == true {
                    made["restartPolicy"] = json!("Always");
                }
                made
            })
            .collect()
    };
    let mut spec = json!({
        "initContainers": of(&pod["init_containers"]),
        "containers": of(&pod["containers"]),
    });
    let level = |name: &str| pod.get(name).filter(|list| !list.is_null()).cloned();
    let (requests, limits) = (level("pod_requests"), level("pod_limits"));
    if requests.is_some() || limits.is_some() {
        spec["resources"] = json!({
            "requests": requests.unwrap_or_else(|| json!({})),
            "limits": limits.unwrap_or_else(|| json!({})),
        });
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod["uid"], "namespace": "e2e", "uid": pod["uid"]},
        "spec": spec,
    })
    .to_string()
}

fn object(pod: &Value) -> Result<pod::PodObject, String> {
    let read = pod::read("a pod of a vector", manifest(pod).as_bytes());
    let read = read.map_err(|findings| findings.to_string())?;
    read.value
        .into_iter()
        .next()
        .ok_or_else(|| "no pod".to_owned())
}

/// Plays a case; how many containers were looked at.
fn play(
    stage: &mut Stage,
    case: &Value,
    folder: &Path,
    machine: &Path,
    rules: &str,
) -> Result<usize, String> {
    let mut setup = stage.setup(folder, rules);
    setup.machine = Some(machine.to_owned());
    let mut actors = Actors {
        agent: stage.agent(&setup, folder)?,
        stage,
        held: BTreeMap::new(),
        pods: BTreeMap::new(),
        running: Vec::new(),
        looked: BTreeSet::new(),
    };
    let outcome = actors.perform(case);
    for (pod, ..) in actors.running.drain(..) {
        let _ = actors.stage.cri.remove(&pod);
    }
    outcome.map(|()| actors.looked.len())
}

/// The pods of a case.
struct Actors<'a> {
    stage: &'a mut Stage,
    agent: Agent,
    /// What the kubelet gave, by pod and container; `None` for shared CPUs.
    held: BTreeMap<String, BTreeMap<String, Option<CpuSet>>>,
    pods: BTreeMap<String, Value>,
    /// Sandbox, pod, container, control group.
    running: Vec<(Pod, String, String, String)>,
    looked: BTreeSet<String>,
}

impl Actors<'_> {
    fn perform(&mut self, case: &Value) -> Result<(), String> {
        let mut shared = text(&case["expect"]["initial"]["default_cpuset"]);
        for (number, (step, expected)) in steps(case).enumerate() {
            let failed = |problem: String| format!("step {number}: {problem}");
            shared = text(&expected["default_cpuset"]);
            self.step(step, expected).map_err(failed)?;
            self.check(&shared).map_err(failed)?;
        }
        let waiting = self.pods.keys().cloned().collect::<Vec<_>>();
        for uid in waiting {
            if self.running.len() < RUNS && !self.running.iter().any(|(_, pod, ..)| *pod == uid) {
                self.start(&uid, false)?;
            }
        }
        self.check_running(&shared)
    }

    fn step(&mut self, step: &Value, expected: &Value) -> Result<(), String> {
        let uid = text(&step["uid"]);
        match step["op"].as_str() {
            Some("add") => {
                let admit = &expected["admit"];
                let pod = &step["pod"];
                let (code, said) = self.agent.ask("POST", "/v1/pods", &manifest(pod))?;
                let wanted = if admit["admit"] == true { 201 } else { 409 };
                equal(&format!("{pod}: {said}"), code, wanted)?;
                if admit["admit"] == true {
                    let mut held = BTreeMap::new();
                    for (name, given) in admit["containers"].as_object().into_iter().flatten() {
                        let cpus = given["cpus"].as_str().map(str::parse::<CpuSet>);
                        let cpus = cpus.transpose().map_err(|error| error.to_string())?;
                        held.insert(name.clone(), cpus);
                    }
                    self.held.insert(text(&pod["uid"]), held);
                    self.pods.insert(text(&pod["uid"]), pod.clone());
                }
            }
            Some("start") if self.pods.contains_key(&uid) => self.start(&uid, true)?,
            Some("remove") => {
                let gone = self.running.extract_if(.., |(_, pod, ..)| *pod == uid);
                let gone: BTreeMap<String, Pod> = gone
                    .map(|(sandbox, ..)| (sandbox.id.clone(), sandbox))
                    .collect();
                for sandbox in gone.values() {
                    self.stage.cri.remove(sandbox)?;
                }
                self.agent.ask("DELETE", &format!("/v1/pods/{uid}"), "")?;
                self.held.remove(&uid);
                self.pods.remove(&uid);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs a pod: all its containers in order, or only the first app container.
    fn start(&mut self, uid: &str, all: bool) -> Result<(), String> {
        let pod = self.pods.get(uid).cloned().unwrap_or_default();
        let root = self.stage.runtime.cgroup();
        let parent = format!("{root}/kubepods/pod{uid}");
        let sandbox = self.stage.cri.run(PodConfig {
            metadata: Some(PodMetadata {
                name: uid.to_owned(),
                uid: uid.to_owned(),
                namespace: "e2e".to_owned(),
                attempt: 0,
            }),
            linux: Some(LinuxPod {
                cgroup_parent: parent.clone(),
                ..LinuxPod::default()
            }),
            ..PodConfig::default()
        })?;
        let lists = ["init_containers", "containers"];
        let lists = lists.iter().flat_map(|list| {
            let containers = pod[*list].as_array().cloned().unwrap_or_default();
            containers.into_iter().map(move |one| (*list, one))
        });
        let app = |(list, _): &(&str, Value)| all || *list == "containers";
        let some: Vec<(&str, Value)> = lists.filter(app).collect();
        for (list, container) in some.iter().take(if all { usize::MAX } else { 1 }) {
            let name = text(&container["name"]);
            let cri = &self.stage.cri;
            let id = cri.create_as(&sandbox, &name, 0, Resources::default(), &FOREVER)?;
            cri.start_container(&id)?;
            let group = self.stage.runtime.group(&parent, &id);
            if *list == "init_containers" && container["restartable"] != true {
                self.looked.insert(id.clone());
                let held = self.held.get(uid).and_then(|held| held.get(&name));
                if let Some(Some(cpus)) = held {
                    let seen = self.stage.groups.look(&group)?;
                    equal(&format!("CPUs of {uid} {name}"), &seen.cpus, cpus)?;
                }
                self.stage.cri.stop_container(&id)?;
                self.stage.cri.remove_container(&id)?;
                continue;
            }
            self.running
                .push((sandbox.clone(), uid.to_owned(), name, group));
        }
        Ok(())
    }

    fn check(&mut self, shared: &str) -> Result<(), String> {
        let status = self.agent.status()?;
        let found = text(&status["occupancy"]["shared"]);
        equal("shared CPUs", found.as_str(), shared)?;
        self.check_running(shared)
    }

    fn check_running(&mut self, shared: &str) -> Result<(), String> {
        let shared: CpuSet = shared.parse().map_err(|error| format!("{error}"))?;
        for (_, uid, name, group) in &self.running {
            let held = self.held.get(uid).and_then(|held| held.get(name));
            let expected = held.and_then(Option::as_ref).unwrap_or(&shared);
            let mut found = String::new();
            eventually("the kernel agrees", || {
                let seen = self.stage.groups.look(group);
                found = format!("{seen:?}");
                seen.is_ok_and(|seen| seen.cpus == *expected)
            })
            .map_err(|problem| format!("{problem}: {uid} {name}: {expected}, found {found}"))?;
            self.looked.insert(group.clone());
        }
        Ok(())
    }
}

fn cpus_of(machine: &Value) -> CpuSet {
    let nodes = machine["nodes"].as_array().into_iter().flatten();
    let cores = nodes.flat_map(|node| node["cores"].as_array().into_iter().flatten());
    let threads = cores.flat_map(|core| core["threads"].as_array().into_iter().flatten());
    let ids = threads.filter_map(|id| u32::try_from(id.as_u64()?).ok());
    ids.filter_map(pinfold_core::cpu_set::CpuId::new).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The values of a file with one a line, compressed or not.
fn lines(path: &Path) -> Result<Vec<Value>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| failed(&error))?;
    let mut content = String::new();
    match path.extension().is_some_and(|kind| kind == "gz") {
        true => GzDecoder::new(bytes.as_slice()).read_to_string(&mut content),
        false => bytes.as_slice().read_to_string(&mut content),
    }
    .map_err(|error| failed(&error))?;
    let lines = content.lines().map(serde_json::from_str);
    lines
        .collect::<Result<_, _>>()
        .map_err(|error| failed(&error))
}
