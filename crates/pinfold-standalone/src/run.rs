//! The starter's side of a run: asks, prepares, starts the child, waits, gives everything back.

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

use crate::book::{Book, Proposal, Run};
use crate::error::StandaloneError;
use crate::hold::Hold;
use crate::place::{Placement, Policy};
use crate::process::Process;
use crate::request::Request;

/// What a shell adds to the number of the signal that ended a command.
pub const SIGNAL_EXIT: i32 = 128;

/// How a run went.
#[derive(Debug)]
pub enum Outcome {
    /// The engine said no; nothing was started.
    Rejected(Box<Decision>),
    /// The command ended.
    Ended {
        /// Its exit code, or 128 and the number of the signal that ended it.
        code: i32,
        /// What could not be given back, and why. The next to open the book tries again.
        left: Option<StandaloneError>,
    },
}

/// Runs `command` on what `request` asks for, and waits for its end. `child` is how this program starts itself so
/// that it calls [`become_command`](crate::become_command): its arguments before the run's number. `held` learns what
/// holds the command before the command starts.
///
/// # Errors
/// If the machine does not allow it. Nothing stays behind then.
pub fn run(
    folder: &Path,
    hardware: &Hardware,
    request: &Request,
    policy: Policy,
    command: &[OsString],
    child: &[&str],
    held: impl FnOnce(&Hold),
) -> Result<Outcome, StandaloneError> {
    // Before anything is taken: a signal that comes from now on is passed on, not obeyed.
    let signals = Passing::new()?;
    let mut book = Book::open(folder)?;
    book.settle(hardware)?;
    let words: Vec<String> = command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let proposal = book.propose(
        request,
        policy,
        words.first().map_or("", |word| base_name(word)),
    )?;
    let Some(placement) = proposal.placement() else {
        return Ok(Outcome::Rejected(Box::new(proposal.decision)));
    };
    let start = Start {
        request,
        policy,
        proposal: &proposal,
        placement,
        words,
    };
    let child = match start.child(&mut book, command, child) {
        Ok((child, hold)) => {
            held(&hold);
            child
        }
        Err(error) => {
            // What the others gave up for this run is theirs again.
            let shared = book.shared();
            let _ = book.share(&shared);
            return Err(error);
        }
    };
    drop(book);
    let status = wait(child, signals.0)?;
    Ok(Outcome::Ended {
        code: code(status),
        left: Book::open(folder).err(),
    })
}

/// Signals that are passed on to a command that will run where this process is, instead of being obeyed. Made before
/// anything is taken that must be given back.
#[derive(Debug)]
pub struct Passing(Signals);

impl Passing {
    /// From now on.
    ///
    /// # Errors
    /// If the machine does not allow it.
    pub fn new() -> Result<Self, StandaloneError> {
        let signals = Signals::new(signals_to_pass_on());
        signals.map(Self).map_err(|error| StandaloneError::System {
            action: "watch for signals".to_owned(),
            error,
        })
    }

    /// Runs `command` where this process is and waits for its end: its exit code, or 128 and the number of the signal
    /// that ended it. The inner error is the system's reason why the command could not be executed.
    ///
    /// # Errors
    /// If its end cannot be waited for.
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

/// A run that was decided and is about to start.
struct Start<'a> {
    request: &'a Request,
    policy: Policy,
    proposal: &'a Proposal,
    placement: Placement,
    words: Vec<String>,
}

impl Start<'_> {
    /// Makes room, prepares the hold, starts the child and writes it down, in this order. The child waits for the lock
    /// that `book` holds.
    fn child(
        self,
        book: &mut Book,
        command: &[OsString],
        child: &[&str],
    ) -> Result<(Child, Hold), StandaloneError> {
        book.share(self.proposal.ledger.state().cpus().shared())?;
        let id = self.proposal.id;
        let partition = self.request.exclusive && self.placement.own_cpus;
        let hold = Hold::prepare(id, &self.placement, partition)?;
        let spawned = Command::new("/proc/self/exe")
            .args(child)
            .arg(id.to_string())
            .arg("--")
            .args(command)
            .spawn();
        let mut child = spawned.map_err(|error| {
            let _ = hold.remove();
            StandaloneError::System {
                action: "start a process".to_owned(),
                error,
            }
        })?;
        match self.write_down(book, &child, hold.clone()) {
            Ok(()) => Ok((child, hold)),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                let _ = hold.remove();
                Err(error)
            }
        }
    }

    fn write_down(self, book: &mut Book, child: &Child, hold: Hold) -> Result<(), StandaloneError> {
        let id = self.proposal.id;
        let process = Process::find(child.id()).ok_or(StandaloneError::NotInBook { id })?;
        let run = Run {
            id,
            process,
            command: self.words,
            policy: self.policy.topology.name().to_owned(),
            placement: self.placement,
            hold,
            pod: self.proposal.pod.clone(),
        };
        book.write_down(run, self.proposal)
    }
}

/// Waits for the child and passes signals on to it until it has ended.
fn wait(mut child: Child, mut signals: Signals) -> Result<ExitStatus, StandaloneError> {
    let system = |action: &str, error| StandaloneError::System {
        action: action.to_owned(),
        error,
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let target = Arc::new(Mutex::new(pid));
    let handle = signals.handle();
    let passing = std::thread::spawn({
        let target = target.clone();
        move || {
            for signal in &mut signals {
                pass_on(
                    signal,
                    *target.lock().unwrap_or_else(PoisonError::into_inner),
                );
            }
        }
    });
    if let Some(pid) = pid {
        // Its number stays its own until it is waited for, so no signal can hit a stranger.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options)
        {
        }
    }
    *target.lock().unwrap_or_else(PoisonError::into_inner) = None;
    handle.close();
    let _ = passing.join();
    child
        .wait()
        .map_err(|error| system("wait for the command", error))
}

/// Whoever started us ignoring a signal (`nohup`) wants the command to ignore it too, which it then does by itself.
fn signals_to_pass_on() -> impl Iterator<Item = i32> {
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

/// Passes a signal on, unless the terminal has already sent it to the command too.
fn pass_on(signal: i32, target: Option<Pid>) {
    let Some(target) = target else { return };
    let by_terminal = matches!(signal, SIGINT | SIGQUIT) && in_foreground();
    if let (false, Some(signal)) = (by_terminal, Signal::from_named_raw(signal)) {
        // The command may just have ended.
        let _ = rustix::process::kill_process(target, signal);
    }
}

/// Whether keys of a terminal reach this process, and so the command as well.
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
    fn ignored_signals_are_read_from_the_mask_of_the_kernel() {
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
