//! A takeover from a real kubelet, and back, by the commands of `docs/takeover.md`.

use pinfold_core::cpu_set::CpuSet;
use serde_json::Value;

use super::holdings::{Held, Holdings, agent, kubelet_state, nodes_of, object, text_of};
use super::kubelet::{Settings, start, start_anew};
use super::machine::{GPU, Machine};
use super::page;
use super::pods::{Answer, bind, burstable, container, end, end_all, pod};
use super::samples::Samples;
use super::verify::{Running, enforced, running};
use crate::cluster::stage::{Stage, eventually};
use crate::report::{Report, equal, say};

const STATIC: Settings = Settings {
    topology: "single-numa-node",
    scope: "container",
    cpus: "static",
    cpu_options: &["full-pcpus-only"],
    memory: "Static",
};

/// What the page leaves to the reader: the API server.
const KUBERNETES: &str = "kubernetes: {kubeconfig: /etc/node/agent.kubeconfig}\nEND\n";

/// Plays the theme.
pub(super) fn run(report: &mut Report, stage: &Stage, machine: &Machine) -> Result<(), String> {
    let there = page::scripts("There")?;
    let back = page::scripts("And back")?;
    let [first, second, third, last] = there.as_slice() else {
        return Err(format!(
            "expected four scripts on the way there, found {}",
            there.len()
        ));
    };
    let first = first.replacen("\nEND\n", &format!("\n{KUBERNETES}"), 1);
    let node = Taken { stage, machine };
    let mut check = |name: &str, outcome: Result<(), String>| {
        let outcome = outcome.map_err(|problem| machine.with_logs(&problem));
        let is_ok = outcome.is_ok();
        report.check(format_args!("node: takeover: {name}"), outcome);
        match is_ok {
            true => Ok(()),
            false => Err("the rest of the takeover was not played".to_owned()),
        }
    };
    node.pin()?;
    let old = running(stage)?;
    check(
        "in the phase \"kubelet\" the agent changes nothing",
        node.first(&first, &old),
    )?;
    let pinned = node.pinned_by_kubelet()?;
    let old: Vec<Running> = running(stage)?;
    check(
        "in the phase \"in-progress\" it keeps every pod that the kubelet pinned",
        node.second(second, &old, &pinned),
    )?;
    let samples = Samples::start(machine)?;
    let outcome = node.third(third, &pinned);
    let outcome = outcome.and_then(|()| node.new_pods(&pinned));
    let outcome = outcome.and_then(|()| node.restarts(&pinned));
    let kept: Vec<Running> = old
        .iter()
        .filter(|one| pinned.contains_key(&(one.pod.clone(), one.container.clone())))
        .cloned()
        .collect();
    let outcome = outcome.and_then(|()| {
        let count = samples.finish(&kept)?;
        say(format_args!(
            "        {} containers kept their CPUs and NUMA nodes in {count} samples",
            kept.len()
        ));
        equal("enough samples", count >= 10 * kept.len(), true)
    });
    check(
        "the kubelet restarts with \"none\" and pinned containers never move, new pods run beside them",
        outcome,
    )?;
    check(
        "when the pods of the kubelet have ended it is done",
        node.done(last, &pinned),
    )?;
    check("and back: the kubelet pins again", node.back(&back))?;
    end_all(stage)
}

/// A node that is taken over.
struct Taken<'a> {
    stage: &'a Stage,
    machine: &'a Machine,
}

