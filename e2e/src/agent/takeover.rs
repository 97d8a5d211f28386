//! A node that a kubelet has pinned pods on: mirrored, or taken over as its pods end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pinfold_core::cpu::ContainerCpus;
use pinfold_core::cpu_set::CpuSet;
use pinfold_kube::state::CpuManagerState;
use pinfold_kube::state::cpu::CpuStateFormat;
use serde_json::{Map, Value};

use super::kernel::{Seen, write};
use super::options::Options;
use super::oracle;
use super::pods::{ContainerPlan, PodPlan};
use super::process::{Agent, Setup};
use super::rules::kubelet as rules;
use super::stage::Stage;
use crate::containerd::cri::{FOREVER, Pod};
use crate::containerd::eventually;
use crate::programs::said_by;
use crate::report::{Report, Stop, equal};

/// Plays mirror mode and both phases.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, _: &Options) -> Result<(), Stop> {
    let (machine, _) = oracle::machine()?;
    let online = machine.online().clone();
    let mut node = Taken::new(stage, online.clone(), "kubelet");
    let outcome = node.mirrored();
    node.abandon();
    report.check(
        "agent: a node that its kubelet runs is mirrored, and nothing on it changed",
        outcome,
    );
    for (dialect, rules) in [
        ("kubelet", "the kubelet's rules"),
        ("koordinator", "Koordinator's rules"),
    ] {
        let mut node = Taken::new(stage, online.clone(), dialect);
        let outcome = node.second_phase();
        node.abandon();
        report.check(
            format_args!(
                "agent: by {rules}, pods that the kubelet pinned keep their CPUs until the last ends"
            ),
            outcome,
        );
    }
    let mut node = Taken::new(stage, online, "koordinator");
    let outcome = node.first_phase();
    node.abandon();
    report.check(
        "agent: in the first phase of a takeover nothing is written, and CPUs of two pods are reported",
        outcome,
    );
    Ok(())
}

/// A node that was a kubelet's.
struct Taken<'a> {
    stage: &'a mut Stage,
    setup: Setup,
    folder: PathBuf,
    online: CpuSet,
    running: Vec<Running>,
}

struct Running {
    name: String,
    pod: Pod,
    group: String,
}

impl<'a> Taken<'a> {
    fn new(stage: &'a mut Stage, online: CpuSet, dialect: &'static str) -> Self {
        let folder = stage.fresh();
        let mut setup = stage.setup(&folder, &rules("none", "container"));
        setup.dialect = dialect;
        Self {
            stage,
            setup,
            folder,
            online,
            running: Vec::new(),
        }
    }

