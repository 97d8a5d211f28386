//! [`Predictor`]: what `pinfold simulate --bound` answers about a sequence of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::holdings::{Held, array, simulated, text_of};
use super::kubelet::Settings;
use super::machine::{DEVICES, GPU};
use super::pods::Answer;
use crate::programs::{self, PINFOLD};

/// What is predicted about a pod.
#[derive(Clone, Debug)]
pub(super) struct Predicted {
    pub(super) answer: Answer,
    /// What each container gets.
    pub(super) containers: BTreeMap<String, Held>,
    /// The containers whose devices are on a NUMA node that the managers chose: elsewhere a kubelet takes any device.
    pub(super) aligned: BTreeSet<String>,
}

/// What happened on the node.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Add(Value),
    Remove(String),
}

/// The program, and a recording of the machine.
pub(super) struct Predictor {
    program: PathBuf,
    machine: PathBuf,
    folder: PathBuf,
}

impl Predictor {
    pub(super) fn new(machine: PathBuf, folder: PathBuf) -> Result<Self, String> {
        Ok(Self {
            program: programs::debug_program(PINFOLD)?,
            machine,
            folder,
        })
    }

    /// What the steps lead to, by the name of the pod.
    pub(super) fn ask(
        &self,
        settings: &Settings,
        steps: &[Step],
    ) -> Result<BTreeMap<String, Predicted>, String> {
        let file = |name: &str, value: &Value| {
            let path = self.folder.join(name);
            let written = fs::write(&path, value.to_string());
            written.map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>(path)
        };
        let mut pods = Vec::new();
        let mut script = Vec::new();
        for step in steps {
            match step {
                Step::Add(pod) => {
                    let mut pod = pod.clone();
                    script.push(json!({ "add": pod["metadata"]["name"] }));
                    // The machine of a simulation has no name.
                    pod["spec"]["nodeName"] = Value::Null;
                    pods.push(pod);
                }
                Step::Remove(name) => script.push(json!({ "remove": name })),
            }
        }
        let pods = file(
            "pods.json",
            &json!({ "apiVersion": "v1", "kind": "List", "items": pods }),
        )?;
        let devices: Vec<String> = DEVICES
            .iter()
            .map(|(id, node)| format!("{id}@{node}"))
            .collect();
        let mut command = Command::new(&self.program);
        command
            .args(["simulate", "--bound", "-o", "json", "--machine"])
            .arg(&self.machine)
            .arg("--config")
            .arg(file("kubelet.json", &settings.policies())?)
            .arg("--device")
            .arg(format!("{GPU}={}", devices.join(",")))
            .arg("--script")
            .arg(file("steps.json", &script.into())?)
            .arg(pods);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let found: Value = serde_json::from_str(&text).map_err(|error| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("{command:?}: {error}: {text}{errors}")
        })?;
        if found["not_simulated"].is_array() {
            return Err(format!("not simulated: {}", found["not_simulated"]));
        }
        let events = array(&found["events"]).filter(|event| event["step"] == "add");
        events
            .map(|event| Ok((text_of(&event["pod"]), read(event)?)))
            .collect()
    }
}

fn read(event: &Value) -> Result<Predicted, String> {
    let rejection = &event["rejection"];
    let answer = match rejection.is_object() {
        false => Answer::Admitted,
        // The kubelet puts these words before the reason in the status.
        true => Answer::Failed(
            text_of(&rejection["reason"]),
            format!("Pod was rejected: {}", text_of(&rejection["message"])),
        ),
    };
    let containers = array(&event["assignment"]["containers"]);
    let aligned = array(&event["assignment"]["containers"])
        .filter(|one| array(&one["affinity"]["mask"]).count() == 1)
        .map(|one| text_of(&one["name"]));
    let aligned = aligned.collect();
    let containers = containers.map(|one| Ok((text_of(&one["name"]), simulated(one)?)));
    Ok(Predicted {
        answer,
        containers: containers.collect::<Result<_, String>>()?,
        aligned,
    })
}
