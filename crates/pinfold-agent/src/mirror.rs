//! Mirror mode: the exact picture of a node on which a kubelet decides. Nothing is changed.
//!
//! ```text
//! KubeletConfiguration ─────────► Rules (exact) ─┐
//! cpu_manager_state ─┐                           │
//! memory_manager_state ─► what pods hold, by id ─┼─► Picture ─► objects for schedulers
//! kubelet_internal_checkpoint ─┘                 │
//! pod resources ──► names, where devices are ────┘
//! ```
//!
//! The state files say which pod holds what, but know pods by id only; pod resources know names but no ids. Whoever
//! holds the same is the same pod. Everything that is missing, damaged or contradictory is a [`Remark`], and the last
//! good version of a file counts until there is a better one.
//!
//! The configuration is what the kubelet tells at its endpoint (`/configz`), with flags and drop-in files in it; where it
//! is not asked or does not answer, what its file says.

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
mod pods;
mod source;

pub use configz::{Configz, ConfigzError};
pub use objects::{Published, objects};
pub use pods::PodName;
pub use source::FileFault;

use configz::Live;
use source::Source;

/// How long pod resources may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Where a kubelet keeps what it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Its configuration.
    pub config: PathBuf,
    /// Its root directory.
    pub root: PathBuf,
    /// Its pod resources socket, if it is to be asked.
    pub pod_resources: Option<PathBuf>,
}

impl Places {
    /// Where a kubelet keeps it unless told otherwise.
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

/// Something about the sources that whoever relies on the picture should know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Remark {
    /// A file is missing or damaged; its last good version counts, if there was one.
    #[error("{}: {fault}{}", path.display(), if *.kept { "; its last good version counts" } else { "" })]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: FileFault,
        /// Whether an earlier version counts.
        kept: bool,
    },
    /// The configuration is not one that a kubelet would start with on this machine; the last good one counts.
    #[error("no kubelet would start with this configuration here: {0}")]
    Settings(SettingsError),
    /// A state file was written under another policy than the configured one: the kubelet has not restarted since.
    #[error("the {manager} policy is {configured:?}, but the state was written under {found:?}")]
    Policy {
        /// Whose policy: `CPU` or `memory`.
        manager: &'static str,
        /// The configured one.
        configured: String,
        /// The one in the file.
        found: String,
    },
    /// The kubelet does not tell the configuration it runs with; the last one it told counts, or else the file.
    #[error("/configz: {problem}; {}", if *.kept { "what it told last counts" } else { "the file of the configuration counts" })]
    Configz {
        /// Why not.
        problem: String,
        /// Whether an earlier answer counts.
        kept: bool,
    },
    /// Pod resources did not answer: pods have no names, and where free devices are is not known.
    #[error("pod resources: {0}")]
    Silent(String),
    /// A pod that holds something by the state files, but not by pod resources.
    #[error("pod {0} is in the state files, but pod resources know none that holds the same")]
    Nameless(PodUid),
    /// A pod that holds something by pod resources, but not by the state files.
    #[error("pod {0} holds something by pod resources that the state files do not know of")]
    Unknown(PodName),
    /// The books do not add up.
    #[error("the kubelet's books do not add up: {0}")]
    Books(AuditFinding),
}

/// A node as its kubelet has it.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Who holds what, under the kubelet's rules. Pods ask for exactly what they hold.
    pub ledger: Ledger,
    /// The names of the pods in the ledger, as far as they are known.
    pub names: BTreeMap<PodUid, PodName>,
    /// Pods that hold nothing for themselves alone.
    pub sharing: Vec<PodName>,
}

/// Looks at the sources again and again.
#[derive(Debug)]
pub struct Mirror {
    machine: Arc<Machine>,
    memory: u64,
    config: Source<KubeletSettings>,
    live: Option<Live>,
    cpus: Source<CpuManagerState>,
    held_memory: Source<MemoryManagerState>,
    devices: Source<DeviceManagerState>,
    reader: Option<PodResourcesClient>,
    answer: Option<Answer>,
    rules: Option<Arc<Rules>>,
    picture: Option<Picture>,
    remarks: Vec<Remark>,
}

/// What pod resources answered.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answer {
    pods: Vec<api::PodResources>,
    allocatable: api::AllocatableResourcesResponse,
    silent: Option<String>,
}

impl Mirror {
    /// Nothing has been looked at yet. `memory` is what the machine has in all.
    #[must_use]
    pub fn new(machine: Arc<Machine>, memory: u64, places: Places) -> Self {
        let state = |manager: KubeletManager| places.root.join(manager.file_name());
        let plugins = places.root.join("device-plugins");
        Self {
            machine,
            memory,
            config: Source::new(places.config),
            live: None,
            cpus: Source::new(state(KubeletManager::Cpu)),
            held_memory: Source::new(state(KubeletManager::Memory)),
            devices: Source::new(plugins.join(KubeletManager::Device.file_name())),
            reader: places
                .pod_resources
                .map(|socket| PodResourcesClient::new(socket, ANSWER_TIME)),
            answer: None,
            rules: None,
            picture: None,
            remarks: Vec::new(),
        }
    }

    /// The same, and the kubelet is asked for the configuration it runs with.
    #[must_use]
    pub fn asking(mut self, kubelet: Configz) -> Self {
        self.live = Some(Live::new(kubelet));
        self
    }