    /// Starts a pod of one container in the runtime only, on these CPUs if any.
    fn pod(&mut self, plan: &PodPlan, cpus: Option<&CpuSet>) -> Result<(), String> {
        let root = self.stage.runtime.cgroup().to_owned();
        let pod = self.stage.cri.run(plan.sandbox(&root, 0)?)?;
        let container = plan.containers.first().ok_or("no container")?;
        let mut resources = container.resources();
        resources.cpuset_cpus = cpus.map(CpuSet::to_string).unwrap_or_default();
        self.running.push(Running {
            name: plan.name.clone(),
            pod: pod.clone(),
            group: String::new(),
        });
        let id = self
            .stage
            .cri
            .create_as(&pod, &container.name, 0, resources, &FOREVER)?;
        self.stage.cri.start_container(&id)?;
        let group = self.stage.runtime.group(&plan.group(&root)?, &id);
        self.running.last_mut().ok_or("no pod")?.group = group;
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<(), String> {
        let at = self.running.iter().position(|one| one.name == name);
        let gone = self.running.remove(at.ok_or("no such pod")?);
        self.stage.cri.remove(&gone.pod)
    }

    fn abandon(&mut self) {
        for gone in self.running.drain(..) {
            let _ = self.stage.cri.remove(&gone.pod);
        }
    }

    fn seen(&self, name: &str) -> Result<Seen, String> {
        let running = self.running.iter().find(|one| one.name == name);
        self.stage.groups.look(&running.ok_or("no such pod")?.group)
    }

    /// Pods that the kubelet pinned, with the file in which it remembers them.
    fn pinned(&mut self, pods: &[(&str, CpuSet)]) -> Result<(), String> {
        for (name, cpus) in pods {
            self.pod(&guaranteed(name, cpus), Some(cpus))?;
        }
        self.remember(pods)
    }

    /// Writes down who is pinned, as the kubelet does.
    fn remember(&self, pods: &[(&str, CpuSet)]) -> Result<(), String> {
        let mut containers = ContainerCpus::new();
        let mut shared = self.online.clone();
        for (name, cpus) in pods {
            shared = &shared - cpus;
            let uid = guaranteed(name, cpus).uid().as_str().into();
            containers.insert(uid, [("main".into(), cpus.clone())].into());
        }
        self.kubelet_state("static", shared, containers)
    }

    /// What the kubelet's CPU manager remembers.
    fn kubelet_state(
        &self,
        policy: &str,
        shared: CpuSet,
        containers: ContainerCpus,
    ) -> Result<(), String> {
        let state = CpuManagerState {
            policy: policy.to_owned(),
            default_cpus: shared,
            containers,
            ..CpuManagerState::default()
        };
        let folder = self.folder.join("kubelet");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let text = state.write(CpuStateFormat::V2);
        write(&folder.join("cpu_manager_state"), &text)
    }

    fn is_on(&self, name: &str, cpus: &CpuSet) -> Result<(), String> {
        equal(
            &format!("CPUs of {name}"),
            self.seen(name)?.cpus,
            cpus.clone(),
        )
    }

    /// The kubelet decides, and the agent only looks.
    fn mirrored(&mut self) -> Result<(), String> {
        self.setup.mode = "mirror";
        self.setup.more = "kubernetes: {publishInterval: 500ms}".to_owned();
        let one: CpuSet = "1".parse().map_err(|_| "no CPU")?;
        let old = [("old", one.clone())];
        self.pinned(&old)?;
        let mut agent = Agent::spawn(&self.stage.agent_program, &self.setup, &self.folder)?;
        agent.wait_until_it_answers()?;
        holds(&agent, &old)?;
        let status = agent.status()?;
        equal("mode", status["mode"].as_str(), Some("mirror"))?;
        let manifest = PodPlan::guaranteed("new", 1000, 16).manifest();
        let (code, said) = agent.ask("POST", "/v1/pods", &manifest)?;
        let printed = said["error"].as_str().unwrap_or_default();
        equal(
            &said.to_string(),
            printed.contains("the kubelet decides"),
            true,
        )?;
        equal("it is rejected", code >= 400, true)?;
        // Its file is the truth, even where a container is elsewhere.
        let all = self.online.clone();
        self.remember(&[])?;
        holds(&agent, &[])?;
        self.is_on("old", &one)?;
        let shares = ContainerPlan::between("main", (100, 200), (0, 0));
        self.pod(&PodPlan::new("shares", vec![shares]), None)?;
        self.is_on("shares", &all)?;
        agent.stop().map(drop)
    }

    /// The agent decides about new pods, and the kubelet's old ones keep what they have. Here they have all but CPU 0.
    fn second_phase(&mut self) -> Result<(), String> {
        let system: CpuSet = "0".parse().map_err(|_| "no CPU")?;
        let free = &self.online - &system;
        let one = CpuSet::single(free.iter().next().ok_or("two CPUs are needed")?);
        let rest = &free - &one;
        let mut old = vec![("old-a", one), ("old-b", rest)];
        old.retain(|(_, cpus)| !cpus.is_empty());
        self.pinned(&old)?;
        let mut agent = self.stage.agent(&self.setup, &self.folder)?;
        for left in (1..=old.len()).rev() {
            soon_pinned(&agent, left)?;
            let printed = said(&self.stage.pinfold, &agent)?;
            equal(&printed, printed.contains("takeover in-progress"), true)?;
            for (name, cpus) in &old[old.len() - left..] {
                self.is_on(name, cpus)?;
            }
            if left == old.len() {
                self.newcomers(&system)?;
            }
            self.end(old[old.len() - left].0)?;
        }
        soon_pinned(&agent, 0)?;
        // Its policy is the last thing that an operator changes.
        let printed = said(&self.stage.pinfold, &agent)?;
        equal(&printed, printed.contains("takeover in-progress"), true)?;
        self.kubelet_state("none", self.online.clone(), ContainerCpus::new())?;
        soon_in_phase(&agent, "done")?;
        let plan = newcomer("fits", self.setup.dialect);
        self.pod(&plan, None)?;
        let own = self.seen("fits")?.cpus;
        equal("CPUs of the new pod", own.len(), 1)?;
        equal("CPUs of the system", own.is_disjoint(&system), true)?;
        self.end("shares")?;
        self.end("fits")?;
        agent.stop().map(drop)
    }

    /// While the kubelet decides, new pods use the shared pool and get no exclusive CPUs.
    fn newcomers(&mut self, system: &CpuSet) -> Result<(), String> {
        let shares = ContainerPlan::between("main", (100, 200), (0, 0));
        self.pod(&PodPlan::new("shares", vec![shares]), None)?;
        self.is_on("shares", system)?;
        match self.pod(&newcomer("rejected", self.setup.dialect), None) {
            Err(problem) if problem.contains("Pinfold") => {
                // Its sandbox may be there, or not.
                let _ = self.end("rejected");
                Ok(())
            }
            other => Err(format!("a pod for which there is no CPU: {other:?}")),
        }
    }

    /// The kubelet still pins; the scheduler's choices are only written down.
    fn first_phase(&mut self) -> Result<(), String> {
        self.setup.more = "cgroups: {checkInterval: 1s}\n\
            takeover: {disableQueryKubeletConfig: true, cpuSetAllocator: false}"
            .to_owned();
        let one: CpuSet = "1".parse().map_err(|_| "no CPU")?;
        self.pinned(&[("old", one.clone())])?;
        let mut agent = self.stage.agent(&self.setup, &self.folder)?;
        let plan = newcomer("chosen", "koordinator").annotation(
            "scheduling.koordinator.sh/resource-status",
            "{\"cpuset\": \"1\"}",
        );
        self.pod(&plan, None)?;
        let mut problems = String::new();
        let printed = eventually("CPUs that two pods have are reported", || {
            let status = agent.status().unwrap_or_default();
            problems = status["problems"].to_string();
            problems.contains("CPUs 1 are assigned to pod")
        });
        printed.map_err(|problem| format!("{problem}: {problems}"))?;
        self.is_on("old", &one)?;
        let all = self.online.clone();
        self.is_on("chosen", &all)?;
        soon_in_phase(&agent, "kubelet")?;
        soon_pinned(&agent, 0)?;
        self.end("old")?;
        self.end("chosen")?;
        agent.stop().map(drop)
    }
}

/// A pod with as many CPUs.
fn guaranteed(name: &str, cpus: &CpuSet) -> PodPlan {
    let milli = i64::try_from(cpus.len()).unwrap_or(0) * 1000;
    PodPlan::guaranteed(name, milli, 16)
}

/// Waits until the agent reports exactly these pods with exactly these CPUs.
fn holds(agent: &Agent, pods: &[(&str, CpuSet)]) -> Result<(), String> {
    let expected: Vec<(String, String)> = pods
        .iter()
        .map(|(name, cpus)| (guaranteed(name, cpus).uid(), cpus.to_string()))
        .collect();
    let mut found = String::new();
    let seen = eventually("the agent sees who holds what", || {
        let said = agent.ask("GET", "/v1/pods", "");
        found = format!("{said:?}");
        let pods = said.ok().and_then(|(_, said)| said.as_array().cloned());
        let listed = pods.unwrap_or_default().into_iter().map(|pod| {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            (text(&pod["uid"]), text(&pod["containers"][0]["cpus"]))
        });
        listed.collect::<Vec<_>>() == expected
    });
    seen.map_err(|problem| format!("{problem}: {found}"))
}

/// A pod that wants a CPU of its own.
fn newcomer(name: &str, dialect: &str) -> PodPlan {
    let plan = PodPlan::guaranteed(name, 1000, 16);
    match dialect {
        "koordinator" => plan.label("koordinator.sh/qosClass", "LSR"),
        _ => plan,
    }
}

/// The number of pods that the agent reports as pinned by the kubelet.
fn soon_pinned(agent: &Agent, count: usize) -> Result<(), String> {
    let pinned = |status: &Value| status["takeover"]["pinnedPods"].as_object().map(Map::len);
    soon(agent, &format!("{count} pods are pinned"), |status| {
        pinned(status) == Some(count)
    })
}

fn soon_in_phase(agent: &Agent, phase: &str) -> Result<(), String> {
    soon(agent, &format!("the takeover is {phase}"), |status| {
        status["takeover"]["phase"] == phase
    })
}

fn soon(agent: &Agent, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<(), String> {
    let mut found = String::new();
    let outcome = eventually(what, || {
        let status = agent.status().unwrap_or_default();
        found = status["takeover"].to_string();
        is_so(&status)
    });
    outcome.map_err(|problem| format!("{problem}, found {found}"))
}

/// What people see.
fn said(pinfold: &Path, agent: &Agent) -> Result<String, String> {
    let socket = agent.socket();
    said_by(
        Command::new(pinfold)
            .arg("status")
            .arg("--socket")
            .arg(socket),
    )
}
