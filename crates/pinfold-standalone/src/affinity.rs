//! CPU affinity, for machines on which no cpuset cgroup can be created. A process and its children inherit it, but any
//! of them may change it.

use std::fs;
use std::io;

use pinfold_core::cpu_set::CpuSet;
use rustix::process::Pid;
use rustix::thread::{self, sched_setaffinity};

use crate::error::StandaloneError;
use crate::process::Process;

/// Upper bound on the processes of one tree whose affinity is set.
const MOST_PROCESSES: usize = 4096;

/// Sets the CPU affinity of this process, which its children inherit.
pub(crate) fn confine_this(cpus: &CpuSet) -> Result<(), StandaloneError> {
    sched_setaffinity(None, &mask(cpus)?).map_err(|error| StandaloneError::System {
        action: format!("set the CPU affinity to {cpus}"),
        error: error.into(),
    })
}

/// Sets the CPU affinity of a running process and of all its descendants.
///
/// # Errors
/// If it has ended, or the kernel does not allow it.
pub fn confine_process(process: Process, cpus: &CpuSet) -> Result<(), StandaloneError> {
    let failed = |error: io::Error| StandaloneError::System {
        action: format!("set the CPU affinity of process {} to {cpus}", process.pid),
        error,
    };
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let pid = pid.filter(|_| process.is_alive());
    let pid = pid.ok_or_else(|| failed(rustix::io::Errno::SRCH.into()))?;
    sched_setaffinity(Some(pid), &mask(cpus)?).map_err(|error| failed(error.into()))?;
    confine_tree(process.pid, cpus)
}

/// Sets the CPU affinity of a process and of its descendants that `/proc` lists.
pub(crate) fn confine_tree(pid: u32, cpus: &CpuSet) -> Result<(), StandaloneError> {
    let mask = mask(cpus)?;
    let mut tree = vec![pid];
    let mut next = 0;
    while let Some(&pid) = tree.get(next).filter(|_| next < MOST_PROCESSES) {
        next += 1;
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().filter_map(Result::ok) {
            let thread = task.file_name().to_str().and_then(|name| name.parse().ok());
            // A thread that has just ended has no affinity to set.
            let _ = sched_setaffinity(thread.and_then(Pid::from_raw), &mask);
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            tree.extend(
                children
                    .split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
    }
    Ok(())
}

fn mask(cpus: &CpuSet) -> Result<thread::CpuSet, StandaloneError> {
    let mut mask = thread::CpuSet::new();
    for cpu in cpus {
        if cpu.index() >= thread::CpuSet::MAX_CPU {
            return Err(StandaloneError::System {
                action: format!("set the CPU affinity to {cpus}"),
                error: io::Error::other(
                    "CPU affinity covers CPUs 0 to 1023 only; use control groups",
                ),
            });
        }
        mask.set(cpu.index());
    }
    Ok(mask)
}
