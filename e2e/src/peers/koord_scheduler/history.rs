//! [`History`]: the steps of a round and what koord-scheduler did with every pod.

use conformance::peers::{Outcome, Session};
use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use crate::cluster::pods::{Dice, PODS};
use crate::cluster::stage::eventually;
use crate::peers::stage::Stage;

/// A pod on a node.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) cpus: CpuSet,
}

/// All steps of a round, and their outcomes.
#[derive(Default)]
pub(super) struct History {
    /// What `conformance/peers` keeps of it.
    pub(super) session: Session,
    pub(super) placed: Vec<Placed>,
    /// Pods without an outcome, with the node that they are for.
    pub(super) waiting: Vec<(String, String)>,
    /// CPUs that were given to two pods at once.
    pub(super) twice: Vec<String>,
}

impl History {
    /// Nothing happened yet to nodes of this state.
    pub(super) fn new(state: Value) -> Self {
        let session = Session {
            state,
            ..Session::default()
        };
        Self {
            session,
            ..Self::default()
        }
    }

    /// A pod that is to leave this node, sometimes.
    pub(super) fn leaving(&mut self, dice: &mut Dice, node: &str) -> Option<Placed> {
        let here: Vec<usize> = (self.placed.iter().enumerate())
            .filter(|(_, pod)| pod.node == node)
            .map(|(at, _)| at)
            .collect();
        if here.is_empty() || !dice.says(35) {
            return None;
        }
        let at = here[dice.index(here.len())];
        let pod = self.placed.remove(at);
        self.session.steps.push(json!({ "remove": pod.name }));
        Some(pod)
    }

    pub(super) fn came(&mut self, node: &str, pod: Value) {
        let name = pod["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.session.steps.push(json!({ "add": name }));
        self.waiting.push((name, node.to_owned()));
        self.session.pods.push(pod);
    }

    /// Waits until koord-scheduler has decided about all that came. Pods without a node are deleted.
    pub(super) fn decided(&mut self, stage: &Stage) -> Result<(), String> {
        for (name, node) in std::mem::take(&mut self.waiting) {
            let path = format!("{PODS}/{name}");
            let (uid, outcome) =
                eventually(&format!("koord-scheduler decides about {name}"), || {
                    let pod = stage.admin.expect("GET", &path, None)?;
                    let outcome = Outcome::of(&pod).ok_or_else(|| pod["status"].to_string())?;
                    Ok((
                        pod["metadata"]["uid"]
                            .as_str()
                            .unwrap_or_default()
                            .to_owned(),
                        outcome,
                    ))
                })?;
            match &outcome {
                Outcome::Pending(_) => stage.delete(&name)?,
                Outcome::Bound(decision) => {
                    let cpus = decision["cpuset"].as_str().unwrap_or_default();
                    let cpus = CpuSet::parse(cpus).map_err(|error| error.to_string())?;
                    let others = self.placed.iter().filter(|other| other.node == node);
                    for other in others.filter(|other| !other.cpus.is_disjoint(&cpus)) {
                        let both =
                            format!("{name} {cpus} and {} {} on {node}", other.name, other.cpus);
                        self.twice.push(both);
                    }
                    let node = node.clone();
                    self.placed.push(Placed {
                        name: name.clone(),
                        uid,
                        node,
                        cpus,
                    });
                }
            }
            self.session.outcomes.insert(name, (node, outcome));
        }
        Ok(())
    }
}
