//! `pinfold-scheduler` as a process, with its metrics, logs and status.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::engine_client::EngineClient;
use super::stage::eventually;
use crate::control_plane::{ControlPlane, Credentials, Process, free_ports};
use crate::programs::{succeed, workspace};

/// The metric of how long calls take.
const CALLS: &str = "pinfold_engine_call_seconds";

/// How long an answer about itself may take.
const ANSWER: Duration = Duration::from_secs(30);

/// The engine, and where it listens. It is killed with this.
pub(crate) struct Engine {
    pub(crate) process: Process,
    program: PathBuf,
    config: PathBuf,
    folder: PathBuf,
    name: String,
    /// What makes its clock wrong, if anything does.
    clock: Option<PathBuf>,
    pub(crate) socket: PathBuf,
    metrics: u16,
}

impl Engine {
    /// Writes a configuration, starts it and waits until it answers.
    pub(crate) fn start(plane: &ControlPlane, program: &Path, name: &str) -> Result<Self, String> {
        let mut engine = Self::spawned(plane, program, name, None)?;
        engine.wait()?;
        Ok(engine)
    }

    fn spawned(
        plane: &ControlPlane,
        program: &Path,
        name: &str,
        clock: Option<PathBuf>,
    ) -> Result<Self, String> {
        let folder = plane.folder();
        let admin = plane.admin()?;
        admin.create(&workspace().join("deploy/scheduler/rbac.yaml"))?;
        let token = admin.token("pinfold-scheduler")?;
        let kubeconfig = plane.kubeconfig(name, &Credentials::Token(&token))?;
        let [metrics] = free_ports()?;
        let socket = folder.join(format!("engine-{name}/engine.sock"));
        let file = |name: String| folder.join(name);
        let config = json!({
            "socket": socket,
            "metrics": { "listen": format!("127.0.0.1:{metrics}") },
            "kubernetes": { "kubeconfig": kubeconfig },
        });
        let path = file(format!("{name}.yaml"));
        let written = std::fs::write(&path, config.to_string());
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        let process = launch(program, clock.as_deref(), folder, name, &path)?;
        Ok(Self {
            process,
            clock,
            program: program.to_owned(),
            config: path,
            folder: folder.to_owned(),
            name: name.to_owned(),
            socket,
            metrics,
        })
    }

    /// Starts it again where it was.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        self.start_again()?;
        self.wait()
    }

    /// Starts it again, and does not wait until it answers.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        self.process.kill();
        let clock = self.clock.as_deref();
        self.process = launch(&self.program, clock, &self.folder, &self.name, &self.config)?;
        Ok(())
    }

    /// A client of its calls with a session of its own, which ends the session before.
    pub(crate) fn client(&self) -> Result<EngineClient, String> {
        EngineClient::new(&self.socket)
    }

    /// Waits until it can answer.
    pub(crate) fn wait(&mut self) -> Result<(), String> {
        eventually("the engine is ready", || match self.ask("/readyz") {
            Ok((200, _)) => Ok(()),
            other if self.process.is_running() => Err(format!("{other:?}")),
            _ => Err(self.process.last_words()),
        })
    }

    /// Asks for one of its pages about itself.
    pub(crate) fn ask(&self, path: &str) -> Result<(u16, String), String> {
        let words = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.metrics)).map_err(words)?;
        stream.set_read_timeout(Some(ANSWER)).map_err(words)?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(words)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(words)?;
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok((code.ok_or("no answer")?, body.to_owned()))
    }

    /// Its metrics: every line without its comment, by name and labels.
    pub(crate) fn metrics(&self) -> Result<BTreeMap<String, f64>, String> {
        let (_, text) = self.ask("/metrics")?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Ok(lines.collect())
    }
}

impl Engine {
    /// Starts another one with a clock that is an hour fast.
    pub(crate) fn hurried(
        plane: &ControlPlane,
        program: &Path,
        name: &str,
    ) -> Result<Self, String> {
        let clock = fast_clock(plane.folder())?;
        Self::spawned(plane, program, name, Some(clock))
    }

    /// How long calls took, as counts below bounds in seconds.
    pub(crate) fn buckets(&self, call: &str) -> Result<Buckets, String> {
        let prefix = format!("{CALLS}_bucket{{");
        let call = format!("call=\"{call}\"");
        let metrics = self.metrics()?;
        let own = metrics
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix) && name.contains(&call));
        let buckets = own.filter_map(|(name, count)| {
            let bound = name.split("le=\"").nth(1)?.split('"').next()?;
            let bound = match bound {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().ok()?,
            };
            Some((bound, *count))
        });
        let mut buckets: Buckets = buckets.collect();
        buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Ok(buckets)
    }

    /// How often a call was made.
    pub(crate) fn count(&self, call: &str) -> Result<f64, String> {
        let buckets = self.buckets(call)?;
        Ok(buckets.last().map_or(0.0, |(_, count)| *count))
    }

    /// Median and one in a hundred of the time that calls took, by call.
    pub(crate) fn durations(&self) -> Result<BTreeMap<String, (f64, f64)>, String> {
        let mut durations = BTreeMap::new();
        for call in ["PreFilter", "Reserve"] {
            durations.insert(call.to_owned(), quantiles(&self.buckets(call)?));
        }
        Ok(durations)
    }
}

/// Counts of calls that took no longer than a bound, ascending.
pub(crate) type Buckets = Vec<(f64, f64)>;

/// What came in between.
pub(crate) fn difference(after: &[(f64, f64)], before: &[(f64, f64)]) -> Buckets {
    let earlier = |bound: f64| {
        let same = before.iter().find(|(own, _)| own.total_cmp(&bound).is_eq());
        same.map_or(0.0, |(_, count)| *count)
    };
    let after = after.iter();
    after
        .map(|&(bound, count)| (bound, count - earlier(bound)))
        .collect()
}

/// The bounds that half of all calls, and 99 of 100, stayed below.
pub(crate) fn quantiles(buckets: &[(f64, f64)]) -> (f64, f64) {
    let all = buckets.last().map_or(0.0, |(_, count)| *count);
    let below = |part: f64| {
        let bucket = buckets.iter().find(|(_, count)| *count >= all * part);
        bucket.map_or(f64::NAN, |(bound, _)| *bound)
    };
    (below(0.5), below(0.99))
}

fn launch(
    program: &Path,
    clock: Option<&Path>,
    folder: &Path,
    name: &str,
    config: &Path,
) -> Result<Process, String> {
    let arguments = ["--config".to_owned(), config.display().to_string()];
    let Some(clock) = clock else {
        return Process::start(program, folder, name, &arguments);
    };
    let before = [
        format!("LD_PRELOAD={}", clock.display()),
        program.display().to_string(),
    ];
    let arguments = [before.as_slice(), &arguments].concat();
    Process::start("/usr/bin/env".as_ref(), folder, name, &arguments)
}

/// A preloaded library that adds an hour to the clock of a program.
const FAST_CLOCK: &str = "
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += 3600;
    return failed;
}
";

fn fast_clock(folder: &Path) -> Result<PathBuf, String> {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    let written = std::fs::write(&source, FAST_CLOCK);
    written.map_err(|error| format!("{}: {error}", source.display()))?;
    let mut compiler = Command::new("cc");
    let compiler = compiler.args(["-shared", "-fPIC", "-o"]);
    succeed(compiler.arg(&library).arg(&source))?;
    Ok(library)
}
