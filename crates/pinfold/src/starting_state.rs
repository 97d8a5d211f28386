//! [`StartingState`]: the pods that run on a node before a command decides, from manifests, a kubelet's state files or an
//! agent's journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_core::demand::PodLevel;
use pinfold_core::device::{DevicePool, NoPreference};
use pinfold_core::ledger::Ledger;
use pinfold_core::pod::Pod;
use pinfold_kube::admission::{AdmissionNode, AdmissionRequest};
use pinfold_kube::pod::PodObject;
use pinfold_kube::state::cpu::CpuRestore;
use pinfold_kube::state::memory::MemoryRestore;
use pinfold_kube::state::{
    CpuManagerState, DeviceManagerState, Fault, KubeletManager, MemoryManagerState, RestoreError,
    StateFiles,
};
use pinfold_kube::upgrade::StateFormats;
use pinfold_terminal::output::drop_default_namespace;

use crate::admission::NodeAdmission;
use crate::args::{NodeArgs, StartArgs};
use crate::exit::Failure;
use crate::input::{self, Source};
use crate::journal_replay;
use crate::node::{NodeFiles, SimulatedNode};
use crate::output::remark;
use crate::script::{self, ScriptPod};
use crate::simulation::{SimulationPlan, SimulationStep};

/// The kubelet's configuration in its root directory, where kubeadm writes it.
const KUBELET_CONFIG: &str = "config.yaml";

/// The running pods that the arguments name, read once: they can be on several nodes.
pub(crate) enum StartingState<'a> {
    /// The kubelet's root directory with its state files.
    Directory(&'a Path),
    /// The ledger at the end of an agent's journal.
    Journal(Box<Ledger>),
    /// Pods that are admitted one after the other, if at all.
    Manifests(Vec<PodObject>),
}

/// A node, the same node under Pinfold's agent if a kubelet decides, and the pods that run there.
pub(crate) struct OpenedNode<'a> {
    /// The node.
    pub(crate) node: SimulatedNode,
    /// The node under Pinfold's agent.
    pub(crate) pinfold: Option<SimulatedNode>,
    /// Its pods.
    pub(crate) start: StartingState<'a>,
}

/// A node with its running pods.
pub(crate) struct StartedNode {
    /// The pods, and their names in scripts.
    pub(crate) pods: Vec<(Arc<Pod>, ScriptPod)>,
    /// The managers' ledger.
    pub(crate) ledger: Ledger,
    /// The sums of all requests.
    pub(crate) sums: AdmissionNode,
    /// A line for each pod of a manifest that does not run.
    pub(crate) rejected: Vec<String>,
}

impl StartArgs {
    /// Opens the node that the arguments name, and reads its running pods.
    pub(crate) fn open(&self, args: &NodeArgs) -> Result<OpenedNode<'_>, Failure> {
        if let Some(journal) = &self.journal {
            let (node, ledger) = journal_replay::last_state(journal)?;
            return Ok(OpenedNode {
                node: node.with(args.policy, args.scope)?,
                pinfold: None,
                start: StartingState::Journal(Box::new(ledger)),
            });
        }
        let files = self.node_files(args)?;
        let (node, pinfold) = SimulatedNode::open_with_pinfold(&files, args.decider.decider)?;
        Ok(OpenedNode {
            node,
            pinfold,
            start: self.running()?,
        })
    }

    /// The files of the node that the arguments name, if it is not that of a journal.
    pub(crate) fn node_files(&self, args: &NodeArgs) -> Result<NodeFiles, Failure> {
        let config = self.state.as_ref().map(|dir| dir.join(KUBELET_CONFIG));
        let config: Option<PathBuf> = config.filter(|path| path.exists());
        NodeFiles::read_with(args, config.as_deref())
    }

    /// The running pods that the arguments name, if they are not those of a journal.
    pub(crate) fn running(&self) -> Result<StartingState<'_>, Failure> {
        Ok(match &self.state {
            Some(dir) => StartingState::Directory(dir),
            None => StartingState::Manifests(input::pods(&self.pods)?),
        })
    }

    /// The running pods of a cluster for a command that takes no steps.
    pub(crate) fn cluster_pods_without_script(&self) -> Result<Vec<PodObject>, Failure> {
        match self.script {
            Some(_) => Err(Failure::BadInput(
                "--script is for a single node: the running pods of a cluster are in the files of --nodes with their \
                 nodeName, or in --pods"
                    .to_owned(),
            )),
            None => self.cluster_pods(),
        }
    }

    /// The running pods of a cluster, which `--pods` adds to those of the nodes' files.
    pub(crate) fn cluster_pods(&self) -> Result<Vec<PodObject>, Failure> {
        if self.state.is_some() || self.journal.is_some() {
            return Err(Failure::BadInput(
                "--state and --journal are for a single node: the running pods of a cluster are in the files of --nodes \
                 with their nodeName, or in --pods"
                    .to_owned(),
            ));
        }
        input::pods(&self.pods)
    }
}