impl Taken<'_> {
    /// Pods that the kubelet pins.
    fn pin(&self) -> Result<(), String> {
        self.machine
            .run("systemctl stop pinfold-agent; rm -rf /var/lib/pinfold /etc/pinfold/*")?;
        start_anew(self.stage, self.machine, &STATIC)?;
        let device = [
            ("cpu", "2"),
            ("memory", "128Mi"),
            (GPU, "1"),
            ("hugepages-2Mi", "8Mi"),
        ];
        let alone = pod("old-device", &[container("main", &device)]);
        let half = [("cpu", "500m"), ("memory", "32Mi")];
        let beside = pod(
            "old-beside",
            &[
                container("main", &[("cpu", "2"), ("memory", "64Mi")]),
                container("beside", &half),
            ],
        );
        let shared = pod("old-shared", &[burstable("main", "100m")]);
        for pod in [alone, beside, shared] {
            self.admitted(&pod)?;
        }
        self.kernel_agrees_with_kubelet()
    }

    /// A pod that is admitted and runs.
    fn admitted(&self, pod: &Value) -> Result<(), String> {
        let (_, answer) = bind(self.stage, pod)?;
        equal("the kubelet's answer", answer, Answer::Admitted)?;
        self.stage
            .runs(&text_of(&pod["metadata"]["name"]))
            .map(drop)
    }

    /// What containers hold by the kubelet's files, by the names of pods.
    fn pinned_by_kubelet(&self) -> Result<Holdings, String> {
        let state = kubelet_state(self.machine)?;
        let mut holdings = self.named(state.holdings)?;
        holdings.retain(|_, held| !held.cpus.is_empty());
        Ok(holdings)
    }

    /// The names of pods in place of their uids.
    fn named(&self, holdings: Holdings) -> Result<Holdings, String> {
        let pods = self.stage.pods()?;
        let name = |uid: &str| {
            let mut found = pods.iter().filter(|(_, pod)| pod["metadata"]["uid"] == uid);
            found.next().map(|(name, _)| name.clone())
        };
        let named = holdings
            .into_iter()
            .filter_map(|((uid, container), held)| Some(((name(&uid)?, container), held)));
        Ok(named.collect())
    }

    fn kernel_agrees_with_kubelet(&self) -> Result<(), String> {
        let state = kubelet_state(self.machine)?;
        let named = self.named(state.holdings)?;
        enforced(self.stage, self.machine, &named, &state.shared).map(drop)
    }

    fn status(&self) -> Result<Value, String> {
        self.machine.json("pinfold status -o json")
    }

    /// Waits until the takeover is in a phase, and the kubelet's policy is this.
    fn phase(&self, phase: &str, policy: &str) -> Result<Value, String> {
        eventually(
            &format!("the phase is {phase}, the policy {policy}"),
            || {
                let status = self.status()?;
                equal("phase", status["takeover"]["phase"].as_str(), Some(phase))?;
                equal(
                    "policy",
                    status["takeover"]["kubeletPolicy"].as_str(),
                    Some(policy),
                )?;
                equal("problems", &status["problems"], &Value::Array(Vec::new()))?;
                Ok(status)
            },
        )
    }

    fn script(&self, script: &str) -> Result<(), String> {
        let output = self.machine.run(&format!("set -e\n{script}"))?;
        say(format_args!(
            "        {}",
            output.trim().replace('\n', "\n        ")
        ));
        Ok(())
    }

    fn first(&self, script: &str, old: &[Running]) -> Result<(), String> {
        let before = self.machine.cpusets()?;
        self.script(script)?;
        self.phase("kubelet", "static")?;
        let after = self.machine.cpusets()?;
        for one in old {
            equal(&one.pod, after.get(&one.id), before.get(&one.id))?;
        }
        // The kubelet goes on, beside the agent.
        let amounts = [("cpu", "2"), ("memory", "64Mi")];
        self.admitted(&pod("old-late", &[container("main", &amounts)]))?;
        self.kernel_agrees_with_kubelet()
    }

    fn second(&self, script: &str, old: &[Running], pinned: &Holdings) -> Result<(), String> {
        let samples = Samples::start(self.machine)?;
        self.script(script)?;
        let status = self.phase("in-progress", "static")?;
        let listed = object(&status["takeover"]["pinnedPods"]).count();
        let mut pods: Vec<&String> = pinned.keys().map(|(pod, _)| pod).collect();
        pods.dedup();
        equal("pinned pods", listed, pods.len())?;
        self.keeps(pinned)?;
        let kept = old
            .iter()
            .filter(|one| pinned.contains_key(&(one.pod.clone(), one.container.clone())));
        let kept: Vec<Running> = kept.cloned().collect();
        samples.finish(&kept).map(drop)
    }

    /// The agent and the kernel have the CPUs of these containers.
    fn keeps(&self, pinned: &Holdings) -> Result<(), String> {
        eventually("the agent has what the kubelet assigned", || {
            let reported = self.named(agent(self.machine)?)?;
            for (key, held) in pinned {
                let own = reported.get(key).map(|held| held.cpus.clone());
                equal(&format!("{key:?}"), own, Some(held.cpus.clone()))?;
            }
            Ok(())
        })?;
        let cpusets = self.machine.cpusets()?;
        for one in running(self.stage)? {
            if let Some(held) = pinned.get(&(one.pod.clone(), one.container.clone())) {
                let found = cpusets.get(&one.id).map(|cpuset| cpuset.cpus.clone());
                equal(&one.pod, found, Some(held.cpus.to_string()))?;
            }
        }
        Ok(())
    }

    fn third(&self, script: &str, pinned: &Holdings) -> Result<(), String> {
        self.script(script)?;
        self.phase("in-progress", "none")?;
        self.keeps(pinned)
    }

    /// New pods have exclusive CPUs that no other pod has.
    fn new_pods(&self, pinned: &Holdings) -> Result<(), String> {
        let amounts = [("cpu", "2"), ("memory", "64Mi")];
        self.admitted(&pod("new-own", &[container("main", &amounts)]))?;
        self.admitted(&pod("new-shared", &[burstable("main", "100m")]))?;
        let taken = pinned
            .values()
            .fold(CpuSet::new(), |all, held| &all | &held.cpus);
        let own = self.agent_and_kernel_agree(pinned)?;
        let key = ("new-own".to_owned(), "main".to_owned());
        let Held { cpus, .. } = own.get(&key).ok_or("the agent does not list new-own")?;
        equal("exclusive CPUs", cpus.len(), 2)?;
        equal("CPUs of other pods", cpus.is_disjoint(&taken), true)?;
        self.keeps(pinned)
    }

    /// The kernel enforces what the agent reports, and all other containers use the shared CPUs; the report. Containers
    /// that the kubelet pinned keep its NUMA nodes, which the agent does not know.
    fn agent_and_kernel_agree(&self, pinned: &Holdings) -> Result<Holdings, String> {
        let own = self.named(agent(self.machine)?)?;
        let shared = self.status()?["occupancy"]["shared"].clone();
        let shared = CpuSet::parse(shared.as_str().unwrap_or_default());
        let shared = shared.map_err(|error| error.to_string())?;
        let mut with_cpus = own.clone();
        with_cpus.retain(|_, held| !held.cpus.is_empty());
        for (key, held) in &mut with_cpus {
            if let Some(kept) = pinned.get(key) {
                held.memory.clone_from(&kept.memory);
            }
        }
        enforced(self.stage, self.machine, &with_cpus, &shared)?;
        Ok(own)
    }

    /// Kubelet and agent start again.
    fn restarts(&self, pinned: &Holdings) -> Result<(), String> {
        self.machine.run("systemctl stop kubelet")?;
        start(self.stage, self.machine)?;
        self.keeps(pinned)?;
        self.machine.run("systemctl restart pinfold-agent")?;
        self.phase("in-progress", "none")?;
        self.keeps(pinned)
    }

    fn done(&self, script: &str, pinned: &Holdings) -> Result<(), String> {
        let mut pods: Vec<&String> = pinned.keys().map(|(pod, _)| pod).collect();
        pods.dedup();
        for pod in pods {
            end(self.stage, pod)?;
        }
        self.phase("done", "none")?;
        self.script(script)?;
        self.agent_and_kernel_agree(&Holdings::new()).map(drop)
    }

    /// All pods but one, which a DaemonSet would keep, are gone when the kubelet returns.
    fn back(&self, scripts: &[String]) -> Result<(), String> {
        for pod in ["old-shared", "new-shared"] {
            end(self.stage, pod)?;
        }
        for script in scripts {
            self.script(script)?;
        }
        self.machine.run("systemctl stop kubelet")?;
        start(self.stage, self.machine)?;
        let amounts = [("cpu", "2"), ("memory", "64Mi"), (GPU, "1")];
        self.admitted(&pod("again", &[container("main", &amounts)]))?;
        eventually("the kubelet has assigned CPUs to both pods", || {
            let state = self.pinned_by_kubelet()?;
            let pods: Vec<&str> = state.keys().map(|(pod, _)| pod.as_str()).collect();
            equal("pods with CPUs", pods, vec!["again", "new-own"])
        })?;
        let left = self
            .machine
            .ask("ls -d /var/lib/pinfold; systemctl is-active pinfold-agent")?;
        equal(
            "the agent is gone",
            left.code != 0 && !left.text.contains("active (running)"),
            true,
        )?;
        // The kubelet gives a container that runs its CPUs, and leaves its memory where it is.
        let mut named = self.named(kubelet_state(self.machine)?.holdings)?;
        let kept = named.get_mut(&("new-own".to_owned(), "main".to_owned()));
        let kept = kept.ok_or("the kubelet does not list new-own")?;
        let found = running(self.stage)?
            .into_iter()
            .find(|one| one.pod == "new-own");
        let found = found.ok_or("new-own does not run")?;
        let before = self.machine.cpusets()?;
        let before = before.get(&found.id).ok_or("no control group of new-own")?;
        kept.memory = vec![("memory".to_owned(), 0, nodes_of(&before.mems)?)];
        let shared = kubelet_state(self.machine)?.shared;
        enforced(self.stage, self.machine, &named, &shared).map(drop)
    }
}
