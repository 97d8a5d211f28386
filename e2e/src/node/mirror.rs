//! Mode mirror: under every topology policy and scope, the kubelet's decisions are those of `pinfold simulate`, and the
//! agent reports what the kubelet's files say, its podresources API lists and the kernel enforces.

use std::collections::BTreeMap;

use pinfold_core::quantity::Quantity;
use serde_json::{Value, json};

use super::holdings::{Held, Holdings, agent, array, kubelet_state, pod_resources, text_of};
use super::kubelet::{Settings, start_anew};
use super::machine::{GPU, Machine, NODE};
use super::pods::{Answer, bind, end, end_all, random};
use super::prediction::{Predictor, Step};
use super::verify;
use crate::cluster::kubelets::TOPOLOGIES;
use crate::cluster::pods::Dice;
use crate::cluster::stage::{Stage, eventually};
use crate::report::{Report, equal, say};

const SEED: u64 = 20_261_119;
/// The pods under each policy and scope.
const PODS: u32 = 26;
/// So many in a hundred of them start.
const STARTS: u64 = 9;
/// After so many in a hundred a pod ends.
const ENDS: u64 = 12;
/// The reserved CPUs, which are on the first NUMA node.
const RESERVED: u64 = 2;
/// The most differences that are printed.
const PRINTED: usize = 8;

const CASES: [Settings; 8] = [
    case("none", "container", &[]),
    case("none", "pod", &["full-pcpus-only"]),
    case("best-effort", "container", &["full-pcpus-only"]),
    case("best-effort", "pod", &["distribute-cpus-across-numa"]),
    case("restricted", "container", &["strict-cpu-reservation"]),
    case(
        "restricted",
        "pod",
        &["full-pcpus-only", "strict-cpu-reservation"],
    ),
    case("single-numa-node", "container", &[]),
    case("single-numa-node", "pod", &["full-pcpus-only"]),
];

const fn case(
    topology: &'static str,
    scope: &'static str,
    cpu_options: &'static [&'static str],
) -> Settings {
    Settings {
        topology,
        scope,
        cpus: "static",
        cpu_options,
        memory: "Static",
    }
}

/// The agent's configuration.
fn agent_configuration() -> Value {
    json!({
        "mode": "mirror",
        "nodeName": NODE,
        "runtime": { "nriSocket": "none" },
        "kubernetes": { "kubeconfig": "/etc/node/agent.kubeconfig", "publishInterval": "1s" },
        "metrics": { "listen": "none" },
    })
}

/// Plays the theme.
pub(super) fn run(report: &mut Report, stage: &Stage, machine: &Machine) -> Result<(), String> {
    say(format_args!("seed {SEED}"));
    let predictor = Predictor::new(machine.record()?, stage.plane.folder().to_owned())?;
    machine.write(
        "/etc/pinfold/agent.yaml",
        &agent_configuration().to_string(),
    )?;
    machine.run("chmod 0600 /etc/pinfold/agent.yaml")?;
    let mut all = 0;
    for (number, settings) in CASES.iter().enumerate() {
        let name = format!("{}, {}", settings.topology, settings.scope);
        let seed = SEED + u64::try_from(number).unwrap_or(0);
        let mut case = Case {
            stage,
            machine,
            settings,
            seen: BTreeMap::new(),
            steps: Vec::new(),
            admitted: Vec::new(),
            started: Vec::new(),
        };
        let played = case.play(number, seed);
        let played = played.and_then(|()| case.counted(&predictor));
        all += case.seen.len();
        report.check(
            format_args!(
                "node: mirror: {name} {:?}: every decision of the kubelet is the predicted one",
                settings.cpu_options
            ),
            played.map_err(|problem| machine.with_logs(&problem)),
        );
        let outcome = case
            .mirrored()
            .map_err(|problem| machine.with_logs(&problem));
        report.check(
            format_args!(
                "node: mirror: {name}: the agent reports what the kubelet's files, podresources and the kernel say"
            ),
            outcome,
        );
        end_all(stage)?;
    }
    machine.run("systemctl stop pinfold-agent")?;
    report.check(
        format_args!("node: mirror: {all} admissions were compared"),
        equal("at least 200", all >= 200, true),
    );
    Ok(())
}

