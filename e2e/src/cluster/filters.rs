//! What a real kube-scheduler does with pods that are not bound, and what `pinfold` answers on the same state: a pod that
//! fits no node has the message of `simulate --nodes`, and the node of every other pod is one that `explain --nodes`
//! lists. Which of several nodes that fit is chosen is not compared: scores are not simulated.
//!
//! The nodes are Node objects without kubelets: kube-scheduler counts what is bound.

mod cluster;
mod shapes;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::pods::{Dice, PODS};
use super::stage::{Stage, eventually};
use crate::programs::{self, PINFOLD};
use crate::report::{Report, say};

/// The seed of every run that names no other.
const SEED: u64 = 20_261_118;
/// Another seed, for runs that look for what the fixed one does not show: a number, or `fresh`.
const OTHER_SEED: &str = "PINFOLD_E2E_FILTER_SEED";
/// So many rounds; the pods of the round before are deleted.
const ROUNDS: u64 = 6;
const PODS_OF_A_ROUND: u64 = 60;
/// The most differences that are printed.
const PRINTED: usize = 12;

/// What happened to the pods.
#[derive(Default)]
struct Counts {
    bound: usize,
    /// Pods without a node, and how many of them had each reason.
    waiting: usize,
    reasons: BTreeMap<String, usize>,
    differences: Vec<String>,
}

/// Plays the story with a kube-scheduler of this name.
pub(crate) fn run(report: &mut Report, stage: &Stage, scheduler: &str) -> Result<(), String> {
    let seed = seed()?;
    say(format_args!("seed {seed}"));
    let scene = Scene::new(stage, scheduler)?;
    let mut counts = Counts::default();
    let outcome = scene.rounds(seed, &mut counts);
    say(format_args!(
        "        {} pods compared: {} bound, {} wait, nodes by reason: {:?}",
        counts.bound + counts.waiting,
        counts.bound,
        counts.waiting,
        counts.reasons
    ));
    report.check(
        "cluster: real kube-scheduler: every pod without a node waits for the reasons of pinfold simulate, and every node is one that fits",
        outcome.and_then(|()| agreed(&counts, seed == SEED)),
    );
    Ok(())
}

fn seed() -> Result<u64, String> {
    match std::env::var(OTHER_SEED).ok().as_deref() {
        None | Some("") => Ok(SEED),
        Some("fresh") => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map(|now| now.as_secs())
                .map_err(|error| error.to_string())
        }
        Some(text) => text
            .parse()
            .map_err(|_| format!("{OTHER_SEED}={text}: expected a number or fresh")),
    }
}

/// All answers agree; with the fixed seed the pods met every filter.
fn agreed(counts: &Counts, is_fixed: bool) -> Result<(), String> {
    let different = counts.differences.len();
    if different > 0 {
        let printed: Vec<&str> = counts.differences.iter().map(String::as_str).collect();
        let printed = printed[..different.min(PRINTED)].join("\n  ");
        return Err(format!("{different} differ:\n  {printed}"));
    }
    let expected = [
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient example.com/widget",
        "Too many pods",
        "node(s) were unschedulable",
        "node(s) had untolerated taint(s)",
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        "node(s) didn't have free ports for the requested pod ports",
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod topology spread constraints (missing required label)",
        "node(s) didn't match pod affinity rules",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ];
    let missing = expected
        .iter()
        .find(|reason| !counts.reasons.contains_key(**reason));
    match missing.filter(|_| is_fixed) {
        Some(reason) => Err(format!("no node was excluded with {reason}")),
        None => Ok(()),
    }
}

/// What kube-scheduler did with a pod.
enum Outcome {
    /// Bound to this node.
    Bound(String),
    /// No node fits: the message of the condition.
    Waits(String),
}

struct Scene<'a> {
    stage: &'a Stage,
    scheduler: &'a str,
    program: PathBuf,
    folder: PathBuf,
}

