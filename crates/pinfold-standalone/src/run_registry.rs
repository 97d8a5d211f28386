//! [`RunRegistry`]: the live runs of this machine, shared by all processes that start one.
//!
//! A folder with a lock file and `runs.json`, which is always replaced as a whole. A process that opens the registry
//! holds its lock, and first removes the runs whose processes have all ended.
//!
//! A file that cannot be parsed is left as it is, and no run starts until it is repaired: it is not known which CPUs
//! are held, and assigning them twice would be worse than assigning none.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_cgroup::folder;
use pinfold_core::cpu::CpuState;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::Decision;
use pinfold_core::device::{DevicePool, DeviceState, NoPreference};
use pinfold_core::ledger::{Ledger, SavedState};
use pinfold_core::machine::Machine;
use pinfold_core::memory::MemoryState;
use pinfold_core::occupancy::Occupancy;
use pinfold_core::pod::Pod;
use pinfold_hardware::Hardware;
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::confinement::Confinement;
use crate::error::StandaloneError;
use crate::files;
use crate::placement::{self, RunPlacement, RunPolicy, rules};
use crate::process::{Process, boot};
use crate::request::RunRequest;

const VERSION: u32 = 1;

/// The registry of live runs, locked until it is dropped.
#[derive(Debug)]
pub struct RunRegistry {
    path: PathBuf,
    content: RegistryContent,
    _lock: File,
}

/// One live command and the resources assigned to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: u64,
    /// The process that executes the command.
    pub process: Process,
    /// The command line.
    pub command: Vec<String>,
    /// The name of the topology policy it was placed with.
    pub policy: String,
    /// Its CPUs and NUMA nodes.
    pub placement: RunPlacement,
    /// What confines it to them.
    pub confinement: Confinement,
    /// The pod that states its request.
    pub pod: Arc<Pod>,
}

impl Run {
    /// Whether any of its processes is running: its first one, or one left in its control group.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process.is_alive() || self.confinement.is_in_use()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RegistryContent {
    version: u32,
    boot: String,
    next: u64,
    node: Option<RegistryMachine>,
    runs: Vec<Run>,
}

/// The machine that the runs are placed on, and the CPUs and memory they hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RegistryMachine {
    machine: Arc<Machine>,
    cpus: CpuState,
    memory: MemoryState,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A decision about a request, not yet in the registry.
#[derive(Clone, Debug)]
pub struct RunProposal {
    /// The id that the run would get.
    pub id: u64,
    /// The pod that states the request.
    pub pod: Arc<Pod>,
    /// Admitted or rejected, and why.
    pub decision: Decision,
    /// The ledger after the decision.
    pub ledger: Ledger,
}

impl RunProposal {
    /// The placement of the run; `None` if it was rejected.
    #[must_use]
    pub fn placement(&self) -> Option<RunPlacement> {
        let container = self.decision.assignment()?.containers.first()?;
        let shared = self.ledger.state().cpus().shared();
        Some(RunPlacement::of(container, shared))
    }
}