/// A pod that was bound.
struct Seen {
    answer: Answer,
    /// What the kubelet's files had of it after the answer.
    held: Holdings,
    /// For differences.
    spec: String,
}

/// The pods under one policy and scope.
struct Case<'a> {
    stage: &'a Stage,
    machine: &'a Machine,
    settings: &'a Settings,
    seen: BTreeMap<String, Seen>,
    steps: Vec<Step>,
    /// The pods on the node, with their uids.
    admitted: Vec<(String, String)>,
    /// Those that start containers.
    started: Vec<String>,
}

impl Case<'_> {
    fn play(&mut self, number: usize, seed: u64) -> Result<(), String> {
        start_anew(self.stage, self.machine, self.settings)?;
        self.machine.run("systemctl start pinfold-agent")?;
        let mut dice = Dice::new(seed);
        for pod in 0..PODS {
            let starts = dice.says(STARTS);
            let pod = random(&mut dice, &format!("case-{number}-{pod}"), starts);
            self.bind(&pod, starts)?;
            if dice.says(ENDS) && !self.admitted.is_empty() {
                let (name, _) = self.admitted.remove(dice.index(self.admitted.len()));
                end(self.stage, &name)?;
                self.started.retain(|one| *one != name);
                self.steps.push(Step::Remove(name));
            }
        }
        Ok(())
    }

    fn bind(&mut self, pod: &Value, starts: bool) -> Result<(), String> {
        let name = text_of(&pod["metadata"]["name"]);
        let (created, answer) = bind(self.stage, pod)?;
        let uid = text_of(&created["metadata"]["uid"]);
        let mut held = kubelet_state(self.machine)?.holdings;
        held.retain(|(pod, _), _| *pod == uid);
        self.steps.push(Step::Add(created));
        if answer == Answer::Admitted {
            self.admitted.push((name.clone(), uid));
            if starts {
                self.started.push(name.clone());
            }
        }
        let spec = pod["spec"].to_string();
        self.seen.insert(name, Seen { answer, held, spec });
        Ok(())
    }

    /// Compares every decision with the predicted one.
    fn counted(&self, predictor: &Predictor) -> Result<(), String> {
        let predicted = predictor.ask(self.settings, &self.steps)?;
        let mut rejected: BTreeMap<&str, usize> = BTreeMap::new();
        let mut differences = Vec::new();
        for (name, seen) in &self.seen {
            if let Answer::Failed(reason, _) = &seen.answer {
                *rejected.entry(reason).or_default() += 1;
            }
            let found = predicted
                .get(name)
                .ok_or_else(|| format!("{name} was not predicted"))?;
            let place = |container: &String, held: &Held| {
                let (cpus, memory, mut nodes) = held.places();
                if !found.aligned.contains(container) {
                    nodes.fill(0);
                }
                (cpus, memory, nodes)
            };
            // What a kubelet's files have of a rejected pod is removed with the next one.
            let holds = seen.held.iter();
            let holds = holds.filter(|_| seen.answer == Answer::Admitted);
            let held: BTreeMap<_, _> = holds
                .map(|((_, container), held)| (container.clone(), place(container, held)))
                .collect();
            let expected = found.containers.iter();
            let expected: BTreeMap<_, _> = expected
                .map(|(container, held)| (container.clone(), place(container, held)))
                .filter(|(_, held)| *held != Default::default())
                .collect();
            if seen.answer != found.answer || held != expected {
                differences.push(format!(
                    "{name}\n    kubelet: {:?} {held:?}\n    pinfold: {:?} {expected:?}\n    spec: {}",
                    seen.answer, found.answer, seen.spec
                ));
            }
        }
        let count: usize = rejected.values().sum();
        say(format_args!(
            "        {}, {} {:?}: {} compared, {} admitted, {} with containers that run, rejected: {rejected:?}, {} differences",
            self.settings.topology,
            self.settings.scope,
            self.settings.cpu_options,
            self.seen.len(),
            self.seen.len() - count,
            self.started.len(),
            differences.len(),
        ));
        if differences.is_empty() {
            return equal("pods were admitted", self.seen.len() > count, true);
        }
        let printed = differences[..differences.len().min(PRINTED)].join("\n  ");
        Err(format!("{} differ:\n  {printed}", differences.len()))
    }

    /// Compares the agent's report with the kubelet's files, its podresources API, and the kernel.
    fn mirrored(&self) -> Result<(), String> {
        for name in &self.started {
            self.stage.runs(name)?;
        }
        let state = kubelet_state(self.machine)?;
        let reported = eventually("the agent reports what the kubelet's files say", || {
            let reported = agent(self.machine)?;
            equal("holdings", &reported, &state.holdings)?;
            Ok(reported)
        })?;
        let named: Holdings = reported
            .into_iter()
            .filter_map(|((uid, container), held)| {
                let (name, _) = self.admitted.iter().find(|(_, own)| *own == uid)?;
                Some(((name.clone(), container), held))
            })
            .collect();
        let listed = pod_resources(self.machine, "/var/lib/kubelet/pod-resources/kubelet.sock")?;
        verify::lists(&self.stage.pods()?, &listed, &named)?;
        let compared = verify::enforced(self.stage, self.machine, &named, &state.shared)?;
        say(format_args!(
            "        {compared} containers compared with the kernel"
        ));
        self.published(&named, &state.free_memory)
    }

    /// The NodeResourceTopology has what is free.
    fn published(
        &self,
        named: &Holdings,
        free_memory: &BTreeMap<(u32, String), u64>,
    ) -> Result<(), String> {
        let path = format!("{TOPOLOGIES}/{NODE}");
        eventually("the node's object has what is free", || {
            let object = self.stage.admin.expect("GET", &path, None)?;
            for zone in array(&object["zones"]) {
                let id = text_of(&zone["name"]);
                let id = id
                    .trim_start_matches("node-")
                    .parse::<u32>()
                    .map_err(|_| id.clone())?;
                for resource in array(&zone["resources"]) {
                    let name = text_of(&resource["name"]);
                    let amount = |key: &str| quantity(&resource[key]);
                    let held = verify::held_on(named, id, &name);
                    let expected = match free_memory.get(&(id, name.clone())) {
                        Some(free) => *free,
                        // Allocatable CPUs are the capacity, for a reader that subtracts reserved CPUs itself.
                        None if name == "cpu" && id == 0 => {
                            amount("allocatable")?.saturating_sub(held + RESERVED)
                        }
                        None => amount("allocatable")?.saturating_sub(held),
                    };
                    equal(
                        &format!("{name} of node {id}"),
                        amount("available")?,
                        expected,
                    )?;
                }
            }
            let policies: BTreeMap<String, String> = array(&object["attributes"])
                .map(|one| (text_of(&one["name"]), text_of(&one["value"])))
                .collect();
            let policy = policies.get("topologyManagerPolicy").map(String::as_str);
            equal("policy", policy, Some(self.settings.topology))?;
            let zones = array(&object["zones"]).count();
            equal("zones", zones, 2)?;
            let devices = array(&object["zones"]).flat_map(|zone| array(&zone["resources"]));
            let devices = devices.filter(|resource| resource["name"] == GPU).count();
            equal("zones with devices", devices, 2)
        })
    }
}

/// A whole number, as a quantity.
fn quantity(value: &Value) -> Result<u64, String> {
    let text = value.as_str().unwrap_or_default();
    let quantity: Result<Quantity, _> = text.parse();
    let number = quantity
        .ok()
        .and_then(|quantity| u64::try_from(quantity.value()).ok());
    number.ok_or_else(|| format!("expected a quantity, found {value}"))
}
