//! [`Scene`]: pods come and go on a node, and the kernel is compared with what should be.

use std::path::{Path, PathBuf};
use std::process::Command;

use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::pod::Pod as CorePod;
use pinfold_core::qos::QosClass;
use pinfold_kube::pod::PodObject;

use super::oracle::Oracle;
use super::pods::{ContainerPlan, Kind, PodPlan};
use super::process::{Agent, Setup};
use super::stage::Stage;
use crate::containerd::cri::{FOREVER, Pod, PodConfig};
use crate::containerd::{PATIENCE, eventually};
use crate::programs::succeed;
use crate::report::equal;

/// How an agent learns of a pod: from its API or from the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was admitted through the API first.
    Beforehand,
    /// From the NRI calls of the runtime.
    FromTheRuntime,
}

/// A node with an agent, and what should be on it.
pub(crate) struct Scene<'a> {
    pub(crate) stage: &'a mut Stage,
    pub(crate) agent: Agent,
    pub(crate) setup: Setup,
    pub(crate) folder: PathBuf,
    pub(crate) oracle: Oracle,
    pub(crate) running: Vec<Running>,
}

/// A pod that runs.
pub(crate) struct Running {
    pub(crate) plan: PodPlan,
    pub(crate) pod: Pod,
    known: Known,
    pub(crate) containers: Vec<RunningContainer>,
}

/// A container that runs.
#[derive(Clone)]
pub(crate) struct RunningContainer {
    pub(crate) id: String,
    pub(crate) name: ContainerName,
    /// Under which id a ledger knows it.
    pub(crate) resident: PodUid,
    pub(crate) group: String,
}

impl<'a> Scene<'a> {
    /// A new agent under these rules, with nothing on it.
    pub(crate) fn open(stage: &'a mut Stage, rules: &str) -> Result<Self, String> {
        let folder = stage.fresh();
        let setup = stage.setup(&folder, rules);
        Self::with(stage, &setup, &folder)
    }

    /// A new agent that is set up like this, with nothing on it.
    pub(crate) fn with(stage: &'a mut Stage, setup: &Setup, folder: &Path) -> Result<Self, String> {
        Ok(Self {
            oracle: Oracle::new(&setup.rules)?,
            agent: stage.agent(setup, folder)?,
            setup: setup.clone(),
            folder: folder.to_owned(),
            stage,
            running: Vec::new(),
        })
    }

    /// A pod that could not start is gone, and was never let in.
    pub(crate) fn forget(&mut self, name: &str) {
        let gone = self.running.extract_if(.., |one| one.plan.name == name);
        for gone in gone.collect::<Vec<_>>() {
            let _ = self.stage.cri.remove(&gone.pod);
            for container in &gone.plan.containers {
                let alone = format!("{}/{}", gone.plan.uid(), container.name);
                let _ = self.oracle.release(&alone.as_str().into());
            }
        }
    }

    /// The agent starts again, where it was.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        self.agent.kill();
        self.agent = self.stage.agent(&self.setup, &self.folder)?;
        Ok(())
    }

    /// Stops all pods, running or not.
    pub(crate) fn abandon(&mut self) {
        for gone in self.running.drain(..) {
            let _ = self.stage.cri.remove(&gone.pod);
        }
    }
}

