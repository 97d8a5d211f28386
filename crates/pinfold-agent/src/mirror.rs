//! Mirror mode: reads the state of a node whose kubelet assigns resources, without changing anything.
//!
//! ```text
//! KubeletConfiguration ─────────► Rules (exact) ─┐
//! cpu_manager_state ─┐                           │
//! memory_manager_state ─► resources by pod UID ──┼─► MirrorSnapshot ─► objects for schedulers
//! kubelet_internal_checkpoint ─┘                 │
//! podresources API ─► pod names, device nodes ───┘
//! ```
//!
//! The state files have the UIDs of pods but no names; the podresources API has names but no UIDs. They are matched by
//! the CPUs and devices that the containers hold. A file that is missing, damaged or inconsistent is a
//! [`MirrorProblem`], and its last valid content is used until it is valid again.
//!
//! The configuration comes from the kubelet's `/configz` endpoint, which includes flags and drop-in files. If it is not
//! configured or not reachable, the configuration file is used.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubelet_api::pod_resources as api;
use pinfold_core::demand::PodLevel;
use pinfold_core::device::DevicePool;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{AuditFinding, Ledger, Rules, SettingsError};
use pinfold_core::machine::Machine;
use pinfold_core::name::PodUid;
use pinfold_devices::pod_resources::{PodResourcesClient, PodResourcesError};
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_kube::state::cpu::CpuRestore;
use pinfold_kube::state::memory::MemoryRestore;
use pinfold_kube::state::{
    CpuManagerState, DeviceManagerState, KubeletManager, MemoryManagerState, StateFiles,
};

mod configz;
mod objects;
mod pod_names;
mod watched_file;

pub use configz::{Configz, ConfigzError};
pub use objects::{Published, objects};
pub use pod_names::PodName;
pub use watched_file::FileProblem;

use configz::ConfigzPoller;
use watched_file::WatchedFile;

/// Timeout of a request to the podresources API.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Paths of a kubelet's files and socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletPaths {
    /// The configuration file.
    pub config: PathBuf,
    /// The root directory.
    pub root: PathBuf,
    /// The podresources socket; `None` to not use it.
    pub pod_resources: Option<PathBuf>,
}

impl KubeletPaths {
    /// The default paths below a root directory.
    #[must_use]
    pub fn under(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            config: root.join("config.yaml"),
            pod_resources: Some(root.join("pod-resources/kubelet.sock")),
            root,
        }
    }
}

/// A problem with the kubelet's files or APIs that makes the snapshot incomplete or stale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MirrorProblem {
    /// A file is missing or damaged. Its last valid content is used, if there was any.
    #[error("{}: {problem}{}", path.display(), if *.kept { "; its last valid content is used" } else { "" })]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: FileProblem,
        /// Whether earlier content is used.
        kept: bool,
    },
    /// A kubelet would not start with this configuration on this machine. The last valid one is used.
    #[error("a kubelet would not start with this configuration on this machine: {0}")]
    Settings(SettingsError),
    /// A state file was written with another policy than the configured one: the kubelet has not restarted since.
    #[error(
        "the {manager} policy is {configured:?}, but the state file was written with {found:?}"
    )]
    Policy {
        /// The manager: `CPU` or `memory`.
        manager: &'static str,
        /// The configured policy.
        configured: String,
        /// The policy in the state file.
        found: String,
    },
    /// `/configz` could not be read. Its last response is used, or else the configuration file.
    #[error("/configz: {problem}; {}", if *.kept { "its last response is used" } else { "the configuration file is used" })]
    Configz {
        /// The error of the request.
        problem: String,
        /// Whether an earlier response is used.
        kept: bool,
    },
    /// The podresources API could not be read: pods have no names, and the NUMA nodes of free devices are unknown.
    #[error("podresources API: {0}")]
    PodResourcesUnavailable(String),
    /// The podresources API lists no pod with the resources that this pod holds by the state files.
    #[error(
        "pod {0} is in the state files, but the podresources API lists no pod with the same resources"
    )]
    UnnamedPod(PodUid),
    /// The podresources API lists resources of this pod that are not in the state files.
    #[error("pod {0} holds resources by the podresources API that are not in the state files")]
    UnknownPod(PodName),
    /// The state files contradict each other.
    #[error("the kubelet's state is inconsistent: {0}")]
    Inconsistent(AuditFinding),
}

/// The state of a node as its kubelet has it.
#[derive(Clone, Debug)]
pub struct MirrorSnapshot {
    /// The resources that pods hold, with the kubelet's settings. The requests of the pods are what they hold.
    pub ledger: Ledger,
    /// The names of the pods in the ledger, as far as they are known.
    pub names: BTreeMap<PodUid, PodName>,
    /// Pods without exclusive CPUs or devices.
    pub sharing: Vec<PodName>,
}

