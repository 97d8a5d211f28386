//! The agent's process, and everything it can be asked.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use pinfold_journal::FILE;
use serde_json::Value;

use super::pretend;
use super::stage::end_of;
use crate::containerd::{PATIENCE, eventually};

/// How an agent is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// `manage` or `mirror`.
    pub(crate) mode: &'static str,
    /// `kubelet` or `koordinator`.
    pub(crate) dialect: &'static str,
    /// A KubeletConfiguration.
    pub(crate) rules: String,
    /// The folder of the journal.
    pub(crate) state: PathBuf,
    /// The runtime's socket.
    pub(crate) nri: PathBuf,
    /// Another machine that it is shown; `None` for this one.
    pub(crate) machine: Option<PathBuf>,
    /// More lines of its configuration.
    pub(crate) more: String,
}

/// What is written in a journal, without the blank lines at its end that are room for more.
pub(crate) fn journal(state: &Path) -> Result<Vec<u8>, String> {
    let path = state.join(FILE);
    let read = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()));
    let mut written = read?;
    while written.ends_with(b"\n\n") {
        written.pop();
    }
    Ok(written)
}

/// A running agent; it ends with this value.
pub(crate) struct Agent {
    folder: PathBuf,
    child: Child,
    /// How long its log was when it started.
    log_start: usize,
}

impl Agent {
    /// Starts one with its files in a folder, and does not wait.
    pub(crate) fn spawn(program: &Path, setup: &Setup, folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let config = folder.join("agent.yaml");
        let rules = folder.join("rules.yaml");
        write(&rules, &setup.rules)?;
        write(&config, &configuration(setup, folder, &rules))?;
        let path = folder.join("agent.log");
        let log_start = fs::read(&path).map_or(0, |log| log.len());
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = match &setup.machine {
            Some(machine) => pretend::command(machine, program),
            None => Command::new(program),
        };
        let child = command
            .args(["--log-format", "json", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self {
            folder: folder.to_owned(),
            child,
            log_start,
        })
    }

    /// Waits until it answers.
    pub(crate) fn wait_until_it_answers(&mut self) -> Result<(), String> {
        self.wait("the agent answers", |agent| agent.status().is_ok())
    }

    /// Waits until it is connected to its runtime.
    pub(crate) fn wait_until_connected(&mut self) -> Result<(), String> {
        self.wait("the agent is connected", |agent| {
            agent
                .status()
                .is_ok_and(|status| status["runtimeConnected"] == true)
        })
    }

    fn wait(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<(), String> {
        let mut ended = None;
        let waited = eventually(what, || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some() || is_so(self)
        });
        let log = || end_of(&self.folder.join("agent.log"));
        match ended {
            Some(status) => Err(format!("until {what}: it ended, {status}\n{}", log())),
            None => waited.map_err(|problem| format!("{problem}\n{}", log())),
        }
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops the agent with SIGTERM and waits for its end.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus, String> {
        self.signal("TERM")?;
        self.wait_for_its_end()
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait_for_its_end(&mut self) -> Result<ExitStatus, String> {
        let mut ended = None;
        eventually("the agent ends", || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some()
        })?;
        ended.ok_or_else(|| "it did not end".to_owned())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) -> Result<(), String> {
        let id = self.child.id().to_string();
        let mut kill = Command::new("kill");
        crate::programs::succeed(kill.args(["-s", name, &id]))
    }

    /// What it logged since it started, one value a line.
    pub(crate) fn log(&self) -> Vec<Value> {
        let log = fs::read(self.folder.join("agent.log")).unwrap_or_default();
        let log =
            String::from_utf8_lossy(log.get(self.log_start..).unwrap_or_default()).into_owned();
        let lines = log.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| Value::from(line)))
            .collect()
    }

    /// Where its socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("agent.sock")
    }

    /// Where it serves pod resources.
    pub(crate) fn pod_resources(&self) -> PathBuf {
        self.folder.join("pod-resources.sock")
    }

    /// Sends a request to its API: the status code and the body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Result<(u16, Value), String> {
        ask(&self.socket(), method, path, body)
    }

    /// Its status.
    pub(crate) fn status(&self) -> Result<Value, String> {
        let (code, said) = self.ask("GET", "/v1/status", "")?;
        match code {
            200 => Ok(said),
            code => Err(format!("{code} {said}")),
        }
    }

    /// What it measured: one number for each name with labels.
    pub(crate) fn metrics(&self) -> Result<BTreeMap<String, f64>, String> {
        let text = self.probe("/metrics")?.1;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Ok(lines
            .filter_map(|line| {
                let (name, number) = line.rsplit_once(' ')?;
                Some((name.to_owned(), number.parse().ok()?))
            })
            .collect())
    }

    /// A page of its metrics port: the status code and the body.
    pub(crate) fn probe(&self, path: &str) -> Result<(u16, String), String> {
        let started = self.log();
        let started = started
            .iter()
            .find(|line| line["message"] == "agent started");
        let address = started.and_then(|line| line["metrics"].as_str());
        let address = address.ok_or("the agent has not logged the address of its metrics")?;
        let failed = |error: std::io::Error| format!("{address}{path}: {error}");
        let mut stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        exchange(&mut stream, "GET", path, "").map_err(failed)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks an agent behind a socket.
pub(crate) fn ask(
    socket: &Path,
    method: &str,
    path: &str,
    body: &str,
) -> Result<(u16, Value), String> {
    let failed = |error: std::io::Error| format!("{}: {method} {path}: {error}", socket.display());
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream
        .set_write_timeout(Some(Duration::from_secs(30)))
        .map_err(failed)?;
    let (code, said) = exchange(&mut stream, method, path, body).map_err(failed)?;
    let said = serde_json::from_str(&said).map_err(|error| format!("{path}: {error}: {said}"))?;
    Ok((code, said))
}

/// One request and its answer.
fn exchange(
    stream: &mut (impl Read + Write),
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<(u16, String)> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| std::io::Error::other("no answer"))?;
    Ok((code, body.to_owned()))
}

fn configuration(setup: &Setup, folder: &Path, rules: &Path) -> String {
    let Setup {
        mode,
        dialect,
        state,
        nri,
        more,
        ..
    } = setup;
    let (state, nri, rules) = (state.display(), nri.display(), rules.display());
    let folder = folder.display();
    format!(
        "mode: {mode}\ndialect: {dialect}\nkubelet: {{configFile: {rules}, rootDirectory: {folder}/kubelet}}\n\
         stateDirectory: {state}\nruntime: {{nriSocket: {nri}}}\napi: {{socket: {folder}/agent.sock}}\n\
         podResources: {{socket: {folder}/pod-resources.sock, kubeletSocket: {folder}/kubelet/none.sock}}\n\
         metrics: {{listen: '127.0.0.1:0'}}\n{more}\n"
    )
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
