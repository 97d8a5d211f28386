//! [`StandaloneError`]: what failed, on which file or object, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use pinfold_cgroup::CgroupError;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::{LedgerError, RestartError, SettingsError};
use pinfold_hardware::HardwareError;
use pinfold_hardware::kubelet_view::ViewError;

/// Errors of starting, listing or ending a run.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// An operation on a file or folder failed.
    #[error("cannot {action} {}: {error}", .path.display())]
    File {
        /// The operation: `read`, `create`, ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// An operation on a control group failed.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// There is no folder for the registry.
    #[error(
        "no folder for the registry of runs: XDG_RUNTIME_DIR is not set; set it to a folder of yours, or run as root"
    )]
    NoFolder,
    /// Other users can write to the registry's folder.
    #[error("{} is not safe for the registry of runs: {problem}; remove it", .path.display())]
    UnsafeFolder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The registry's file cannot be parsed. No run starts until it is repaired or removed.
    #[error(
        "the registry of runs {} is damaged: {problem}. No run starts, since it is not known which CPUs are held. \
         {}, move it away: mv {path} {path}.damaged",
        .path.display(), still_running(.processes), path = .path.display()
    )]
    Damaged {
        /// The file; it is left as it is.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// Processes that are still in the control groups of runs.
        processes: Vec<u32>,
    },
    /// The registry was written by a newer Pinfold.
    #[error("the registry of runs {} has version {found}; this Pinfold reads version {known}: use the newer one until its runs have ended", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that this program reads and writes.
        known: u32,
    },
    /// The live runs were placed on other CPUs than this process may use.
    #[error(
        "runs {runs} hold CPUs of {theirs}, but this process may use {ours}: \
         start from the same control group, or wait until they have ended"
    )]
    OtherMachine {
        /// The ids of the live runs.
        runs: String,
        /// The CPUs that the runs were placed on.
        theirs: CpuSet,
        /// The CPUs that this process may use.
        ours: CpuSet,
    },
    /// The request names memory, and the kernel does not report memory per NUMA node.
    #[error(
        "the kernel does not report which memory is on which NUMA node: run without a memory or hugepages request"
    )]
    NoMemoryByNode,
    /// A cpuset partition needs the root of cgroup v2.
    #[error(
        "keeping every other process off the CPUs needs cgroup v2 with the cpuset controller and the right to make groups at its root"
    )]
    NoPartition,
    /// The child is not registered: its parent died before it registered the run.
    #[error(
        "run {id} is not registered for this process: its parent process died before it registered the run; the command was not started"
    )]
    NotRegistered {
        /// The run's id.
        id: u64,
    },
    /// A system call failed.
    #[error("cannot {action}: {error}")]
    System {
        /// The operation.
        action: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The machine cannot be read.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
    /// The kubelet's view of the machine cannot be built.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The rules do not fit the machine.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The registry contradicts itself or the machine.
    #[error(transparent)]
    Restart(#[from] RestartError),
    /// The ledger does not accept the request.
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
