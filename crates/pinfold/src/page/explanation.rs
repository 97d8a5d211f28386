//! Why one pod of a question is admitted or rejected, with remedies that the page can apply.

use pinfold_core::explanation::AlignmentHints;
use pinfold_core::remedy::{Alteration, MoveStep, Remedy};
use pinfold_kube::decider::Decider;
use pinfold_kube::pod::PodObject;
use pinfold_page::ApiResponse;
use pinfold_render::explain;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::findings::{Findings, Part};
use super::playground::{PodPlan, nodes, whole};
use super::question::Question;
use crate::cluster::ClusterFiles;
use crate::commands::explain::cluster::ClusterExplanation;
use crate::commands::explain::{NodeAnswer, PodQuestion};
use crate::simulation::SimulationStep;

/// The columns of texts.
const WIDTH: usize = 100;
/// The most hints of a resource that are listed.
const MOST_HINTS: usize = 64;

/// A question about one pod.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainQuestion {
    question: Question,
    /// The pod: its place among the pods that are added.
    add: usize,
}

/// The answer about one pod.
#[derive(Serialize)]
struct ExplainAnswer<'a> {
    pod: &'a str,
    /// What `pinfold explain -o json` prints.
    explanation: &'a NodeAnswer,
    /// What `pinfold explain` prints.
    text: String,
    /// The hints of each alignment.
    hints: Vec<AlignmentHints>,
    remedies: Vec<RemedyButton>,
}

/// A remedy: a line, and the fields of the question that change with it.
#[derive(Serialize)]
struct RemedyButton {
    text: String,
    /// Fields of the question with their new values; lists are appended to. None if the page cannot apply it.
    #[serde(skip_serializing_if = "Option::is_none")]
    apply: Option<serde_json::Value>,
}

/// Answers why one pod of a question is admitted or rejected.
pub(super) fn answer(body: &[u8]) -> Result<ApiResponse, Findings> {
    let asked: ExplainQuestion = serde_json::from_slice(body)
        .map_err(|error| Findings::one(Part::Question, format!("not a question: {error}")))?;
    let question = &asked.question;
    let decider = question.decider()?;
    let files = question.node()?;
    let objects = question.pods()?.objects;
    let no_pod = || Findings::one(Part::Question, "the question has no such pod");
    if !matches!(decider, Decider::Kubelet(_) | Decider::Pinfold) {
        let steps = question.steps(&objects)?;
        let (at, index) = nth_add(&steps, asked.add).ok_or_else(no_pod)?;
        let (pod, before) = (&objects[index], running(&steps[..at], &objects));
        let files = ClusterFiles::of_one(files);
        let found = ClusterExplanation::quietly(&files, decider, &before, pod, WIDTH);
        let (explanation, text) = found.map_err(whole)?;
        return Ok(ApiResponse::json(&json!({
            "pod": pod.pod.name, "explanation": explanation, "text": text, "hints": [], "remedies": [],
        })));
    }
    let (node, pinfold, _) = nodes(&files, decider)?;
    let plan = PodPlan::new(question, &node, objects)?;
    let (at, index) = nth_add(&plan.steps, asked.add).ok_or_else(no_pod)?;
    let steps = plan.simulation_plan();
    let before = steps.run_first_on(&node, at).map_err(whole)?;
    let (Some(pod), Some(request), Some(admission)) = (
        plan.pods.get(index),
        plan.requests.get(index),
        &before.admission,
    ) else {
        return Err(no_pod());
    };
    let asked_pod = PodQuestion {
        name: &pod.name,
        pod,
        request,
        ledger: &before.ledger,
        sums: &admission.node,
        bound: question.bound,
    };
    let explanation = asked_pod.answer(|| {
        let pinfold = pinfold.as_ref()?;
        Some(steps.run_first_on(pinfold, at).ok()?.ledger)
    });
    let explanation = explanation.map_err(whole)?;
    let order = Order { plan: &plan, at };
    let remedies = explanation.found.fitting.iter();
    let remedies = remedies.map(|remedy| RemedyButton {
        text: explain::remedy(remedy),
        apply: order.apply(&pod.name, remedy),
    });
    Ok(ApiResponse::json(&ExplainAnswer {
        pod: &pod.name,
        text: asked_pod.text(&explanation, WIDTH),
        hints: before.ledger.list_hints(pod, MOST_HINTS),
        remedies: remedies.collect(),
        explanation: &explanation,
    }))
}