/// Polls the kubelet's files and APIs, and builds a snapshot of the node.
#[derive(Debug)]
pub struct Mirror {
    machine: Arc<Machine>,
    memory: u64,
    config: WatchedFile<KubeletSettings>,
    configz: Option<ConfigzPoller>,
    cpus: WatchedFile<CpuManagerState>,
    held_memory: WatchedFile<MemoryManagerState>,
    devices: WatchedFile<DeviceManagerState>,
    reader: Option<PodResourcesClient>,
    answer: Option<PodResourcesResponse>,
    rules: Option<Arc<Rules>>,
    snapshot: Option<MirrorSnapshot>,
    problems: Vec<MirrorProblem>,
}

/// The responses of the podresources API.
#[derive(Clone, Debug, Default, PartialEq)]
struct PodResourcesResponse {
    pods: Vec<api::PodResources>,
    allocatable: api::AllocatableResourcesResponse,
    error: Option<String>,
}

impl Mirror {
    /// A mirror that has not read anything yet. `memory` is the machine's total memory in bytes.
    #[must_use]
    pub fn new(machine: Arc<Machine>, memory: u64, paths: KubeletPaths) -> Self {
        let state = |manager: KubeletManager| paths.root.join(manager.file_name());
        let plugins = paths.root.join("device-plugins");
        Self {
            machine,
            memory,
            config: WatchedFile::new(paths.config),
            configz: None,
            cpus: WatchedFile::new(state(KubeletManager::Cpu)),
            held_memory: WatchedFile::new(state(KubeletManager::Memory)),
            devices: WatchedFile::new(plugins.join(KubeletManager::Device.file_name())),
            reader: paths
                .pod_resources
                .map(|socket| PodResourcesClient::new(socket, ANSWER_TIME)),
            answer: None,
            rules: None,
            snapshot: None,
            problems: Vec::new(),
        }
    }

    /// Also reads the running configuration from the kubelet's `/configz`.
    #[must_use]
    pub fn with_configz(mut self, kubelet: Configz) -> Self {
        self.configz = Some(ConfigzPoller::new(kubelet));
        self
    }

    /// Reads files and APIs again. Returns whether anything changed: files are compared by inode, modification time and
    /// length first, then by content.
    pub fn poll(&mut self) -> bool {
        let mut is_new = self.config.poll(read_config);
        if let Some(configz) = &mut self.configz {
            is_new |= configz.poll(Instant::now());
        }
        if is_new {
            // How state files are restored depends on the configuration.
            self.cpus.read_again();
            self.held_memory.read_again();
        }
        let pod_level = self
            .settings()
            .map_or(PodLevel::Ignored, KubeletSettings::pod_level);
        is_new |= self.poll_pod_resources();
        is_new |= self
            .cpus
            .poll(|file, bytes| read_cpus(file, bytes, pod_level));
        is_new |= self
            .held_memory
            .poll(|file, bytes| read_memory(file, bytes, pod_level));
        is_new |= self.devices.poll(|file, bytes| {
            DeviceManagerState::restore(bytes, file).map_err(|error| error.to_string())
        });
        if is_new {
            self.rebuild();
        }
        is_new
    }

    /// The settings of `/configz`, or else of the configuration file.
    fn settings(&self) -> Option<&KubeletSettings> {
        let configz = self.configz.as_ref().and_then(ConfigzPoller::settings);
        configz.or(self.config.value.as_ref())
    }

    /// The last snapshot; `None` before the first poll, or if no configuration so far fits the machine.
    #[must_use]
    pub fn snapshot(&self) -> Option<&MirrorSnapshot> {
        self.snapshot.as_ref()
    }

    /// The present problems with the kubelet's files and APIs.
    #[must_use]
    pub fn problems(&self) -> &[MirrorProblem] {
        &self.problems
    }

    /// Reads the podresources API. Returns whether the response changed.
    fn poll_pod_resources(&mut self) -> bool {
        let answer = match &self.reader {
            None => PodResourcesResponse::default(),
            Some(reader) => ask(reader).unwrap_or_else(|error| PodResourcesResponse {
                error: Some(error.to_string()),
                ..PodResourcesResponse::default()
            }),
        };
        let is_new = self.answer.as_ref() != Some(&answer);
        self.answer = Some(answer);
        is_new
    }