impl OpenedNode<'_> {
    /// The node with its running pods and the steps of the script taken. Prints a warning for each pod that does not run.
    pub(crate) fn started(&self, args: &StartArgs, bound: bool) -> Result<StartedNode, Failure> {
        let started = self.start.after_script(&self.node, args, bound)?;
        started.rejected.iter().for_each(|line| remark(line));
        Ok(started)
    }

    /// The same under Pinfold's agent, without warnings; `None` if no kubelet decides or the agent cannot have the pods.
    pub(crate) fn started_as_pinfold(&self, args: &StartArgs, bound: bool) -> Option<StartedNode> {
        let pinfold = self.pinfold.as_ref()?;
        self.start.after_script(pinfold, args, bound).ok()
    }
}

impl StartingState<'_> {
    /// Whether the state files list the pods: they do not list pods without exclusive resources.
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// A node with all running pods. kube-scheduler is asked about the pods of manifests unless they are `bound`.
    pub(crate) fn on(&self, node: &SimulatedNode, bound: bool) -> Result<StartedNode, Failure> {
        match self {
            Self::Manifests(objects) => {
                let steps: Vec<_> = (0..objects.len()).map(SimulationStep::Add).collect();
                admit(node, objects, &steps, bound)
            }
            _ => self.restored(node),
        }
    }

    /// The formats of the state files: those of the files, or those that the kubelet of the node writes.
    pub(crate) fn formats(&self, node: &SimulatedNode) -> Result<StateFormats, Failure> {
        match self {
            Self::Directory(dir) => Ok(state_files(node, dir)?.1),
            Self::Journal(_) | Self::Manifests(_) => Ok(StateFormats::written_by(&node.rules)),
        }
    }

    /// A node with the running pods after the steps of the script. A script about manifests adds their pods itself.
    pub(crate) fn after_script(
        &self,
        node: &SimulatedNode,
        args: &StartArgs,
        bound: bool,
    ) -> Result<StartedNode, Failure> {
        let Some(path) = &args.script else {
            return self.on(node, bound);
        };
        if let Self::Manifests(objects) = self {
            let names: Vec<ScriptPod> = objects.iter().map(ScriptPod::from).collect();
            return admit(node, objects, &script::read(path, &names)?, bound);
        }
        let started = self.restored(node)?;
        let (pods, names): (Vec<_>, Vec<_>) = started.pods.into_iter().unzip();
        let steps = script::read(path, &names)?;
        let requests = pods.iter().map(|pod| AdmissionRequest::of_resources(pod));
        let plan = SimulationPlan {
            start: Some(self),
            admission: Some(NodeAdmission::new(node, requests.collect(), bound)),
            ..SimulationPlan::new(&pods, &steps)
        };
        let simulation = plan.run_on(node)?;
        let sums = simulation.admission.map(|admission| admission.node);
        Ok(StartedNode {
            sums: sums.unwrap_or(started.sums),
            ledger: simulation.ledger,
            pods: pods.into_iter().zip(names).collect(),
            rejected: Vec::new(),
        })
    }

    /// A node with the pods of the state files or the journal, and the sums of their requests.
    fn restored(&self, node: &SimulatedNode) -> Result<StartedNode, Failure> {
        let ledger = match self {
            Self::Directory(dir) => from_state(node, dir)?,
            Self::Journal(ledger) => from_journal(node, ledger)?,
            Self::Manifests(_) => node.ledger(),
        };
        let mut sums = AdmissionNode::new(None, node.allocatable.clone());
        let mut pods = Vec::new();
        for admitted in ledger.admitted_pods() {
            let request = AdmissionRequest::of_resources(&admitted.pod);
            sums.add(&admitted.pod.uid, &request);
            let pod = named(&admitted.pod);
            let mut name = ScriptPod::from(pod.as_ref());
            drop_default_namespace(name.name_mut());
            pods.push((pod, name));
        }
        let pool = ledger.state().pool();
        for resource in pool.resources() {
            let devices = pool.devices(resource).into_iter().flatten();
            let healthy = devices.filter(|(_, device)| device.healthy).count();
            sums.set_devices(resource, healthy);
        }
        Ok(StartedNode {
            pods,
            ledger,
            sums,
            rejected: Vec::new(),
        })
    }
}

