//! [`Book`]: the runs of this machine, shared by everybody who starts one.
//!
//! One folder with a lock and one file, which is always replaced as a whole. Whoever opens the book holds its lock,
//! and first strikes out the runs whose processes have all ended.
//!
//! A book that cannot be read is left as it is, and nothing is handed out until somebody has looked: what
//! it says is held is not known, and handing it out again would be worse than handing out nothing.

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
use crate::error::StandaloneError;
use crate::files;
use crate::hold::Hold;
use crate::place::{self, Placement, Policy, rules};
use crate::process::{Process, boot};
use crate::request::Request;

const VERSION: u32 = 1;

/// The book of runs, locked until it is dropped.
#[derive(Debug)]
pub struct Book {
    path: PathBuf,
    content: Content,
    _lock: File,
}

/// One command that runs on what was handed out to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its number.
    pub id: u64,
    /// The process that became the command.
    pub process: Process,
    /// The command, for people.
    pub command: Vec<String>,
    /// The name of the topology policy it was placed under.
    pub policy: String,
    /// What it may use.
    pub placement: Placement,
    /// What keeps it there.
    pub hold: Hold,
    /// What it asked for.
    pub pod: Arc<Pod>,
}

impl Run {
    /// Whether anything of it still runs: its first process, or one that it started and left behind.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process.is_alive() || self.hold.is_in_use()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    version: u32,
    boot: String,
    next: u64,
    node: Option<Node>,
    runs: Vec<Run>,
}

/// The machine that the runs are on, and what of it they hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Node {
    machine: Arc<Machine>,
    cpus: CpuState,
    memory: MemoryState,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A decision that is not in the book yet.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The number the run would have.
    pub id: u64,
    /// Its pod.
    pub pod: Arc<Pod>,
    /// Yes or no, and why.
    pub decision: Decision,
    /// The ledger after it.
    pub ledger: Ledger,
}

impl Proposal {
    /// What the run would use; `None` if it was rejected.
    #[must_use]
    pub fn placement(&self) -> Option<Placement> {
        let container = self.decision.assignment()?.containers.first()?;
        let shared = self.ledger.state().cpus().shared();
        Some(Placement::of(container, shared))
    }
}