    /// Builds the snapshot and the list of problems.
    fn rebuild(&mut self) {
        self.problems.clear();
        let configz = self.configz.as_ref();
        if configz.and_then(ConfigzPoller::settings).is_none() {
            self.problems.extend(self.config.problem());
        }
        self.problems
            .extend(configz.and_then(ConfigzPoller::problem));
        self.problems.extend(self.cpus.problem());
        self.problems.extend(self.held_memory.problem());
        // The kubelet writes its device checkpoint when the first device plugin registers.
        self.problems.extend(self.devices.problem_once_written());
        let settings = self.settings().cloned().unwrap_or_default();
        let settings = settings.settings(self.memory, Fidelity::Exact);
        match Rules::new(self.machine.clone(), settings) {
            Ok(rules) => self.rules = Some(Arc::new(rules)),
            Err(error) => self.problems.push(MirrorProblem::Settings(error)),
        }
        let Some(rules) = self.rules.clone() else {
            return;
        };
        let files = StateFiles {
            cpus: self.cpus.value.clone(),
            memory: self.held_memory.value.clone(),
            devices: self.devices.value.clone(),
        };
        self.problems.extend(policy_mismatches(&rules, &files));
        let answer = self.answer.clone().unwrap_or_default();
        let mut pods = files.unlisted_pods(&std::collections::BTreeSet::new());
        let named = pod_names::named(&files, &answer.pods);
        match answer.error {
            Some(error) => self
                .problems
                .push(MirrorProblem::PodResourcesUnavailable(error)),
            None if self.reader.is_none() => {}
            None => {
                let unnamed = pods.iter().map(|pod| &pod.uid);
                let unnamed = unnamed.filter(|uid| !named.names.contains_key(*uid));
                self.problems
                    .extend(unnamed.cloned().map(MirrorProblem::UnnamedPod));
                self.problems
                    .extend(named.unknown.into_iter().map(MirrorProblem::UnknownPod));
            }
        }
        for pod in &mut pods {
            if let Some(name) = named.names.get(&pod.uid) {
                pod.name = name.to_string();
            }
        }
        let mut pool = DevicePool::new(self.machine.node_ids());
        for (resource, offer) in pod_names::located(files.offers(), &answer.allocatable.devices) {
            pool.set_devices(resource, offer);
        }
        let empty = Ledger::new(rules.clone());
        let saved = files.to_saved_state(empty.state());
        let pods: Vec<_> = pods.into_iter().map(Arc::new).collect();
        let ledger = Ledger::from_kubelet_state(rules, saved, pool, &pods);
        self.problems
            .extend(ledger.audit().into_iter().map(MirrorProblem::Inconsistent));
        self.snapshot = Some(MirrorSnapshot {
            ledger,
            names: named.names,
            sharing: named.sharing,
        });
    }
}

fn ask(reader: &PodResourcesClient) -> Result<PodResourcesResponse, PodResourcesError> {
    let mut pods = reader.list()?;
    pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(PodResourcesResponse {
        pods,
        allocatable: reader.allocatable()?,
        error: None,
    })
}

fn read_config(file: &str, bytes: &[u8]) -> Result<KubeletSettings, String> {
    match KubeletSettings::read(file, bytes, Fidelity::Exact) {
        Ok(read) => Ok(read.value),
        Err(findings) => Err(findings.to_string()),
    }
}

fn read_cpus(file: &str, bytes: &[u8], pod_level: PodLevel) -> Result<CpuManagerState, String> {
    let how = CpuRestore {
        file,
        policy: None,
        pod_level,
        running: &BTreeMap::new(),
        fidelity: Fidelity::Exact,
    };
    let restored = CpuManagerState::restore(bytes, &how);
    restored
        .map(|(state, _)| state)
        .map_err(|error| error.to_string())
}

fn read_memory(
    file: &str,
    bytes: &[u8],
    pod_level: PodLevel,
) -> Result<MemoryManagerState, String> {
    let how = MemoryRestore {
        file,
        policy: None,
        pod_level,
        fidelity: Fidelity::Exact,
    };
    let restored = MemoryManagerState::restore(bytes, &how);
    restored
        .map(|(state, _)| state)
        .map_err(|error| error.to_string())
}

/// Problems of state files that were written with another policy than the configured one.
fn policy_mismatches(rules: &Rules, files: &StateFiles) -> Vec<MirrorProblem> {
    let settings = rules.settings();
    let cpus = files.cpus.as_ref().map(|file| &file.policy);
    let memory = files.memory.as_ref().map(|file| &file.policy);
    [
        ("CPU", settings.cpu_policy.name(), cpus),
        ("memory", settings.memory_policy.name(), memory),
    ]
    .into_iter()
    .filter_map(|(manager, configured, found)| {
        let found = found.filter(|found| found.as_str() != configured)?;
        Some(MirrorProblem::Policy {
            manager,
            configured: configured.to_owned(),
            found: found.clone(),
        })
    })
    .collect()
}
