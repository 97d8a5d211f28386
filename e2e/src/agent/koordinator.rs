//! Koordinator's rules: classes of service, pools that grow and shrink, and what its scheduler chose.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeId;

use super::classes::Classes;
use super::drift::resized;
use super::kubelet::Room;
use super::options::Options;
use super::pods::{ContainerPlan, PodPlan};
use super::process::Agent;
use super::rules;
use super::scene::Known;
use super::stage::Stage;
use crate::containerd::cri::{FOREVER, Pod, Resources};
use crate::containerd::{PATIENCE, eventually};
use crate::report::{Report, Stop, equal};

const STATUS: &str = "scheduling.koordinator.sh/resource-status";
const GENERATION: &str = "pinfold.dev/generation";

/// What happens on a node.
type Story = fn(&mut Node<'_>) -> Result<(), String>;

/// Plays it with pods that are known beforehand, and with pods that are not.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, options: &Options) -> Result<(), Stop> {
    let ways = [
        (Known::FromTheRuntime, "known from the runtime"),
        (Known::Beforehand, "known beforehand"),
    ];
    for (known, how) in ways.into_iter().take(if options.brief { 1 } else { 2 }) {
        let mut node = Node::open(stage, known)?;
        let stories: [(&str, Story); 4] = [
            (
                "LSE and LSR pods get CPUs of their own, LS, BE and SYSTEM pods share",
                classes,
            ),
            ("what a scheduler chose is followed while it fits", chosen),
            ("pods are bound to the shared CPUs of a NUMA node", bound),
            (
                "a class that does not suit a pod, or finds no CPUs, is rejected",
                rejected,
            ),
        ];
        for (rule, story) in stories {
            let outcome = story(&mut node).and_then(|()| node.clear());
            node.abandon();
            report.check(format_args!("agent: koordinator: {rule} ({how})"), outcome);
        }
    }
    Ok(())
}

/// An agent under Koordinator's rules.
struct Node<'a> {
    stage: &'a mut Stage,
    agent: Agent,
    known: Known,
    classes: Classes,
    running: Vec<(PodPlan, Pod, String, String)>,
}

fn pod(name: &str, class: &str, cpu: (i64, i64)) -> PodPlan {
    let memory = if cpu.1 > 0 { 16 } else { 0 };
    let main = ContainerPlan::between("main", cpu, (memory, memory));
    PodPlan::new(name, vec![main]).label("koordinator.sh/qosClass", class)
}

/// A pod for which a scheduler chose these CPUs when the node was at that generation.
fn chosen_by_scheduler(name: &str, cpus: &CpuSet, generation: u64) -> PodPlan {
    pod(name, "LSR", (1000, 1000))
        .annotation(STATUS, &format!("{{\"cpuset\":\"{cpus}\"}}"))
        .annotation(GENERATION, &generation.to_string())
}

fn classes(node: &mut Node<'_>) -> Result<(), String> {
    node.comes(&pod("ls", "LS", (100, 0)))?;
    node.comes(&pod("system", "SYSTEM", (50, 0)))?;
    node.comes(&pod("be-1", "BE", (0, 0)))?;
    node.comes(&pod("lsr", "LSR", (1000, 1000)))?;
    // They find no room on the system's CPU any more.
    node.comes(&pod("be-2", "BE", (0, 0)))?;
    node.updated()?;
    node.goes("lsr")?;
    node.comes(&pod("lse", "LSE", (1000, 1000)))?;
    node.goes("be-1")?;
    node.goes("lse")
}

fn chosen(node: &mut Node<'_>) -> Result<(), String> {
    let last = node.last()?;
    node.comes(&pod("ls", "LS", (100, 0)))?;
    node.comes(&chosen_by_scheduler("first", &last, 1))?;
    let (cpus, _) = node.classes.expected("first-uid")?;
    equal("what the scheduler chose", &cpus, &last)?;
    // The same again: it is held, so it is decided here, if there is room.
    let second = chosen_by_scheduler("second", &last, 1);
    let is_in = node.come(&second)?;
    equal("there is room", is_in, Room::find()?.free > 1)?;
    let journal = node.agent.ask("GET", "/v1/journal?after=0", "")?.1;
    let entries = journal["entries"].to_string();
    if is_in {
        let old =
            format!("the scheduler chose CPUs {last} for generation 1 of the node, which is at");
        equal(
            &format!("the journal says why ({entries})"),
            entries.contains(&old),
            true,
        )?;
    }
    node.goes("first")
}

fn bound(node: &mut Node<'_>) -> Result<(), String> {
    let (machine, _) = super::oracle::machine()?;
    let home = machine
        .nodes()
        .iter()
        .rev()
        .find(|node| !node.cores.is_empty());
    let home = home.ok_or("no NUMA node has CPUs")?;
    let socket = home.cores.first().map_or(0, |core| core.socket);
    let text = format!(
        "{{\"cpuSharedPools\":[{{\"socket\":{socket},\"node\":{}}}]}}",
        home.id
    );
    let plan = pod("near", "LS", (100, 0)).annotation(STATUS, &text);
    node.bound(&plan, home.id)?;
    node.comes(&pod("lsr", "LSR", (1000, 1000)))?;
    node.goes("lsr")
}

fn rejected(node: &mut Node<'_>) -> Result<(), String> {
    let room = Room::find()?;
    let fraction = pod("fraction", "LSR", (500, 500));
    let wide = pod(
        "wide",
        "LSR",
        ((room.free + 1) * 1000, (room.free + 1) * 1000),
    );
    for plan in [fraction, wide] {
        equal(
            &format!("{} is let in", plan.name),
            node.come(&plan)?,
            false,
        )?;
    }
    node.check()
}