/// The folder of the registry: `/run/pinfold` for root, `$XDG_RUNTIME_DIR/pinfold` for other users.
///
/// # Errors
/// If `XDG_RUNTIME_DIR` is not set.
pub fn folder() -> Result<PathBuf, StandaloneError> {
    if rustix::process::geteuid().is_root() {
        return Ok("/run/pinfold".into());
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folder = folder.ok_or(StandaloneError::NoFolder)?;
    Ok(Path::new(&folder).join("pinfold"))
}

impl RunRegistry {
    /// Waits for the lock, reads the registry, and removes runs that have ended.
    ///
    /// # Errors
    /// If the folder cannot be created or is not safe, or the registry's file is damaged.
    pub fn open(folder: &Path) -> Result<Self, StandaloneError> {
        let mut registry = Self::read(folder)?;
        registry.remove_ended()?;
        Ok(registry)
    }

    /// Waits for the lock and reads the registry without changing it.
    pub(crate) fn read(folder: &Path) -> Result<Self, StandaloneError> {
        make_folder(folder)?;
        let lock = lock(&folder.join("lock"))?;
        let path = folder.join("runs.json");
        let content = match fs::exists(&path) {
            Ok(false) => RegistryContent::empty(),
            _ => parse(&path, &files::read(&path)?)?,
        };
        let mut registry = Self {
            path,
            content,
            _lock: lock,
        };
        if registry.content.boot != boot() {
            // Neither processes nor control groups survive a reboot.
            registry.content = RegistryContent::empty();
        }
        Ok(registry)
    }

    /// The live runs, in the order they were started.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.content.runs
    }

    /// The machine that the runs are placed on; `None` before the first run.
    #[must_use]
    pub fn machine(&self) -> Option<&Arc<Machine>> {
        self.content.node.as_ref().map(|node| &node.machine)
    }

    /// The CPUs and memory that each run holds.
    ///
    /// # Errors
    /// If the registry contradicts itself.
    pub fn occupancy(&self) -> Result<Occupancy, StandaloneError> {
        match &self.content.node {
            Some(node) => Ok(self.ledger(node, RunPolicy::ACCOUNTING)?.occupancy()),
            None => Ok(Occupancy::default()),
        }
    }

    /// Checks that the runs are on this machine's CPUs. A registry without runs adopts this machine.
    ///
    /// # Errors
    /// If live runs are on other CPUs than this process may use.
    pub fn adopt_machine(&mut self, hardware: &Hardware) -> Result<(), StandaloneError> {
        let partitions = self
            .runs()
            .iter()
            .filter(|run| run.confinement.is_partition());
        let mut partitioned = CpuSet::new();
        for run in partitions {
            partitioned |= &run.placement.cpus;
        }
        let machine = placement::machine(hardware, &partitioned)?;
        match &self.content.node {
            Some(node) if !self.content.runs.is_empty() => {
                if placement::same_cpus(&node.machine, &machine) {
                    return Ok(());
                }
                let runs: Vec<String> = self.runs().iter().map(|run| run.id.to_string()).collect();
                Err(StandaloneError::OtherMachine {
                    runs: runs.join(", "),
                    theirs: node.machine.online().clone(),
                    ours: machine.online().clone(),
                })
            }
            _ => {
                self.content.node = Some(RegistryMachine::empty(Arc::new(machine))?);
                Ok(())
            }
        }
    }

    /// Decides about a request without changing the registry.
    ///
    /// # Errors
    /// If the rules do not fit the machine, or the registry contradicts itself.
    pub fn propose(
        &self,
        request: &RunRequest,
        policy: RunPolicy,
        command: &str,
    ) -> Result<RunProposal, StandaloneError> {
        let node = self.content.node.as_ref().ok_or_else(|| {
            self.damaged("it names no machine although runs are to be placed".to_owned())
        })?;
        if request.requests_memory() && !placement::reports_memory(&node.machine) {
            return Err(StandaloneError::NoMemoryByNode);
        }
        let groups = groups(&self.path);
        let beyond_groups = groups.iter().map(|&(id, _)| id.saturating_add(1)).max();
        let id = self.content.next.max(beyond_groups.unwrap_or(0));
        let pod = Arc::new(request.pod(id, command));
        let mut ledger = self.ledger(node, policy)?;
        let admission = ledger.admit(&pod, &mut NoPreference)?;
        Ok(RunProposal {
            id,
            pod,
            decision: admission.decision,
            ledger,
        })
    }

    /// Adds a run that was proposed and confined, and saves the registry.
    pub(crate) fn add_run(
        &mut self,
        run: Run,
        proposal: &RunProposal,
    ) -> Result<(), StandaloneError> {
        let before = self.content.clone();
        self.content.next = run.id.saturating_add(1);
        self.content.runs.push(run);
        self.copy_state_from(&proposal.ledger);
        let saved = self.save();
        if saved.is_err() {
            self.content = before;
        }
        saved
    }

    /// Confines the runs in the shared pool to `shared`. A run that ends meanwhile is skipped.
    pub(crate) fn update_shared(&mut self, shared: &CpuSet) -> Result<(), StandaloneError> {
        for run in &mut self.content.runs {
            if run.placement.exclusive_cpus || run.placement.cpus == *shared {
                continue;
            }
            match run.confinement.set_cpus(run.process.pid, shared) {
                Err(error) if run.is_alive() => return Err(error),
                _ => run.placement.cpus = shared.clone(),
            }
        }
        Ok(())
    }

    /// The shared pool: the CPUs that no run holds exclusively.
    pub(crate) fn shared(&self) -> CpuSet {
        let node = self.content.node.as_ref();
        node.map_or_else(CpuSet::new, |node| node.cpus.shared().clone())
    }

    /// Releases the resources of runs that have ended, and removes empty control groups of unregistered runs.
    fn remove_ended(&mut self) -> Result<(), StandaloneError> {
        for (id, group) in groups(&self.path) {
            let known = self.content.runs.iter().any(|run| run.id == id);
            if !known && folder::processes(&group).is_empty() {
                folder::remove(&group)?;
            }
        }
        let (living, ended): (Vec<Run>, Vec<Run>) =
            self.content.runs.iter().cloned().partition(Run::is_alive);
        if ended.is_empty() {
            return Ok(());
        }
        let Some(node) = &self.content.node else {
            return Err(self.damaged("it has runs but no machine".to_owned()));
        };
        let mut ledger = self.ledger(node, RunPolicy::ACCOUNTING)?;
        for run in &ended {
            run.confinement.remove()?;
            ledger.release(&run.pod.uid)?;
        }
        self.content.runs = living;
        self.copy_state_from(&ledger);
        self.update_shared(&self.shared())?;
        self.save()
    }

    fn ledger(&self, node: &RegistryMachine, policy: RunPolicy) -> Result<Ledger, StandaloneError> {
        let saved = SavedState {
            cpus: node.cpus.clone(),
            memory: node.memory.clone(),
            devices: DeviceState::default(),
        };
        let pool = DevicePool::new(node.machine.node_ids());
        let pods: Vec<Arc<Pod>> = self.runs().iter().map(|run| run.pod.clone()).collect();
        let rules = rules(&node.machine, policy)?;
        let restored = Ledger::restart_from(rules, saved, pool, &pods, &mut NoPreference);
        let (ledger, _) = restored.map_err(|error| self.damaged(error.to_string()))?;
        Ok(ledger)
    }

    fn copy_state_from(&mut self, ledger: &Ledger) {
        if let Some(node) = &mut self.content.node {
            node.cpus = ledger.state().cpus().clone();
            node.memory = ledger.state().memory().clone();
        }
    }

    fn save(&self) -> Result<(), StandaloneError> {
        let text = serde_json::to_string(&self.content)
            .map_err(|error| self.damaged(format!("it cannot be written: {error}")))?;
        files::replace(&self.path, &text)
    }

    fn damaged(&self, problem: String) -> StandaloneError {
        damaged(&self.path, problem)
    }
}

