//! [`Simulator`]: the answers of `pinfold simulate --bound`.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::Answer;
use crate::cluster::node::{Mode, kubelet_configuration};
use crate::cluster::stage::Stage;
use crate::programs::{self, PINFOLD};

/// The machine of the real kubelet.
const MACHINE: &str = "2 sockets, 2 cores, smt2, mem=2Gi";

/// What the simulation answers about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Simulated {
    Answer(Answer),
    /// The answer names what is not simulated.
    LeftOut(String),
    /// Anything else.
    Unclear(String),
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Simulated::Answer(answer) => answer.fmt(f),
            Simulated::LeftOut(text) | Simulated::Unclear(text) => f.write_str(text),
        }
    }
}

/// The program and the files that it reads.
pub(super) struct Simulator {
    program: PathBuf,
    config: PathBuf,
    state: PathBuf,
    pod: PathBuf,
}

impl Simulator {
    /// Builds the program and writes the kubelet's configuration for it.
    pub(super) fn new(stage: &Stage, mode: Mode) -> Result<Self, String> {
        let folder = stage.plane.folder().join("simulated");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let simulator = Self {
            program: programs::debug_program(PINFOLD)?,
            config: folder.join("kubelet.json"),
            state: folder.join("state.json"),
            pod: folder.join("pod.json"),
        };
        write(&simulator.config, &kubelet_configuration(mode))?;
        Ok(simulator)
    }

    /// The answer about a pod on a node with its pods.
    pub(super) fn ask(&self, state: &[Value], pod: &Value) -> Result<Simulated, String> {
        let state = json!({ "apiVersion": "v1", "kind": "List", "items": state });
        write(&self.state, &state)?;
        write(&self.pod, pod)?;
        let mut command = Command::new(&self.program);
        command
            .args(["simulate", "--bound", "-o", "json", "--machine", MACHINE])
            .arg("--config")
            .arg(&self.config)
            .arg("--nodes")
            .args([&self.state, &self.pod]);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let found: Value = serde_json::from_str(&text).map_err(|error| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("{command:?}: {error}: {text}{errors}")
        })?;
        Ok(read(&found))
    }
}

fn read(found: &Value) -> Simulated {
    let event = &found["events"][0];
    let message = event["message"].as_str().unwrap_or_default().to_owned();
    let status = &event["status"];
    let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
    if message.contains("not simulated") || found["not_simulated"].is_array() {
        return Simulated::LeftOut(format!("{message} {}", found["not_simulated"]));
    }
    match (event["node"].is_string(), text("phase").as_str()) {
        (true, _) => Simulated::Answer(Answer::Admitted),
        (false, "Failed") => Simulated::Answer(Answer::Failed(text("reason"), text("message"))),
        _ => Simulated::Unclear(found.to_string()),
    }
}

fn write(path: &PathBuf, value: &Value) -> Result<(), String> {
    fs::write(path, value.to_string()).map_err(|error| format!("{}: {error}", path.display()))
}