impl<'a> Node<'a> {
    fn open(stage: &'a mut Stage, known: Known) -> Result<Self, String> {
        let folder = stage.fresh();
        let mut setup = stage.setup(&folder, &rules::kubelet("none", "container"));
        setup.dialect = "koordinator";
        // What best-effort pods have depends on the classes alone here, not on the load of the machine.
        setup.more.push_str("\nkoordinator: {suppression: off}");
        Ok(Self {
            agent: stage.agent(&setup, &folder)?,
            stage,
            known,
            classes: Classes::new("0")?,
            running: Vec::new(),
        })
    }

    /// The last CPU.
    fn last(&self) -> Result<CpuSet, String> {
        let (machine, _) = super::oracle::machine()?;
        Ok(machine.online().iter().last().into_iter().collect())
    }

    fn comes(&mut self, plan: &PodPlan) -> Result<(), String> {
        let is_in = self.come(plan)?;
        equal(&format!("{} is let in", plan.name), is_in, true)
    }

    fn bound(&mut self, plan: &PodPlan, node: NodeId) -> Result<(), String> {
        let is_in = self.come_to(plan, Some(node))?;
        equal(&format!("{} is let in", plan.name), is_in, true)
    }

    fn come(&mut self, plan: &PodPlan) -> Result<bool, String> {
        self.come_to(plan, None)
    }

    /// A pod comes; the core must agree about whether it is let in.
    fn come_to(&mut self, plan: &PodPlan, bound: Option<NodeId>) -> Result<bool, String> {
        let chosen = plan.annotations.get(STATUS).filter(|_| bound.is_none());
        let chosen = chosen.and_then(|text| {
            let status: serde_json::Value = serde_json::from_str(text).ok()?;
            status["cpuset"].as_str()?.parse::<CpuSet>().ok()
        });
        let expected = self.classes.come(&plan.object()?, chosen.as_ref(), bound)?;
        if self.known == Known::Beforehand {
            let (code, said) = self.agent.ask("POST", "/v1/pods", &plan.manifest())?;
            let wanted = if expected { 201 } else { 409 };
            equal(&format!("{}: {said}", plan.name), code, wanted)?;
            if !expected {
                return Ok(false);
            }
        }
        let root = self.stage.runtime.cgroup().to_owned();
        let sandbox = match (self.stage.cri.run(plan.sandbox(&root, 0)?), expected) {
            (Ok(sandbox), true) => sandbox,
            (Err(problem), false) if problem.contains("Pinfold") => return Ok(false),
            (Err(problem), _) => return Err(problem),
            (Ok(sandbox), false) => {
                self.stage.cri.remove(&sandbox)?;
                return Err(format!("{} was let in", plan.name));
            }
        };
        let main = plan.containers.first().ok_or("no container")?;
        let cri = &self.stage.cri;
        let id = cri.create_as(&sandbox, "main", 0, main.resources(), &FOREVER)?;
        cri.start_container(&id)?;
        let group = self.stage.runtime.group(&plan.group(&root)?, &id);
        self.running.push((plan.clone(), sandbox, id, group));
        self.check()?;
        Ok(true)
    }

    fn goes(&mut self, name: &str) -> Result<(), String> {
        let at = self.running.iter().position(|(plan, ..)| plan.name == name);
        let (plan, pod, ..) = self.running.remove(at.ok_or("no such pod")?);
        self.stage.cri.remove(&pod)?;
        if self.known == Known::Beforehand {
            self.agent
                .ask("DELETE", &format!("/v1/pods/{}", plan.uid()), "")?;
        }
        self.classes.go(&plan.uid());
        self.check()
    }

    fn clear(&mut self) -> Result<(), String> {
        while let Some((plan, ..)) = self.running.last() {
            let name = plan.name.clone();
            self.goes(&name)?;
        }
        let agent = &self.agent;
        eventually("everything is given back", || {
            let pods = agent.ask("GET", "/v1/pods", "");
            pods.is_ok_and(|(_, pods)| pods.as_array().is_some_and(Vec::is_empty))
        })
    }

    fn abandon(&mut self) {
        for (plan, pod, ..) in self.running.drain(..) {
            let _ = self.stage.cri.remove(&pod);
            self.classes.go(&plan.uid());
        }
    }

    /// The kubelet changes resources: those with CPUs of their own are rejected, and the CPUs of all stay.
    fn updated(&self) -> Result<(), String> {
        let (machine, _) = super::oracle::machine()?;
        for (plan, _, id, _) in &self.running {
            let resources = Resources {
                cpuset_cpus: machine.online().to_string(),
                cpu_shares: 64,
                ..Resources::default()
            };
            let (_, own) = self.classes.expected(&plan.uid())?;
            resized(&self.stage.cri, id, resources, own)?;
        }
        equal("at once", self.wrong().join("; ").as_str(), "")
    }

    fn check(&self) -> Result<(), String> {
        let mut wrong = String::new();
        eventually("every container has what it should", || {
            wrong = self.wrong().join("; ");
            wrong.is_empty()
        })
        .map_err(|_| format!("after {PATIENCE:?}: {wrong}"))
    }

    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (plan, _, _, group) in &self.running {
            let found = self.classes.expected(&plan.uid()).and_then(|(cpus, own)| {
                let seen = self.stage.groups.look(group)?;
                equal(&plan.name, (&seen.cpus, &seen.group_cpus), (&cpus, &cpus))?;
                equal(
                    &format!("{} is throttled", plan.name),
                    own && seen.limited,
                    false,
                )
            });
            wrong.extend(found.err());
        }
        wrong
    }
}