/// The pod; one whose state file has no name is called by its uid.
fn named(pod: &Arc<Pod>) -> Arc<Pod> {
    match pod.name.is_empty() {
        true => Arc::new(Pod {
            name: pod.uid.to_string(),
            ..Pod::clone(pod)
        }),
        false => pod.clone(),
    }
}

/// A node on which pods of manifests were admitted in these steps. Pods that have ended hold nothing.
fn admit(
    node: &SimulatedNode,
    objects: &[PodObject],
    steps: &[SimulationStep],
    bound: bool,
) -> Result<StartedNode, Failure> {
    let has_ended = |index: usize| {
        let object = objects.get(index);
        object.is_some_and(|object| object.constraints.finished)
    };
    let steps = steps.iter().copied();
    let steps: Vec<SimulationStep> = steps
        .filter(|step| !matches!(step, SimulationStep::Add(index) if has_ended(*index)))
        .collect();
    let requests = objects.iter().map(AdmissionRequest::of).collect();
    let pods: Vec<Arc<Pod>> = objects
        .iter()
        .map(|object| Arc::new(object.pod.clone()))
        .collect();
    let plan = SimulationPlan {
        admission: Some(NodeAdmission::new(node, requests, bound)),
        ..SimulationPlan::new(&pods, &steps)
    };
    let simulation = plan.run_on(node)?;
    let rejected = simulation.events.iter().filter_map(|event| {
        let (pod, _) = (event.pod.as_ref()?, event.rejection.as_ref()?);
        Some(format!("warning: {pod} does not run: {}", event.message))
    });
    let empty = || AdmissionNode::new(None, node.allocatable.clone());
    let rejected = rejected.collect();
    Ok(StartedNode {
        pods: pods
            .into_iter()
            .zip(objects.iter().map(ScriptPod::from))
            .collect(),
        rejected,
        sums: (simulation.admission).map_or_else(empty, |admission| admission.node),
        ledger: simulation.ledger,
    })
}

/// The ledger of a journal under the rules of a node.
fn from_journal(node: &SimulatedNode, ledger: &Ledger) -> Result<Ledger, Failure> {
    let restored = Ledger::from_journal(node.rules.clone(), ledger.state().clone());
    restored.map_err(|finding| {
        Failure::BadInput(format!(
            "the running pods cannot stay under these rules: {finding}"
        ))
    })
}

/// The ledger of a node whose kubelet wrote these state files.
fn from_state(node: &SimulatedNode, dir: &Path) -> Result<Ledger, Failure> {
    let misfit = |error: &dyn std::fmt::Display| {
        Failure::BadInput(format!(
            "{}: the state does not fit this machine and configuration: {error}\n  \
             give the --machine and --config of the node it was copied from",
            dir.display()
        ))
    };
    let (files, _) = state_files(node, dir)?;
    let empty = node.ledger();
    let mut pool = DevicePool::new(node.machine().node_ids());
    for (resource, offer) in files.offers().into_iter().chain(node.offers.clone()) {
        pool.set_devices(resource, offer);
    }
    let pods: Vec<Arc<Pod>> = files
        .unlisted_pods(&BTreeSet::new())
        .into_iter()
        .map(Arc::new)
        .collect();
    let saved = files.to_saved_state(empty.state());
    let rules = node.rules.clone();
    if node.decider.is_kubelet() {
        // The kubelet runs: it does not admit its pods again, as it would at a restart.
        let ledger = Ledger::from_kubelet_state(rules, saved, pool, &pods);
        return match ledger.audit().into_iter().next() {
            Some(finding) => Err(misfit(&finding)),
            None => Ok(ledger),
        };
    }
    let restored = Ledger::restart_from(rules, saved, pool, &pods, &mut NoPreference);
    restored
        .map(|(ledger, _)| ledger)
        .map_err(|error| misfit(&error))
}