    /// Looks again. Whether anything is new: files are compared by inode, time and length first, then by content.
    pub fn look(&mut self) -> bool {
        let mut is_new = self.config.look(read_config);
        if let Some(live) = &mut self.live {
            is_new |= live.look(Instant::now());
        }
        if is_new {
            // What the files mean depends on the configuration.
            self.cpus.read_again();
            self.held_memory.read_again();
        }
        let pod_level = self
            .settings()
            .map_or(PodLevel::Ignored, KubeletSettings::pod_level);
        is_new |= self.answered();
        is_new |= self
            .cpus
            .look(|file, bytes| read_cpus(file, bytes, pod_level));
        is_new |= self
            .held_memory
            .look(|file, bytes| read_memory(file, bytes, pod_level));
        is_new |= self.devices.look(|file, bytes| {
            DeviceManagerState::restore(bytes, file).map_err(|error| error.to_string())
        });
        if is_new {
            self.draw();
        }
        is_new
    }

    /// What the kubelet told, or else its file says.
    fn settings(&self) -> Option<&KubeletSettings> {
        let live = self.live.as_ref().and_then(Live::good);
        live.or(self.config.good.as_ref())
    }

    /// The node; `None` before the first look, or if no configuration so far fits the machine.
    #[must_use]
    pub fn picture(&self) -> Option<&Picture> {
        self.picture.as_ref()
    }

    /// What is wrong with the sources.
    #[must_use]
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Asks for pod resources. Whether the answer is news.
    fn answered(&mut self) -> bool {
        let answer = match &self.reader {
            None => Answer::default(),
            Some(reader) => ask(reader).unwrap_or_else(|error| Answer {
                silent: Some(error.to_string()),
                ..Answer::default()
            }),
        };
        let is_new = self.answer.as_ref() != Some(&answer);
        self.answer = Some(answer);
        is_new
    }

    /// Puts the picture together.
    fn draw(&mut self) {
        self.remarks.clear();
        let live = self.live.as_ref();
        if live.and_then(Live::good).is_none() {
            self.remarks.extend(self.config.remark());
        }
        self.remarks.extend(live.and_then(Live::remark));
        self.remarks.extend(self.cpus.remark());
        self.remarks.extend(self.held_memory.remark());
        self.remarks.extend(self.devices.remark());
        let settings = self.settings().cloned().unwrap_or_default();
        let settings = settings.settings(self.memory, Fidelity::Exact);
        match Rules::new(self.machine.clone(), settings) {
            Ok(rules) => self.rules = Some(Arc::new(rules)),
            Err(error) => self.remarks.push(Remark::Settings(error)),
        }
        let Some(rules) = self.rules.clone() else {
            return;
        };
        let files = StateFiles {
            cpus: self.cpus.good.clone(),
            memory: self.held_memory.good.clone(),
            devices: self.devices.good.clone(),
        };
        self.remarks.extend(other_policies(&rules, &files));
        let answer = self.answer.clone().unwrap_or_default();
        let mut strangers = files.unlisted_pods(&std::collections::BTreeSet::new());
        let named = pods::named(&files, &answer.pods);
        match answer.silent {
            Some(words) => self.remarks.push(Remark::Silent(words)),
            None if self.reader.is_none() => {}
            None => {
                let nameless = strangers.iter().map(|pod| &pod.uid);
                let nameless = nameless.filter(|uid| !named.names.contains_key(*uid));
                self.remarks.extend(nameless.cloned().map(Remark::Nameless));
                self.remarks
                    .extend(named.unknown.into_iter().map(Remark::Unknown));
            }
        }
        for pod in &mut strangers {
            if let Some(name) = named.names.get(&pod.uid) {
                pod.name = name.to_string();
            }
        }
        let mut pool = DevicePool::new(self.machine.node_ids());
        for (resource, offer) in pods::located(files.offers(), &answer.allocatable.devices) {
            pool.set_devices(resource, offer);
        }
        let empty = Ledger::new(rules.clone());
        let saved = files.to_saved_state(empty.state());
        let strangers: Vec<_> = strangers.into_iter().map(Arc::new).collect();
        let ledger = Ledger::from_kubelet_state(rules, saved, pool, &strangers);
        self.remarks
            .extend(ledger.audit().into_iter().map(Remark::Books));
        self.picture = Some(Picture {
            ledger,
            names: named.names,
            sharing: named.sharing,
        });
    }
}

fn ask(reader: &PodResourcesClient) -> Result<Answer, PodResourcesError> {
    let mut pods = reader.list()?;
    pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(Answer {
        pods,
        allocatable: reader.allocatable()?,
        silent: None,
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
    };
    let restored = MemoryManagerState::restore(bytes, &how);
    restored
        .map(|(state, _)| state)
        .map_err(|error| error.to_string())
}

/// State files of other policies than the configured ones.
fn other_policies(rules: &Rules, files: &StateFiles) -> Vec<Remark> {
    let settings = rules.settings();
    let cpus = files.cpus.as_ref().map(|file| &file.policy);
    let memory = files.memory.as_ref().map(|file| &file.policy);
    [
        ("CPU", &settings.cpu_policy, cpus),
        ("memory", &settings.memory_policy, memory),
    ]
    .into_iter()
    .filter_map(|(manager, configured, found)| {
        let found = found.filter(|found| *found != configured)?;
        Some(Remark::Policy {
            manager,
            configured: configured.clone(),
            found: found.clone(),
        })
    })
    .collect()
}
