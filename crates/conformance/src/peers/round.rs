//! Pods that a scheduler decided about in one state of the cluster, alone or as gangs, beside what `pinfold simulate`
//! answers for the same state.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One round of decisions.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The nodes, their reports and pods before, as a `List`.
    pub state: Value,
    /// The pods in the order in which the scheduler took them. Some may have been decided about before.
    pub pods: Vec<Value>,
    /// What was decided together.
    pub groups: Vec<Group>,
}

/// Pods that are bound together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Their names.
    pub pods: Vec<String>,
    /// Where they were bound; `None` if they wait.
    pub bound: Option<Vec<Binding>>,
}

/// Where a pod was bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The node.
    pub node: String,
    /// The CPUs that the scheduler chose; an empty list without any.
    pub cpus: String,
}

impl Binding {
    fn of(event: &Value) -> Option<Self> {
        let text = |name: &str| event[name].as_str().map(str::to_owned);
        Some(Self {
            node: text("node")?,
            cpus: text("cpus").unwrap_or_default(),
        })
    }
}

impl Round {
    /// A line of a vector file.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let groups = self.groups.iter().map(|group| {
            let bound = group.bound.as_ref().map(|bound| {
                let bound = bound.iter();
                let bound = bound.map(|one| json!({ "node": one.node, "cpus": one.cpus }));
                bound.collect::<Vec<_>>()
            });
            json!({ "pods": group.pods, "bound": bound })
        });
        let groups: Vec<Value> = groups.collect();
        json!({ "state": self.state, "pods": self.pods, "groups": groups })
    }

    /// Reads a line of a vector file.
    ///
    /// # Errors
    /// The name of the field that is missing or of another type.
    pub fn from_json(line: &Value) -> Result<Self, String> {
        let list = |value: &Value, name: &str| {
            let list = value[name].as_array().cloned();
            list.ok_or_else(|| format!("{name}: expected a list"))
        };
        let groups = list(line, "groups")?.into_iter().map(|group| {
            let names = list(&group, "pods")?;
            let names = names.iter().filter_map(Value::as_str).map(str::to_owned);
            let bound = match &group["bound"] {
                Value::Null => None,
                Value::Array(bound) => {
                    let bound: Option<_> = bound.iter().map(Binding::of).collect();
                    Some(bound.ok_or("bound: expected a node and CPUs of every pod")?)
                }
                _ => return Err("bound: expected a list or null".to_owned()),
            };
            Ok(Group {
                pods: names.collect(),
                bound,
            })
        });
        Ok(Self {
            state: line["state"].clone(),
            pods: list(line, "pods")?,
            groups: groups.collect::<Result<_, String>>()?,
        })
    }

    /// How many pods the groups have.
    #[must_use]
    pub fn decisions(&self) -> usize {
        self.groups.iter().map(|group| group.pods.len()).sum()
    }

    /// The groups that the answer of `pinfold simulate -o json` decides otherwise.
    ///
    /// # Errors
    /// If the answer is not about these pods.
    pub fn differences(&self, answer: &Value) -> Result<Vec<String>, String> {
        let events = answer["events"]
            .as_array()
            .ok_or_else(|| format!("no events: {answer}"))?;
        let named: BTreeMap<&str, &Value> = (events.iter())
            .filter_map(|event| Some((name(event["pod"].as_str()?), event)))
            .collect();
        let mut differences = Vec::new();
        for group in &self.groups {
            let events: Option<Vec<&Value>> = (group.pods.iter())
                .map(|pod| named.get(pod.as_str()).copied())
                .collect();
            let events = events.ok_or_else(|| format!("no event of {:?}", group.pods))?;
            let predicted: Option<Vec<Binding>> = events.iter().copied().map(Binding::of).collect();
            if predicted != group.bound {
                let events: Vec<String> = events.iter().map(ToString::to_string).collect();
                differences.push(format!(
                    "{:?}: the scheduler: {:?}\n    pinfold: {}",
                    group.pods,
                    group.bound,
                    events.join("\n    ")
                ));
            }
        }
        Ok(differences)
    }
}

/// The name of a pod, without its namespace.
fn name(pod: &str) -> &str {
    pod.rsplit_once('/').map_or(pod, |(_, name)| name)
}
