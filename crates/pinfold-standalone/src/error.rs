//! [`StandaloneError`]: what could not be done, where, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use pinfold_cgroup::CgroupError;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::{LedgerError, RestartError, SettingsError};
use pinfold_hardware::HardwareError;
use pinfold_hardware::kubelet_view::ViewError;

/// Why a run could not be started, listed or ended.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// A file or folder of the system did not do what was asked of it.
    #[error("cannot {action} {}: {error}", .path.display())]
    File {
        /// What was tried: `read`, `create`, ...
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A control group did not do what was asked of it.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// No folder for the book.
    #[error(
        "no folder for the book of runs: XDG_RUNTIME_DIR is not set; set it to a folder of yours, or run as root"
    )]
    NoFolder,
    /// A folder that others can write to.
    #[error("{} is no safe place for the book of runs: {problem}; remove it", .path.display())]
    UnsafeFolder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A book that cannot be read. Nothing is handed out until somebody has looked.
    #[error(
        "the book of runs {} is damaged: {problem}. Nothing is handed out, since what it says is held is not known. \
         {}, move it away: mv {path} {path}.damaged",
        .path.display(), still_running(.processes), path = .path.display()
    )]
    Damaged {
        /// The file; it is left as it is.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// Processes that are still in control groups of runs.
        processes: Vec<u32>,
    },
    /// A book of a newer Pinfold.
    #[error("the book of runs {} has version {found}; this Pinfold knows {known}: use the newer one until its runs have ended", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this program.
        known: u32,
    },
    /// The runs in the book were placed on other CPUs than this process may use.
    #[error(
        "runs {runs} hold CPUs of {theirs}, but this process may use {ours}: \
         start from the same control group, or wait until they have ended"
    )]
    OtherMachine {
        /// The runs that hold something.
        runs: String,
        /// The CPUs of the book's machine.
        theirs: CpuSet,
        /// The CPUs of this one.
        ours: CpuSet,
    },
    /// Memory was asked for on a machine that does not tell where its memory is.
    #[error(
        "the kernel does not tell which memory is on which NUMA node: run without a memory or hugepages request"
    )]
    NoMemoryByNode,
    /// A partition needs the root of cgroup v2.
    #[error(
        "keeping every other process off the CPUs needs cgroup v2 with the cpuset controller and the right to make groups at its root"
    )]
    NoPartition,
    /// A child that is not in the book: whoever started it died before writing it down.
    #[error(
        "run {id} is not in the book for this process: its starter ended too early; nothing was run"
    )]
    NotInBook {
        /// The run.
        id: u64,
    },
    /// A system call failed.
    #[error("cannot {action}: {error}")]
    System {
        /// What was tried.
        action: String,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The machine cannot be read.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
    /// The machine cannot be managed.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The rules do not fit the machine.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The book contradicts itself or the machine.
    #[error(transparent)]
    Restart(#[from] RestartError),
    /// A request that makes no sense.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl StandaloneError {
    pub(crate) fn file(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::File {
            action,
            path: path.to_owned(),
            error,
        }
    }
}

fn still_running(processes: &[u32]) -> String {
    match processes {
        [] => "If no run is alive".to_owned(),
        some => {
            let some: Vec<String> = some.iter().map(u32::to_string).collect();
            format!("When processes {} have ended", some.join(", "))
        }
    }
}
