//! Scripts: steps of a simulation as a YAML list.
//!
//! ```yaml
//! - add: web          # a pod, or all pods of the deployment, job or the like of that name
//! - start: web-0      # its containers start: init containers have finished
//! - remove: web-0
//! - restart           # the kubelet restarts
//! ```

use std::path::{Path, PathBuf};

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

/// The steps of a script, or without one a step that adds each pod once.
pub(crate) fn steps(
    script: Option<&PathBuf>,
    pods: &[PodObject],
) -> Result<Vec<SimulationStep>, Failure> {
    match script {
        Some(path) => read(path, pods),
        None => Ok((0..pods.len()).map(SimulationStep::Add).collect()),
    }
}

/// Reads a script that names these pods.
fn read(path: &Path, pods: &[PodObject]) -> Result<Vec<SimulationStep>, Failure> {
    let source = Source::open(path)?;
    let text = String::from_utf8_lossy(&source.bytes);
    let lines: Vec<Spanned<ScriptLine>> = serde_saphyr::from_str(&text).map_err(|error| {
        let error = error.without_snippet();
        let problem = error.to_string();
        let problem = problem.split(" at line ").next().unwrap_or_default();
        fail(&source, error.location(), &format!("{problem}\n  {FORM}"))
    })?;
    let mut steps = Vec::new();
    for line in lines {
        let at = Some(line.referenced);
        let named = |name: &str| {
            let found = find(name, pods);
            match found.is_empty() {
                true => Err(fail(&source, at, &unknown(name, pods))),
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
fn find(name: &str, pods: &[PodObject]) -> Vec<usize> {
    let all = |is: &dyn Fn(&PodObject) -> bool| -> Vec<usize> {
        let pods = pods.iter().enumerate();
        pods.filter(|(_, pod)| is(pod)).map(|(i, _)| i).collect()
    };
    let own = all(&|pod| pod.pod.name == name || pod.meta.full_name() == name);
    match own.is_empty() {
        true => all(&|pod| pod.owner.as_ref().is_some_and(|owner| owner.name == name)),
        false => own,
    }
}

fn unknown(name: &str, pods: &[PodObject]) -> String {
    const MOST: usize = 8;
    let mut known: Vec<&str> = pods.iter().map(|pod| pod.pod.name.as_str()).collect();
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