impl RegistryContent {
    fn empty() -> Self {
        Self {
            version: VERSION,
            boot: boot(),
            next: 1,
            node: None,
            runs: Vec::new(),
        }
    }
}

impl RegistryMachine {
    fn empty(machine: Arc<Machine>) -> Result<Self, StandaloneError> {
        let ledger = Ledger::new(rules(&machine, RunPolicy::ACCOUNTING)?);
        Ok(Self {
            machine,
            cpus: ledger.state().cpus().clone(),
            memory: ledger.state().memory().clone(),
        })
    }
}

/// The control groups of runs on this machine. They belong to the registry in [`folder`]; any other registry has none.
fn groups(path: &Path) -> Vec<(u64, PathBuf)> {
    match folder() {
        Ok(folder) if path.parent() == Some(&folder) => cgroup::groups_of_runs(),
        _ => Vec::new(),
    }
}

fn parse(path: &Path, text: &str) -> Result<RegistryContent, StandaloneError> {
    let broken = |error: serde_json::Error| damaged(path, error.to_string());
    let Versioned { version } = serde_json::from_str(text).map_err(broken)?;
    if version != VERSION {
        return Err(StandaloneError::Version {
            path: path.to_owned(),
            found: version,
            known: VERSION,
        });
    }
    serde_json::from_str(text).map_err(broken)
}

fn damaged(path: &Path, problem: String) -> StandaloneError {
    let groups = groups(path);
    let processes = groups
        .iter()
        .flat_map(|(_, group)| folder::processes(group));
    StandaloneError::Damaged {
        path: path.to_owned(),
        problem,
        processes: processes.collect(),
    }
}

/// Creates the folder, or checks that only this user can write to it.
fn make_folder(path: &Path) -> Result<(), StandaloneError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(StandaloneError::file("create", path, error)),
    }
    let found =
        fs::symlink_metadata(path).map_err(|error| StandaloneError::file("stat", path, error))?;
    let problem = if !found.is_dir() {
        "it is not a folder"
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        "it belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "other users may write to it"
    } else {
        return Ok(());
    };
    Err(StandaloneError::UnsafeFolder {
        path: path.to_owned(),
        problem,
    })
}

fn lock(path: &Path) -> Result<File, StandaloneError> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| StandaloneError::file("open", path, error))?;
    file.lock()
        .map_err(|error| StandaloneError::file("lock", path, error))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