fn state_files(node: &SimulatedNode, dir: &Path) -> Result<(StateFiles, StateFormats), Failure> {
    let settings = node.rules.settings();
    // The kubelet rejects the state of another policy; Pinfold's agent takes it over.
    let strict = settings.fidelity.is_exact();
    let pod_level = match settings.pod_level_resources {
        true => PodLevel::Managed,
        false => PodLevel::Ignored,
    };
    let (mut files, mut formats) = (StateFiles::default(), StateFormats::default());
    if let Some(source) = state_file(dir, KubeletManager::Cpu)? {
        let how = CpuRestore {
            file: &source.name,
            policy: strict.then_some(settings.cpu_policy.name()),
            pod_level,
            running: &BTreeMap::new(),
            fidelity: settings.fidelity,
        };
        let state = CpuManagerState::restore(&source.bytes, &how);
        let (state, format) = state.map_err(|error| rejected(&error, &source.bytes))?;
        (files.cpus, formats.cpu) = (Some(state), Some(format));
    }
    if let Some(source) = state_file(dir, KubeletManager::Memory)? {
        let how = MemoryRestore {
            file: &source.name,
            policy: strict.then_some(settings.memory_policy.name()),
            pod_level,
            fidelity: settings.fidelity,
        };
        let state = MemoryManagerState::restore(&source.bytes, &how);
        let (state, format) = state.map_err(|error| rejected(&error, &source.bytes))?;
        (files.memory, formats.memory) = (Some(state), Some(format));
    }
    if let Some(source) = state_file(dir, KubeletManager::Device)? {
        let state = DeviceManagerState::restore(&source.bytes, &source.name);
        files.devices = Some(state.map_err(|error| rejected(&error, &source.bytes))?);
    }
    if files.cpus.is_none() && files.memory.is_none() && files.devices.is_none() {
        return Err(Failure::BadInput(format!(
            "{}: expected cpu_manager_state, memory_manager_state or \
             device-plugins/kubelet_internal_checkpoint, found none of them",
            dir.display()
        )));
    }
    Ok((files, formats))
}

/// A manager's state file, in the directory itself or in `device-plugins`; `None` if it is in neither.
fn state_file(dir: &Path, manager: KubeletManager) -> Result<Option<Source>, Failure> {
    let name = manager.file_name();
    let places = [dir.join(name), dir.join("device-plugins").join(name)];
    match places.iter().find(|path| path.exists()) {
        Some(path) => Source::open(path).map(Some),
        None => Ok(None),
    }
}

/// Why a state file cannot be used here, and what a kubelet would log about it.
fn rejected(error: &RestoreError, bytes: &[u8]) -> Failure {
    let problem = match error.fault.as_ref() {
        Fault::Policy {
            configured, found, ..
        } => format!(
            "written under the policy {found}, but the configuration says {configured}; give the --config of its node"
        ),
        Fault::Corrupt { .. } | Fault::Format3(_) | Fault::Format4(_) | Fault::Json(_) if has_checksum(bytes) => {
            "the checksum does not match the content: the file was changed, or only part of it copied; copy it again"
                .to_owned()
        }
        Fault::Json(_) => "not a state file of a kubelet".to_owned(),
        fault => return Failure::BadInput(format!("{}\n  {fault}", error.file)),
    };
    Failure::BadInput(format!(
        "{}: {problem}\n  the kubelet says: {error}",
        error.file
    ))
}

/// Whether the text is JSON with a checksum, as all state files of a kubelet are.
fn has_checksum(bytes: &[u8]) -> bool {
    let json: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
    json.is_ok_and(|json| json.get("checksum").is_some() || json.get("Checksum").is_some())
}