/// Where the book is: `/run/pinfold` for root, a folder in `$XDG_RUNTIME_DIR` for everybody else.
///
/// # Errors
/// If there is no such folder.
pub fn folder() -> Result<PathBuf, StandaloneError> {
    if rustix::process::geteuid().is_root() {
        return Ok("/run/pinfold".into());
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folder = folder.ok_or(StandaloneError::NoFolder)?;
    Ok(Path::new(&folder).join("pinfold"))
}

impl Book {
    /// Waits for the lock, reads the book, and strikes out what has ended.
    ///
    /// # Errors
    /// If the folder cannot be made or is not safe, or the book is damaged.
    pub fn open(folder: &Path) -> Result<Self, StandaloneError> {
        let mut book = Self::read(folder)?;
        book.strike_out_ended()?;
        Ok(book)
    }

    /// Waits for the lock and reads the book as it is.
    pub(crate) fn read(folder: &Path) -> Result<Self, StandaloneError> {
        make_folder(folder)?;
        let lock = lock(&folder.join("lock"))?;
        let path = folder.join("runs.json");
        let content = match fs::exists(&path) {
            Ok(false) => Content::empty(),
            _ => parse(&path, &files::read(&path)?)?,
        };
        let mut book = Self {
            path,
            content,
            _lock: lock,
        };
        if book.content.boot != boot() {
            // No process lives through a boot, and no control group does.
            book.content = Content::empty();
        }
        Ok(book)
    }

    /// The runs, in the order they came.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.content.runs
    }

    /// The machine that the runs are on; `None` before the first one.
    #[must_use]
    pub fn machine(&self) -> Option<&Arc<Machine>> {
        self.content.node.as_ref().map(|node| &node.machine)
    }

    /// Who sits where.
    ///
    /// # Errors
    /// If the book contradicts itself.
    pub fn occupancy(&self) -> Result<Occupancy, StandaloneError> {
        match &self.content.node {
            Some(node) => Ok(self.ledger(node, Policy::BOOKKEEPING)?.occupancy()),
            None => Ok(Occupancy::default()),
        }
    }

    /// Makes sure that the book is about this machine. An empty book takes it over; runs stay on theirs.
    ///
    /// # Errors
    /// If runs are on other CPUs than this process may use.
    pub fn settle(&mut self, hardware: &Hardware) -> Result<(), StandaloneError> {
        let partitions = self.runs().iter().filter(|run| run.hold.is_partition());
        let mut partitioned = CpuSet::new();
        for run in partitions {
            partitioned |= &run.placement.cpus;
        }
        let machine = place::machine(hardware, &partitioned)?;
        match &self.content.node {
            Some(node) if !self.content.runs.is_empty() => {
                if place::same_cpus(&node.machine, &machine) {
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
                self.content.node = Some(Node::empty(Arc::new(machine))?);
                Ok(())
            }
        }
    }

    /// Decides about a request. The book does not change.
    ///
    /// # Errors
    /// If the rules do not fit the machine, or the book contradicts itself.
    pub fn propose(
        &self,
        request: &Request,
        policy: Policy,
        command: &str,
    ) -> Result<Proposal, StandaloneError> {
        let node = self.content.node.as_ref().ok_or_else(|| {
            self.damaged("it names no machine although runs are to be placed".to_owned())
        })?;
        if request.books_memory() && !place::tells_memory(&node.machine) {
            return Err(StandaloneError::NoMemoryByNode);
        }
        let groups = groups(&self.path);
        let beyond_groups = groups.iter().map(|&(id, _)| id.saturating_add(1)).max();
        let id = self.content.next.max(beyond_groups.unwrap_or(0));
        let pod = Arc::new(request.pod(id, command));
        let mut ledger = self.ledger(node, policy)?;
        let admission = ledger.admit(&pod, &mut NoPreference)?;
        Ok(Proposal {
            id,
            pod,
            decision: admission.decision,
            ledger,
        })
    }

    /// Writes down a run that was proposed and prepared.
    pub(crate) fn write_down(
        &mut self,
        run: Run,
        proposal: &Proposal,
    ) -> Result<(), StandaloneError> {
        let before = self.content.clone();
        self.content.next = run.id.saturating_add(1);
        self.content.runs.push(run);
        self.take_over(&proposal.ledger);
        let saved = self.save();
        if saved.is_err() {
            self.content = before;
        }
        saved
    }

    /// Moves the runs without CPUs of their own to `shared`. A run that ends meanwhile is left alone.
    pub(crate) fn share(&mut self, shared: &CpuSet) -> Result<(), StandaloneError> {
        for run in &mut self.content.runs {
            if run.placement.own_cpus || run.placement.cpus == *shared {
                continue;
            }
            match run.hold.set_cpus(run.process.pid, shared) {
                Err(error) if run.is_alive() => return Err(error),
                _ => run.placement.cpus = shared.clone(),
            }
        }
        Ok(())
    }

    /// The CPUs that no run has for itself.
    pub(crate) fn shared(&self) -> CpuSet {
        let node = self.content.node.as_ref();
        node.map_or_else(CpuSet::new, |node| node.cpus.shared().clone())
    }

    /// Frees what ended runs held, and removes groups that nobody is in and nobody knows.
    fn strike_out_ended(&mut self) -> Result<(), StandaloneError> {
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
        let mut ledger = self.ledger(node, Policy::BOOKKEEPING)?;
        for run in &ended {
            run.hold.remove()?;
            ledger.release(&run.pod.uid)?;
        }
        self.content.runs = living;
        self.take_over(&ledger);
        self.share(&self.shared())?;
        self.save()
    }

    fn ledger(&self, node: &Node, policy: Policy) -> Result<Ledger, StandaloneError> {
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

    fn take_over(&mut self, ledger: &Ledger) {
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

impl Content {
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

impl Node {
    fn empty(machine: Arc<Machine>) -> Result<Self, StandaloneError> {
        let ledger = Ledger::new(rules(&machine, Policy::BOOKKEEPING)?);
        Ok(Self {
            machine,
            cpus: ledger.state().cpus().clone(),
            memory: ledger.state().memory().clone(),
        })
    }
}

/// The groups of runs on this machine. They belong to the machine's own book; one kept elsewhere has none.
fn groups(path: &Path) -> Vec<(u64, PathBuf)> {
    match folder() {
        Ok(folder) if path.parent() == Some(&folder) => cgroup::groups_of_runs(),
        _ => Vec::new(),
    }
}

fn parse(path: &Path, text: &str) -> Result<Content, StandaloneError> {
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

/// Makes the folder, or checks that it is ours alone.
fn make_folder(path: &Path) -> Result<(), StandaloneError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(StandaloneError::file("create", path, error)),
    }
    let found = fs::symlink_metadata(path)
        .map_err(|error| StandaloneError::file("look at", path, error))?;
    let problem = if !found.is_dir() {
        "it is not a folder"
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        "it belongs to somebody else"
    } else if found.mode() & 0o022 != 0 {
        "others may write to it"
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
