//! [`Process`]: a program of a control plane that runs, with a log of its own.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::programs::succeed;
use crate::report::say;

/// The kernel counts CPU time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// A program that runs. It is killed with this.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program with its log in `logs/NAME` of a folder.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        name: &str,
        arguments: &[String],
    ) -> Result<Self, String> {
        say(format_args!("starting {name}"));
        let log = folder.join("logs").join(name);
        let output = File::options().create(true).append(true).open(&log);
        let output = output.map_err(|error| format!("{}: {error}", log.display()))?;
        let errors = output.try_clone().map_err(|error| error.to_string())?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self { child, log })
    }

    /// Ends it without a warning, as a crash does.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) -> Result<(), String> {
        let id = self.child.id().to_string();
        succeed(Command::new("kill").args(["-s", name, &id]))
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its output so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its output from this byte on.
    pub(crate) fn said_since(&self, byte: u64) -> Result<String, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.log.display());
        let mut log = File::open(&self.log).map_err(failed)?;
        log.seek(SeekFrom::Start(byte)).map_err(failed)?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes).map_err(failed)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The end of its log, for people.
    pub(crate) fn last_words(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// The CPU time that it and its threads took so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration, String> {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        // The name may contain anything; what follows it are numbers. User and system time are the 14th and 15th field.
        let numbers = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks: u32 = numbers
            .split(' ')
            .skip(11)
            .take(2)
            .filter_map(|number| number.parse::<u32>().ok())
            .sum();
        Ok(TICK * ticks)
    }

    /// The most memory it ever had, in bytes.
    pub(crate) fn most_memory(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| format!("{path}: no VmHWM"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
