//! The parent's side of a run: decides, confines, starts the child, waits, and releases its resources.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};

use pinfold_core::decision::Decision;
use pinfold_hardware::Hardware;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::confinement::Confinement;
use crate::error::StandaloneError;
use crate::placement::{RunPlacement, RunPolicy};
use crate::process::Process;
use crate::request::RunRequest;
use crate::run_registry::{Run, RunProposal, RunRegistry};

/// A shell's exit code for a command ended by a signal is this plus the signal's number.
pub const SIGNAL_EXIT: i32 = 128;

/// How a run ended.
#[derive(Debug)]
pub enum RunOutcome {
    /// The request was rejected; nothing was started.
    Rejected(Box<Decision>),
    /// The command ended.
    Ended {
        /// Its exit code, or 128 plus the number of the signal that ended it.
        code: i32,
        /// Why resources could not be released, if so. The next process that opens the registry tries again.
        left: Option<StandaloneError>,
    },
}

/// Runs `command` with the resources of `request` and waits for it to exit. `child` are the arguments with which this
/// program starts itself so that it calls [`become_command`](crate::become_command); the run's id follows them.
/// `on_confined` is called with the confinement before the command starts.
///
/// # Errors
/// If the run cannot be started. Nothing is left behind then.
pub fn run(
    folder: &Path,
    hardware: &Hardware,
    request: &RunRequest,
    policy: RunPolicy,
    command: &[OsString],
    child: &[&str],
    on_confined: impl FnOnce(&Confinement),
) -> Result<RunOutcome, StandaloneError> {
    // Before any resource is assigned: signals received from now on are forwarded instead of ending this process.
    let signals = SignalForwarder::new()?;
    let mut registry = RunRegistry::open(folder)?;
    registry.adopt_machine(hardware)?;
    let words: Vec<String> = command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let proposal = registry.propose(
        request,
        policy,
        words.first().map_or("", |word| base_name(word)),
    )?;
    let Some(placement) = proposal.placement() else {
        return Ok(RunOutcome::Rejected(Box::new(proposal.decision)));
    };
    let start = Start {
        request,
        policy,
        proposal: &proposal,
        placement,
        words,
    };
    let child = match start.child(&mut registry, command, child) {
        Ok((child, confinement)) => {
            on_confined(&confinement);
            child
        }
        Err(error) => {
            // Give the CPUs that were cleared for this run back to the shared pool.
            let shared = registry.shared();
            let _ = registry.update_shared(&shared);
            return Err(error);
        }
    };
    drop(registry);
    let status = wait(child, signals.0)?;
    Ok(RunOutcome::Ended {
        code: code(status),
        left: RunRegistry::open(folder).err(),
    })
}

/// Forwards signals to a command instead of letting them end this process. Created before any resource is assigned that
/// must be released.
#[derive(Debug)]
pub struct SignalForwarder(Signals);

impl SignalForwarder {
    /// Starts to collect signals.
    ///
    /// # Errors
    /// If signal handlers cannot be installed.
    pub fn new() -> Result<Self, StandaloneError> {
        let signals = Signals::new(forwarded_signals());
        signals.map(Self).map_err(|error| StandaloneError::System {
            action: "watch for signals".to_owned(),
            error,
        })
    }

    /// Runs `command` and waits for it to exit: its exit code, or 128 plus the number of the signal that ended it. The
    /// inner error is the system's reason why the command could not be executed.
    ///
    /// # Errors
    /// If the command cannot be waited for.
    pub fn run(self, command: &[OsString]) -> Result<Result<i32, io::Error>, StandaloneError> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(Err(io::ErrorKind::InvalidInput.into()));
        };
        match Command::new(program).args(arguments).spawn() {
            Ok(child) => Ok(Ok(code(wait(child, self.0)?))),
            Err(error) => Ok(Err(error)),
        }
    }
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// An admitted run that is about to start.
struct Start<'a> {
    request: &'a RunRequest,
    policy: RunPolicy,
    proposal: &'a RunProposal,
    placement: RunPlacement,
    words: Vec<String>,
}