/// The place of an addition among the steps, and its pod.
fn nth_add(steps: &[SimulationStep], add: usize) -> Option<(usize, usize)> {
    let mut adds = steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| match step {
            SimulationStep::Add(pod) => Some((at, *pod)),
            _ => None,
        });
    adds.nth(add)
}

/// The pods that the steps leave on a cluster, for the original programs, which do not know restarts.
fn running(steps: &[SimulationStep], objects: &[PodObject]) -> Vec<PodObject> {
    let mut running: Vec<usize> = Vec::new();
    for step in steps {
        match step {
            SimulationStep::Add(pod) => running.push(*pod),
            SimulationStep::Remove(pod) => running.retain(|other| other != pod),
            _ => {}
        }
    }
    let running = running.into_iter();
    running
        .filter_map(|pod| objects.get(pod).cloned())
        .collect()
}

/// The order of arrival, which moves and evictions change.
struct Order<'a> {
    plan: &'a PodPlan,
    /// The step that adds the pod in question.
    at: usize,
}

impl Order<'_> {
    /// The fields of the question with which the remedy is applied to a pod.
    fn apply(&self, pod: &str, remedy: &Remedy) -> Option<serde_json::Value> {
        Some(match &remedy.alteration {
            Alteration::Request(changes) => {
                let changes = changes.iter().map(|change| {
                    json!({
                        "pod": pod, "container": change.container, "resource": change.resource,
                        "manager": change.manager, "to": change.to,
                    })
                });
                json!({ "changes": changes.collect::<Vec<_>>() })
            }
            Alteration::Policy { to, .. } => json!({ "policy": to.name() }),
            Alteration::Scope { to, .. } => json!({ "scope": to.name() }),
            Alteration::OptionOff { name, .. } => json!({ "options_off": [name] }),
            Alteration::Evict(pods) => {
                let lines = pods
                    .iter()
                    .map(|pod| format!("- remove: {}\n", quoted(&pod.name)));
                json!({ "steps": self.steps(&lines.collect::<String>(), false) })
            }
            Alteration::Move(plan) => {
                let lines = plan.steps.iter().map(|step| match step {
                    MoveStep::Release(pod) => format!("- remove: {}\n", quoted(&pod.name)),
                    MoveStep::Admit(pod) => format!("- add: {}\n", quoted(&pod.name)),
                });
                json!({ "steps": self.steps(&lines.collect::<String>(), true) })
            }
        })
    }

    /// The script with lines before the pod's own step, or in its place.
    fn steps(&self, lines: &str, in_place: bool) -> String {
        let mut script = String::new();
        for (at, step) in self.plan.steps.iter().enumerate() {
            if at == self.at {
                script.push_str(lines);
                if in_place {
                    continue;
                }
            }
            let name = |pod: usize| {
                let pod = self.plan.pods.get(pod);
                quoted(pod.map_or("", |pod| pod.name.as_str()))
            };
            match step {
                SimulationStep::Add(pod) => script.push_str(&format!("- add: {}\n", name(*pod))),
                SimulationStep::Start(pod) => {
                    script.push_str(&format!("- start: {}\n", name(*pod)));
                }
                SimulationStep::Remove(pod) => {
                    script.push_str(&format!("- remove: {}\n", name(*pod)));
                }
                SimulationStep::Restart => script.push_str("- restart\n"),
                SimulationStep::StartOne { .. } | SimulationStep::Offer(_) => {}
            }
        }
        script
    }
}

/// A name as YAML. JSON's strings are YAML's.
fn quoted(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-./_".contains(letter);
    let is_plain = name.chars().all(plain) && name.starts_with(|c: char| c.is_ascii_alphabetic());
    match is_plain {
        true => name.to_owned(),
        false => json!(name).to_string(),
    }
}