impl Scene<'_> {
    /// A pod is asked for, if it is to be known beforehand, and run. Whether it was let in; the oracle must agree.
    pub(crate) fn come(&mut self, plan: &PodPlan, known: Known) -> Result<bool, String> {
        let object = plan.object()?;
        if known == Known::Beforehand && !self.asked_for(plan, &object)? {
            return Ok(false);
        }
        let root = self.stage.runtime.cgroup().to_owned();
        let sandbox = plan.sandbox(&root, 0)?;
        self.make_group(&sandbox)?;
        let pod = self.stage.cri.run(sandbox)?;
        self.running.push(Running {
            plan: plan.clone(),
            pod,
            known,
            containers: Vec::new(),
        });
        for container in &plan.containers {
            let Some(id) = self.start(container, &object, 0)? else {
                self.go(&plan.name)?;
                return Ok(false);
            };
            if container.kind == Kind::Init {
                self.check()?;
                // As if it had done its work.
                self.end(&id)?;
            }
        }
        self.check()?;
        Ok(true)
    }

    /// Makes the pod's group as the kubelet does, with a limit on the CPU time of all its containers.
    fn make_group(&self, sandbox: &PodConfig) -> Result<(), String> {
        let linux = sandbox.linux.clone().unwrap_or_default();
        let asked = linux.resources.unwrap_or_default();
        match asked.cpu_quota {
            0 => Ok(()),
            quota => {
                let groups = &self.stage.groups;
                groups.make_pod(&linux.cgroup_parent, quota, asked.cpu_period)
            }
        }
    }

    /// Asks the agent for a place.
    fn asked_for(&mut self, plan: &PodPlan, object: &PodObject) -> Result<bool, String> {
        let expected = self.oracle.admit(&object.pod)?;
        let (code, said) = self.agent.ask("POST", "/v1/pods", &plan.manifest())?;
        let wanted = if expected { 201 } else { 409 };
        equal(&format!("{}: {said}", plan.name), code, wanted)?;
        if !expected {
            let error = said["error"].as_str().unwrap_or_default();
            equal("a rejection has its reason", error.is_empty(), false)?;
        }
        Ok(expected)
    }

    /// Starts a container of the last pod; its id, or `None` if it is rejected as it should be.
    fn start(
        &mut self,
        plan: &ContainerPlan,
        object: &PodObject,
        attempt: u32,
    ) -> Result<Option<String>, String> {
        let last = self.running.last().ok_or("there is no pod")?;
        let (pod, known) = (last.pod.clone(), last.known);
        let uid = object.pod.uid.clone();
        let (resident, expected) = match known {
            Known::Beforehand => (uid, true),
            Known::FromTheRuntime => self.alone(&object.pod, plan)?,
        };
        let created =
            self.stage
                .cri
                .create_as(&pod, &plan.name, attempt, plan.resources(), &FOREVER);
        let id = match (created, expected) {
            (Ok(id), true) => id,
            (Err(problem), false) if problem.contains("Pinfold") => return Ok(None),
            (Err(problem), _) => return Err(format!("{}: {problem}", plan.name)),
            (Ok(_), false) => return Err(format!("{} was let in", plan.name)),
        };
        self.stage.cri.start_container(&id)?;
        let name = ContainerName::from(plan.name.as_str());
        if known == Known::Beforehand {
            self.oracle.start(&resident, &name)?;
        }
        let last = self.running.last_mut().ok_or("there is no pod")?;
        let parent = last.plan.group(self.stage.runtime.cgroup())?;
        let group = self.stage.runtime.group(&parent, &id);
        last.containers.push(RunningContainer {
            id: id.clone(),
            name,
            resident,
            group,
        });
        Ok(Some(id))
    }

    /// A container of an unknown pod, decided by itself.
    fn alone(&mut self, pod: &CorePod, plan: &ContainerPlan) -> Result<(PodUid, bool), String> {
        let resident = PodUid::from(format!("{}/{}", pod.uid, plan.name).as_str());
        if QosClass::of(pod) != QosClass::Guaranteed {
            // It uses the shared pool for any request.
            return Ok((resident, true));
        }
        let container = pod.container(&plan.name.as_str().into());
        let mut container = container.ok_or("no such container")?.clone();
        container.restartable = false;
        let alone = CorePod {
            uid: resident.clone(),
            name: String::new(),
            init_containers: Vec::new(),
            containers: vec![container],
            pod_requests: None,
            pod_limits: None,
        };
        let expected = self.oracle.admit(&alone)?;
        Ok((resident, expected))
    }

    /// A container ends by itself, as if it had done its work. It is removed with its pod, as the kubelet does.
    pub(crate) fn end(&mut self, id: &str) -> Result<(), String> {
        let mut ended = Vec::new();
        for running in &mut self.running {
            let gone = running.containers.extract_if(.., |one| one.id == id);
            ended.extend(gone.map(|container| (running.known, container)));
        }
        for (known, container) in ended {
            let process = self.stage.groups.look(&container.group)?.process;
            succeed(Command::new("kill").args(["-s", "KILL", &process]))?;
            let cri = &self.stage.cri;
            eventually("the container has ended", || {
                cri.is_running(&container.id).is_ok_and(|runs| !runs)
            })?;
            if known == Known::FromTheRuntime {
                self.oracle.release(&container.resident)?;
                let uid = container.resident.to_string();
                let agent = &self.agent;
                eventually(&format!("{uid} has given back what it held"), || {
                    let pods = agent.ask("GET", "/v1/pods", "");
                    pods.is_ok_and(|(_, pods)| !pods.to_string().contains(&format!("\"{uid}\"")))
                })?;
            }
        }
        Ok(())
    }

    /// A pod ends.
    pub(crate) fn go(&mut self, name: &str) -> Result<(), String> {
        let at = self.running.iter().position(|one| one.plan.name == name);
        let gone = self.running.remove(at.ok_or("no such pod")?);
        self.stage.cri.remove(&gone.pod)?;
        if gone.known == Known::Beforehand {
            let path = format!("/v1/pods/{}", gone.plan.uid());
            self.agent.ask("DELETE", &path, "")?;
            self.oracle.release(&gone.plan.uid().as_str().into())?;
        }
        for container in &gone.containers {
            self.oracle.release(&container.resident)?;
        }
        Ok(())
    }

    /// All pods end, and nothing is left.
    pub(crate) fn clear(&mut self) -> Result<(), String> {
        while let Some(last) = self.running.last() {
            let name = last.plan.name.clone();
            self.go(&name)?;
        }
        let mut left = String::new();
        eventually("everything is given back", || {
            let pods = self.agent.ask("GET", "/v1/pods", "");
            left = format!("{pods:?}");
            pods.is_ok_and(|(_, pods)| pods.as_array().is_some_and(Vec::is_empty))
        })
        .map_err(|problem| format!("{problem}: {left}"))
    }

    /// Checks that no drift had to be repaired: the runtime applied every update.
    pub(crate) fn undisturbed(&self) -> Result<(), String> {
        let metrics = self.agent.metrics()?;
        let drifts = metrics.iter().filter(|(name, count)| {
            name.starts_with("pinfold_cgroup_drift_total") && **count > 0.0
        });
        let found: Vec<String> = drifts
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let logged = self.agent.log();
        let logged = logged.iter().filter(|line| {
            line["message"]
                .as_str()
                .is_some_and(|text| text.contains("drift"))
        });
        let logged: Vec<String> = logged.map(ToString::to_string).collect();
        match found.is_empty() {
            true => Ok(()),
            false => Err(format!("{}: {}", found.join(", "), logged.join("\n"))),
        }
    }

    /// The cpuset of every container in the kernel is the expected one. Pools change soon, not at once.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut wrong = String::new();
        eventually("every container has what it should", || {
            wrong = self.wrong().join("; ");
            wrong.is_empty()
        })
        .map_err(|_| format!("after {PATIENCE:?}: {wrong}"))
    }

    fn is_pod_limited(&self, group: &str) -> bool {
        let pod = group.rsplit_once('/').map_or(group, |(pod, _)| pod);
        self.stage.groups.is_limited(pod).unwrap_or(true)
    }

    /// What is not as it should be.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for container in self.running.iter().flat_map(|pod| &pod.containers) {
            let (cpus, own, mems) = self.oracle.expected(&container.resident, &container.name);
            let seen = match self.stage.groups.look(&container.group) {
                Ok(seen) => seen,
                Err(problem) => {
                    wrong.push(problem);
                    continue;
                }
            };
            // CPUs of its own are not throttled: neither by its group nor by its pod's.
            let throttled = seen.limited || self.is_pod_limited(&container.group);
            let as_expected = seen.cpus == cpus
                && seen.group_cpus == cpus
                && seen.mems == mems
                && !(own && throttled);
            if !as_expected {
                let resident = &container.resident;
                let name = &container.name;
                wrong.push(format!(
                    "{resident} {name}: expected CPUs {cpus} (own: {own}) and memory of {mems}, found {seen:?}"
                ));
            }
        }
        wrong
    }
}