impl<'a> Scene<'a> {
    fn new(stage: &'a Stage, scheduler: &'a str) -> Result<Self, String> {
        let folder = stage.plane.folder().join("filters");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self {
            stage,
            scheduler,
            program: programs::debug_program(PINFOLD)?,
            folder,
        })
    }

    fn rounds(&self, seed: u64, counts: &mut Counts) -> Result<(), String> {
        let mut dice = Dice::new(seed);
        let others = self.create_namespaces()?;
        let nodes = self.create_nodes()?;
        for round in 0..ROUNDS {
            self.catch_up(round)?;
            for pod in shapes::certain(round) {
                self.compare(pod, counts)?;
            }
            for number in 0..PODS_OF_A_ROUND {
                let pod = shapes::random(&mut dice, &format!("pod-{round}-{number}"));
                self.compare(pod, counts)?;
            }
            say(format_args!(
                "        round {round}: {} bound, {} wait so far",
                counts.bound, counts.waiting
            ));
            self.clear(&others)?;
        }
        for node in nodes {
            let path = format!("/api/v1/nodes/{node}");
            self.stage.admin.expect("DELETE", &path, None)?;
        }
        Ok(())
    }

    /// Compares the outcome of a pod with the answers on the state before.
    fn compare(&self, mut pod: Value, counts: &mut Counts) -> Result<(), String> {
        pod["spec"]["schedulerName"] = self.scheduler.into();
        let before = self.state()?;
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let created = self.stage.admin.expect("POST", &pods, Some(&pod))?;
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{pods}/{name}");
        let outcome = self.outcome(&path)?;
        let difference = match &outcome {
            Outcome::Bound(node) => {
                counts.bound += 1;
                let found = self.ask("explain", &before, &created)?;
                let fits = found["fits"].as_array().cloned().unwrap_or_default();
                let is_listed = fits.iter().any(|fit| fit["node"] == node.as_str());
                (!is_listed)
                    .then(|| format!("kube-scheduler: {node}\n    pinfold: {}", brief(&found)))
            }
            Outcome::Waits(message) => {
                counts.waiting += 1;
                count_reasons(message, &mut counts.reasons);
                let found = self.ask("simulate", &before, &created)?;
                let status = &found["events"][0]["status"];
                let ours = status["message"].as_str().unwrap_or_default();
                (status["reason"] != "Unschedulable" || !says(message, ours)).then(|| {
                    format!(
                        "kube-scheduler: {message}\n    pinfold: {}",
                        found["events"][0]
                    )
                })
            }
        };
        if let Some(difference) = difference {
            let spec = &created["spec"];
            let labels = &created["metadata"]["labels"];
            let text = format!("{name}: {difference}\n    labels: {labels}\n    spec: {spec}");
            counts.differences.push(text);
        }
        if matches!(outcome, Outcome::Waits(_)) {
            let path = format!("{path}?gracePeriodSeconds=0");
            self.stage.admin.expect("DELETE", &path, None)?;
        }
        Ok(())
    }

    fn outcome(&self, path: &str) -> Result<Outcome, String> {
        eventually(&format!("kube-scheduler decides about {path}"), || {
            let pod = self.stage.admin.expect("GET", path, None)?;
            if let Some(node) = pod["spec"]["nodeName"].as_str() {
                return Ok(Outcome::Bound(node.to_owned()));
            }
            let conditions = pod["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let waits = conditions.find(|one| one["reason"] == "Unschedulable");
            match waits.and_then(|condition| condition["message"].as_str()) {
                Some(message) => Ok(Outcome::Waits(message.to_owned())),
                None => Err(pod["status"].to_string()),
            }
        })
    }

    /// All objects that kube-scheduler looks at.
    fn state(&self) -> Result<Value, String> {
        let mut items = Vec::new();
        for (path, kind) in [
            ("/api/v1/nodes", "Node"),
            ("/api/v1/namespaces", "Namespace"),
            ("/api/v1/pods", "Pod"),
        ] {
            let mut list = self.stage.admin.expect("GET", path, None)?;
            let objects = list["items"].as_array_mut().ok_or("no list")?;
            for object in objects {
                object["apiVersion"] = "v1".into();
                object["kind"] = kind.into();
                items.push(object.take());
            }
        }
        Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }))
    }

    /// The answer of a command about a pod.
    fn ask(&self, command: &str, state: &Value, pod: &Value) -> Result<Value, String> {
        let (nodes, file) = (self.folder.join("state.json"), self.folder.join("pod.json"));
        for (path, value) in [(&nodes, state), (&file, pod)] {
            let written = fs::write(path, value.to_string());
            written.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let mut asked = Command::new(&self.program);
        asked.args([command, "-o", "json", "--nodes"]);
        let output = asked.args([&nodes, &file]).output();
        let output = output.map_err(|error| error.to_string())?;
        serde_json::from_slice(&output.stdout).map_err(|error| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("{asked:?}: {error}: {errors}")
        })
    }

    /// Deletes all pods of the round.
    fn clear(&self, others: &[&str]) -> Result<(), String> {
        self.stage.clear_pods()?;
        for namespace in others {
            let path = format!("/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0");
            self.stage.admin.expect("DELETE", &path, None)?;
        }
        Ok(())
    }

    /// Waits until kube-scheduler has seen everything so far: a pod that was bound by hand comes after it, and another
    /// one can only be scheduled beside that.
    fn catch_up(&self, round: u64) -> Result<(), String> {
        let label = format!("marker-{round}");
        let mut marker = shapes::plain(&label);
        marker["metadata"]["labels"] = json!({ "marker": label });
        marker["spec"]["nodeName"] = cluster::MARKED.into();
        self.stage.create(&marker)?;
        let mut probe = shapes::plain(&format!("probe-{round}"));
        probe["spec"]["schedulerName"] = self.scheduler.into();
        let selector = json!({ "matchLabels": { "marker": label } });
        let term = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": selector });
        probe["spec"]["affinity"] = json!({
            "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] },
        });
        self.stage.create(&probe)?;
        let path = format!("{PODS}/probe-{round}");
        eventually("kube-scheduler has caught up", || {
            let pod = self.stage.admin.expect("GET", &path, None)?;
            match pod["spec"]["nodeName"].is_string() {
                true => Ok(()),
                false => Err(pod["status"].to_string()),
            }
        })
    }
}

