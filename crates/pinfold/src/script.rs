//! Scripts: steps of a simulation as a YAML list.
//!
//! ```yaml
//! - add: web          # a pod, or all pods of the deployment, job or the like of that name
//! - start: web-0      # its containers start: init containers have finished
//! - remove: web-0
//! - restart           # the kubelet restarts
//! ```

use std::path::Path;

use pinfold_core::pod::Pod;
use pinfold_kube::diagnostic::Position;
use pinfold_kube::pod::PodObject;
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use crate::exit::Failure;
use crate::input::Source;
use crate::simulation::SimulationStep;

/// One line of a script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScriptLine {
    Add(String),
    Start(String),
    Remove(String),
    Restart,
}

/// The form of a script, for error messages.
const FORM: &str = "expected a list of steps: \"- add: POD\", \"- start: POD\", \"- remove: POD\" or \"- restart\"";

/// The names by which a script refers to a pod.
#[derive(Clone, Debug)]
pub(crate) struct ScriptPod {
    /// As it is printed.
    name: String,
    /// With the namespace.
    full_name: String,
    /// The object that creates it.
    owner: Option<String>,
}

impl ScriptPod {
    /// The name as it is printed.
    pub(crate) fn name_mut(&mut self) -> &mut String {
        &mut self.name
    }
}

impl From<&PodObject> for ScriptPod {
    fn from(pod: &PodObject) -> Self {
        Self {
            name: pod.pod.name.clone(),
            full_name: pod.meta.full_name(),
            owner: pod.owner.as_ref().map(|owner| owner.name.clone()),
        }
    }
}

/// A pod of which only name and uid are known.
impl From<&Pod> for ScriptPod {
    fn from(pod: &Pod) -> Self {
        Self {
            name: pod.name.clone(),
            full_name: pod.uid.to_string(),
            owner: None,
        }
    }
}

/// Reads a script that names these pods.
pub(crate) fn read(path: &Path, pods: &[ScriptPod]) -> Result<Vec<SimulationStep>, Failure> {
    steps(&Source::open(path)?, pods)
}

/// Reads the content of a script that names these pods.
pub(crate) fn steps(source: &Source, pods: &[ScriptPod]) -> Result<Vec<SimulationStep>, Failure> {
    let text = String::from_utf8_lossy(&source.bytes);
    let lines: Vec<Spanned<ScriptLine>> = serde_saphyr::from_str(&text).map_err(|error| {
        let error = error.without_snippet();
        let problem = error.to_string();
        let problem = problem.split(" at line ").next().unwrap_or_default();
        fail(source, error.location(), &format!("{problem}\n  {FORM}"))
    })?;
    let mut steps = Vec::new();
    for line in lines {
        let at = Some(line.referenced);
        let named = |name: &str| {
            let found = find(name, pods);
            match found.is_empty() {
                true => Err(fail(source, at, &unknown(name, pods))),
                false => Ok(found),
            }
        };
        match &line.value {
            ScriptLine::Add(name) => {
                steps.extend(named(name)?.into_iter().map(SimulationStep::Add));
            }
            ScriptLine::Start(name) => {
                steps.extend(named(name)?.into_iter().map(SimulationStep::Start));
            }
            ScriptLine::Remove(name) => {
                steps.extend(named(name)?.into_iter().map(SimulationStep::Remove));
            }
            ScriptLine::Restart => steps.push(SimulationStep::Restart),
        }
    }
    Ok(steps)
}

/// The positions of the pods of that name, or of the pods made by the object of that name.
fn find(name: &str, pods: &[ScriptPod]) -> Vec<usize> {
    let all = |is: &dyn Fn(&ScriptPod) -> bool| -> Vec<usize> {
        let pods = pods.iter().enumerate();
        pods.filter(|(_, pod)| is(pod)).map(|(i, _)| i).collect()
    };
    let own = all(&|pod| pod.name == name || pod.full_name == name);
    match own.is_empty() {
        true => all(&|pod| pod.owner.as_deref() == Some(name)),
        false => own,
    }
}

fn unknown(name: &str, pods: &[ScriptPod]) -> String {
    const MOST: usize = 8;
    let mut known: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    if known.len() > MOST {
        known.truncate(MOST);
        known.push("...");
    }
    format!("no pod {name:?}; the pods are {}", known.join(", "))
}

fn fail(source: &Source, at: Option<Location>, problem: &str) -> Failure {
    let at = at.filter(|at| at.line() > 0).map(|at| Position {
        line: at.line(),
        column: at.column(),
    });
    match at {
        Some(at) => {
            let excerpt = source.excerpt(at);
            Failure::BadInput(format!("{}:{at}\n  {problem}{excerpt}", source.name))
        }
        None => Failure::BadInput(format!("{}\n  {problem}", source.name)),
    }
}
