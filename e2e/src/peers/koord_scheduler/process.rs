//! [`KoordScheduler`]: koord-scheduler with the profile that Koordinator ships.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cluster::stage::eventually;
use crate::control_plane::{Credentials, PATIENCE, Process, free_ports};
use crate::peers::programs::{Program, sources};
use crate::peers::stage::Stage;

/// The name that pods ask for.
pub(crate) const NAME: &str = "koord-scheduler";

/// The folder of the Go module below `e2e/peers`, and the module that it requires.
pub(crate) const MODULE: &str = "koordinator";
pub(crate) const KOORDINATOR: &str = "github.com/koordinator-sh/koordinator";

const PROGRAM: Program = Program {
    name: NAME,
    module: MODULE,
    package: "github.com/koordinator-sh/koordinator/cmd/koord-scheduler",
    uses_c: false,
};

/// A running koord-scheduler. It is killed with this.
pub(crate) struct KoordScheduler {
    pub(crate) process: Process,
    port: u16,
    arguments: Vec<String>,
    folder: PathBuf,
    program: PathBuf,
}

impl KoordScheduler {
    /// Creates Koordinator's definitions, except the one that Pinfold has too, and starts the scheduler.
    pub(crate) fn start(stage: &Stage) -> Result<Self, String> {
        let program = PROGRAM.build()?;
        let sources = sources(MODULE, KOORDINATOR)?;
        definitions(stage, &sources)?;
        let config = stage.plane.folder().join("koord-scheduler.yaml");
        let text = configuration(stage, &sources)?.to_string();
        fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
        let [secure, port] = free_ports()?;
        let arguments = vec![
            format!("--config={}", config.display()),
            "--authentication-skip-lookup=true".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            "--address=127.0.0.1".to_owned(),
            format!("--secure-port={secure}"),
            format!("--port={port}"),
        ];
        let folder = stage.plane.folder().to_owned();
        let process = Process::start(&program, &folder, NAME, &arguments)?;
        let mut started = Self {
            process,
            port,
            arguments,
            folder,
            program,
        };
        started.wait()?;
        Ok(started)
    }

    /// Ends it as a crash does, and starts it again.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        self.process.kill();
        self.process = Process::start(&self.program, &self.folder, NAME, &self.arguments)?;
        self.wait()
    }

    fn wait(&mut self) -> Result<(), String> {
        eventually("koord-scheduler is ready", || match self.ask("/healthz") {
            Ok((200, _)) => Ok(()),
            other if self.process.is_running() => Err(format!("{other:?}")),
            _ => Err(self.process.last_words()),
        })
    }

    fn ask(&self, path: &str) -> Result<(u16, String), String> {
        let failed = |error: std::io::Error| format!("koord-scheduler: {path}: {error}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        // Of HTTP 1.0, so that a long answer comes in one piece.
        let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(failed)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| format!("koord-scheduler: {path}: no answer"))?;
        Ok((code, body.to_owned()))
    }

    /// What its plugin NodeNUMAResource knows about a node, once it knows the node.
    pub(crate) fn node(&self, name: &str) -> Result<Value, String> {
        let path = format!("/apis/v1/plugins/NodeNUMAResource/nodes/{name}");
        match self.ask(&path)? {
            (200, text) => serde_json::from_str(&text).map_err(|error| format!("{path}: {error}")),
            (code, text) => Err(format!("{path}: {code} {text}")),
        }
    }

    /// What it knows about a node: the object and the sums.
    pub(crate) fn node_info(&self, name: &str) -> Result<Value, String> {
        let path = format!("/apis/v1/nodes/{name}");
        match self.ask(&path)? {
            (200, text) => serde_json::from_str(&text).map_err(|error| format!("{path}: {error}")),
            (code, text) => Err(format!("{path}: {code} {text}")),
        }
    }

    /// Waits until its plugin counts none of these pods on a node any more.
    pub(crate) fn has_noticed(&self, node: &str, uids: &[String]) -> Result<(), String> {
        eventually("koord-scheduler has noticed deleted pods", || {
            let known = self.node(node)?;
            let pods = known["allocatedPods"].as_array();
            let gone = pods.into_iter().flatten().find(|pod| {
                let uid = pod["uid"].as_str().unwrap_or_default();
                uids.iter().any(|one| one == uid)
            });
            match gone {
                None => Ok(()),
                Some(pod) => Err(format!("{node} still has {pod}")),
            }
        })
    }

    /// Lines of its log that are warnings or errors and name a report: klog starts them with W or E.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let said = self.process.said();
        let about = [
            "NodeResourceTopology",
            "noderesourcetopolog",
            "topology_options",
            "cpu-topology",
        ];
        let lines = said
            .lines()
            .filter(|line| line.starts_with(['W', 'E', 'F']));
        let lines = lines.filter(|line| about.iter().any(|word| line.contains(word)));
        lines.map(str::to_owned).collect()
    }
}

/// The custom resources that koord-scheduler watches, and the namespace of its own objects.
pub(crate) fn definitions(stage: &Stage, sources: &Path) -> Result<(), String> {
    let folder = sources.join("config/crd/bases");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        stage.admin.create(&without_descriptions(stage, &file)?)?;
    }
    let namespace = json!({ "metadata": { "name": "koordinator-system" } });
    match stage
        .admin
        .ask("POST", "/api/v1/namespaces", Some(&namespace))?
    {
        (200..=299 | 409, _) => Ok(()),
        (code, answer) => Err(format!("koordinator-system: {code} {}", answer["message"])),
    }
}

/// A copy of a definition without quoted descriptions of several lines: Koordinator's are indented in a way that Go's
/// reader accepts and YAML does not.
pub(crate) fn without_descriptions(stage: &Stage, file: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(failed)?;
    let mut kept = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        let starts = line.trim_start().starts_with("description: '");
        let ends = line.ends_with('\'');
        match (is_inside, starts && !ends) {
            (true, _) => is_inside = !ends,
            (false, true) => is_inside = true,
            (false, false) => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    let copy = stage.plane.folder().join("definition.yaml");
    fs::write(&copy, kept).map_err(failed)?;
    Ok(copy)
}

/// The shipped profile; without leader election, and pods are tried again soon.
fn configuration(stage: &Stage, sources: &Path) -> Result<Value, String> {
    let path = sources.join("config/manager/scheduler-config.yaml");
    let failed = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let map: Value = serde_saphyr::from_str(&text).map_err(|error| failed(&error))?;
    let text = map["data"]["koord-scheduler-config"].as_str();
    let text = text.ok_or_else(|| failed(&"no koord-scheduler-config"))?;
    let mut config: Value = serde_saphyr::from_str(text).map_err(|error| failed(&error))?;
    let kubeconfig = stage
        .plane
        .kubeconfig("koord-scheduler", &Credentials::Certificate("admin"))?;
    config["leaderElection"] = json!({ "leaderElect": false });
    config["clientConnection"] = json!({ "kubeconfig": kubeconfig, "qps": 5000, "burst": 5000 });
    config["podInitialBackoffSeconds"] = 1.into();
    config["podMaxBackoffSeconds"] = 1.into();
    Ok(config)
}