/// Whether kube-scheduler's message is ours, followed at most by what its preemption found. Preemption has nothing to
/// look at if a filter rejected the pod before it saw a node, and says `not found`.
fn says(message: &str, ours: &str) -> bool {
    const PREEMPTION: [&str; 3] = [" preemption:", " no new claims", " not found"];
    let rest = message.strip_prefix(ours).filter(|_| !ours.is_empty());
    rest.is_some_and(|rest| {
        rest.is_empty() || PREEMPTION.iter().any(|start| rest.starts_with(start))
    })
}

/// Counts the nodes of every reason in `0/8 nodes are available: 2 Insufficient cpu, 6 Too many pods. preemption: ...`.
fn count_reasons(message: &str, reasons: &mut BTreeMap<String, usize>) {
    let Some((_, rest)) = message.split_once(": ") else {
        return;
    };
    let end = rest.find(". ").unwrap_or(rest.len());
    for reason in rest[..end].trim_end_matches('.').split(", ") {
        let parts = reason.split_once(' ');
        match parts.and_then(|(count, text)| Some((count.parse::<usize>().ok()?, text))) {
            Some((count, text)) => *reasons.entry(text.to_owned()).or_default() += count,
            None => *reasons.entry(reason.to_owned()).or_default() += 1,
        }
    }
}

/// The answer without the table of free resources.
fn brief(found: &Value) -> Value {
    json!({ "fits": found["fits"], "rejections": found["rejections"] })
}
