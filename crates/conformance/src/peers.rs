//! What koord-scheduler did with pods that came and left, recorded by the end-to-end suite of peers
//! (`conformance/peers`), beside what `pinfold simulate --as koordinator -o json` answers for the same state and steps.

pub mod round;

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The annotation in which Koordinator writes its decision.
pub const DECISION: &str = "scheduling.koordinator.sh/resource-status";

/// What happened to a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Bound, with this decision.
    Bound(Value),
    /// Pending, with this message.
    Pending(String),
}

impl Outcome {
    /// What happened to a pod so far, by its object; `None` while it is not decided.
    #[must_use]
    pub fn of(pod: &Value) -> Option<Self> {
        if pod["spec"]["nodeName"].is_string() {
            return Some(Self::Bound(decision(&pod["metadata"]["annotations"])));
        }
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let waits =
            conditions.find(|one| one["type"] == "PodScheduled" && one["status"] == "False")?;
        let message = waits["message"].as_str().unwrap_or_default();
        Some(Self::Pending(message.to_owned()))
    }

    /// How an event of the command line differs from this outcome of a pod that could go to one node only.
    #[must_use]
    pub fn difference(&self, event: &Value, node: &str) -> Option<String> {
        let differs = match self {
            Self::Bound(made) => event["node"] != node || decision(&event["annotations"]) != *made,
            Self::Pending(message) => {
                let groups = event["rejections"].as_array();
                let mut groups = groups.into_iter().flatten();
                let own = groups.find(|group| {
                    let nodes = group["nodes"].as_array();
                    nodes.into_iter().flatten().any(|one| one == node)
                });
                let reason = own.and_then(|group| group["reason"].as_str());
                event["node"].is_string()
                    || !reason.is_some_and(|reason| is_counted(message, reason))
            }
        };
        differs.then(|| format!("koord-scheduler: {self:?}\n    pinfold: {event}"))
    }
}

/// The decision in these annotations; an empty one without.
fn decision(annotations: &Value) -> Value {
    let text = annotations[DECISION].as_str();
    let decision = text.and_then(|text| serde_json::from_str(text).ok());
    decision.unwrap_or_else(|| json!({}))
}

/// Whether the message of a scheduler counts one node with every part of this reason. It has no amounts.
fn is_counted(message: &str, reason: &str) -> bool {
    let reason = reason.split_once(" (").map_or(reason, |(words, _)| words);
    let (summary, _) = message.split_once(" preemption: ").unwrap_or((message, ""));
    (reason.split(", ")).all(|part| summary.contains(&format!("1 {part}")))
}

/// Pods that came to nodes and left, in steps, each for one node only.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The nodes and their reports before the first step, as a `List`.
    pub state: Value,
    /// The pods as they were created.
    pub pods: Vec<Value>,
    /// The script of `simulate`: lines with `add` or `remove` and the name of a pod.
    pub steps: Vec<Value>,
    /// The node that every pod was for, and what happened to it, by the pod's name.
    pub outcomes: BTreeMap<String, (String, Outcome)>,
}

/// The answers that were compared, and how they differ.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Pods whose outcome was compared. Pods after the first difference on a node are not: what they find there differs.
    pub compared: usize,
    /// By the name of the pod, the first one of every node that has one.
    pub differences: Vec<(String, String)>,
}

impl Session {
    /// A line of a vector file.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let outcomes: BTreeMap<&str, Value> = (self.outcomes.iter())
            .map(|(name, (node, outcome))| {
                let outcome = match outcome {
                    Outcome::Bound(decision) => json!({ "node": node, "status": decision }),
                    Outcome::Pending(message) => json!({ "node": node, "message": message }),
                };
                (name.as_str(), outcome)
            })
            .collect();
        json!({ "state": self.state, "pods": self.pods, "steps": self.steps, "outcomes": outcomes })
    }

    /// Reads a line of a vector file.
    ///
    /// # Errors
    /// The name of the field that is missing or of another type.
    pub fn from_json(line: &Value) -> Result<Self, String> {
        let list = |name: &str| {
            let list = line[name].as_array().cloned();
            list.ok_or_else(|| format!("{name}: expected a list"))
        };
        let outcomes = line["outcomes"].as_object();
        let outcomes = outcomes.ok_or("outcomes: expected an object")?;
        let outcomes = outcomes.iter().map(|(name, outcome)| {
            let node = outcome["node"].as_str();
            let node = node.ok_or_else(|| format!("outcomes.{name}.node: expected a name"))?;
            let made = match outcome["message"].as_str() {
                Some(message) => Outcome::Pending(message.to_owned()),
                None if outcome["status"].is_object() => Outcome::Bound(outcome["status"].clone()),
                None => return Err(format!("outcomes.{name}: expected message or status")),
            };
            Ok((name.clone(), (node.to_owned(), made)))
        });
        Ok(Self {
            state: line["state"].clone(),
            pods: list("pods")?,
            steps: list("steps")?,
            outcomes: outcomes.collect::<Result<_, String>>()?,
        })
    }

    /// Compares what happened with the answer of the command line.
    ///
    /// # Errors
    /// The answer is about other pods than the recorded run.
    pub fn compare(&self, answer: &Value) -> Result<Comparison, String> {
        let events = answer["events"]
            .as_array()
            .ok_or("events: expected a list")?;
        let added = events.iter().filter(|event| event["step"] == "add");
        let mut comparison = Comparison::default();
        let mut differs: Vec<&str> = Vec::new();
        let mut seen = 0;
        for event in added {
            let name = event["pod"].as_str().unwrap_or_default();
            let name = name.rsplit('/').next().unwrap_or_default();
            let (node, outcome) = (self.outcomes.get(name))
                .ok_or_else(|| format!("a pod {name:?} is not part of the session"))?;
            seen += 1;
            if differs.contains(&node.as_str()) {
                continue;
            }
            comparison.compared += 1;
            if let Some(difference) = outcome.difference(event, node) {
                differs.push(node);
                comparison.differences.push((name.to_owned(), difference));
            }
        }
        match seen == self.outcomes.len() {
            true => Ok(comparison),
            false => Err(format!(
                "the answer has {seen} of {} pods of the session",
                self.outcomes.len()
            )),
        }
    }
}