impl Start<'_> {
    /// Shrinks the shared pool, prepares the confinement, starts the child and registers it, in this order. The child
    /// waits for the lock that `registry` holds.
    fn child(
        self,
        registry: &mut RunRegistry,
        command: &[OsString],
        child: &[&str],
    ) -> Result<(Child, Confinement), StandaloneError> {
        registry.update_shared(self.proposal.ledger.state().cpus().shared())?;
        let id = self.proposal.id;
        let partition = self.request.exclusive && self.placement.exclusive_cpus;
        let confinement = Confinement::prepare(id, &self.placement, partition)?;
        let spawned = Command::new("/proc/self/exe")
            .args(child)
            .arg(id.to_string())
            .arg("--")
            .args(command)
            .spawn();
        let mut child = spawned.map_err(|error| {
            let _ = confinement.remove();
            StandaloneError::System {
                action: "start a process".to_owned(),
                error,
            }
        })?;
        match self.add_run(registry, &child, confinement.clone()) {
            Ok(()) => Ok((child, confinement)),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                let _ = confinement.remove();
                Err(error)
            }
        }
    }

    fn add_run(
        self,
        registry: &mut RunRegistry,
        child: &Child,
        confinement: Confinement,
    ) -> Result<(), StandaloneError> {
        let id = self.proposal.id;
        let process = Process::find(child.id()).ok_or(StandaloneError::NotRegistered { id })?;
        let run = Run {
            id,
            process,
            command: self.words,
            policy: self.policy.topology.name().to_owned(),
            placement: self.placement,
            confinement,
            pod: self.proposal.pod.clone(),
        };
        registry.add_run(run, self.proposal)
    }
}

/// Waits for the child and forwards signals to it until it has exited.
fn wait(mut child: Child, mut signals: Signals) -> Result<ExitStatus, StandaloneError> {
    let system = |action: &str, error| StandaloneError::System {
        action: action.to_owned(),
        error,
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let target = Arc::new(Mutex::new(pid));
    let handle = signals.handle();
    let forwarder = std::thread::spawn({
        let target = target.clone();
        move || {
            for signal in &mut signals {
                forward(
                    signal,
                    *target.lock().unwrap_or_else(PoisonError::into_inner),
                );
            }
        }
    });
    if let Some(pid) = pid {
        // The process id is not reused before the child is reaped, so no signal reaches another process.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options)
        {
        }
    }
    *target.lock().unwrap_or_else(PoisonError::into_inner) = None;
    handle.close();
    let _ = forwarder.join();
    child
        .wait()
        .map_err(|error| system("wait for the command", error))
}

/// The signals to forward. One that this process ignores (`nohup`) is ignored by the command too, as it inherits that.
fn forwarded_signals() -> impl Iterator<Item = i32> {
    let ignored =
        ignored_signals(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let all = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
    all.into_iter()
        .filter(move |signal| ignored & (1 << (signal - 1)) == 0)
}

/// The mask of ignored signals in `/proc/PID/status`.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Forwards a signal, unless the terminal has already sent it to the command too.
fn forward(signal: i32, target: Option<Pid>) {
    let Some(target) = target else { return };
    let by_terminal = matches!(signal, SIGINT | SIGQUIT) && in_foreground();
    if let (false, Some(signal)) = (by_terminal, Signal::from_named_raw(signal)) {
        // The command may just have exited.
        let _ = rustix::process::kill_process(target, signal);
    }
}

/// Whether this process is in the terminal's foreground group, whose keyboard signals reach the command too.
fn in_foreground() -> bool {
    std::fs::File::open("/dev/tty")
        .ok()
        .and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok())
        .is_some_and(|group| group == rustix::process::getpgrp())
}

fn code(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| SIGNAL_EXIT + signal);
    status.code().or(by_signal).unwrap_or(SIGNAL_EXIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernel_s_mask() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert_eq!(ignored_signals(status), 1 << (SIGHUP - 1) | 1 << 12);
        assert_eq!(ignored_signals("Name:\tx\n"), 0);
    }

    #[test]
    fn a_command_ended_by_a_signal_has_a_shell_s_exit_code() {
        assert_eq!(code(ExitStatus::from_raw(42 << 8)), 42);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
    }
}
