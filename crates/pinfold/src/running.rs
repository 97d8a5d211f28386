//! [`RunningPods`]: the pods that run on a node already, admitted one after the other or read from a kubelet's state files.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pinfold_core::demand::PodLevel;
use pinfold_core::device::{DevicePool, NoPreference};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Ledger;
use pinfold_core::pod::Pod;
use pinfold_kube::admission::{AdmissionNode, AdmissionRequest};
use pinfold_kube::state::cpu::CpuRestore;
use pinfold_kube::state::memory::MemoryRestore;
use pinfold_kube::state::{
    CpuManagerState, DeviceManagerState, Fault, KubeletManager, MemoryManagerState, RestoreError,
    StateFiles,
};

use crate::admission::NodeAdmission;
use crate::args::RunningArgs;
use crate::exit::Failure;
use crate::input::{self, Source};
use crate::node::SimulatedNode;
use crate::script;
use crate::simulation::{Simulation, SimulationPlan, SimulationStep};

/// The running pods that the arguments name, read once: they can be admitted on several nodes.
pub(crate) enum RunningPods<'a> {
    /// The kubelet's root directory with its state files.
    State(&'a Path),
    /// Pods that were admitted one after the other, with these steps.
    Pods {
        /// The pods.
        pods: Vec<Arc<Pod>>,
        /// What happened to them.
        steps: Vec<SimulationStep>,
        /// The same pods as admission around the managers reads them.
        requests: Arc<[AdmissionRequest]>,
    },
}

impl<'a> RunningPods<'a> {
    /// Reads the pods and the script.
    pub(crate) fn read(args: &'a RunningArgs) -> Result<Self, Failure> {
        if let Some(dir) = &args.state {
            return Ok(Self::State(dir));
        }
        let objects = input::pods(&args.pods)?;
        let mut steps = script::steps(args.script.as_ref(), &objects)?;
        let has_ended = |index: usize| {
            let object = objects.get(index);
            object.is_some_and(|object| object.constraints.finished)
        };
        steps.retain(|step| !matches!(step, SimulationStep::Add(index) if has_ended(*index)));
        let requests = objects.iter().map(AdmissionRequest::of).collect();
        let pods = objects.into_iter().map(|object| Arc::new(object.pod));
        Ok(Self::Pods {
            pods: pods.collect(),
            steps,
            requests,
        })
    }

    /// The ledger of a node with these pods. `warn` gets a warning for each pod that the node rejects.
    pub(crate) fn ledger(
        &self,
        node: &SimulatedNode,
        warn: impl Fn(&str),
    ) -> Result<Ledger, Failure> {
        let (pods, steps) = match self {
            Self::State(dir) => return from_state(node, dir),
            Self::Pods { pods, steps, .. } => (pods, steps),
        };
        let simulation = SimulationPlan::new(pods, steps).run_on(node)?;
        warn_rejected(&simulation, warn);
        Ok(simulation.ledger)
    }

    /// The ledger of a node with these pods, and the sums of their requests. kube-scheduler is asked about each pod
    /// unless `bound`. `warn` gets a warning for each pod that does not run.
    pub(crate) fn admitted(
        &self,
        node: &SimulatedNode,
        bound: bool,
        warn: impl Fn(&str),
    ) -> Result<(Ledger, AdmissionNode), Failure> {
        let (pods, steps, requests) = match self {
            Self::State(dir) => {
                let ledger = from_state(node, dir)?;
                let mut sums = AdmissionNode::new(None, node.allocatable.clone());
                for resident in ledger.admitted_pods() {
                    let request = AdmissionRequest::of_resources(&resident.pod);
                    sums.add(&resident.pod.uid, &request);
                }
                return Ok((ledger, sums));
            }
            Self::Pods {
                pods,
                steps,
                requests,
            } => (pods, steps, requests),
        };
        let plan = SimulationPlan {
            admission: Some(NodeAdmission::new(node, requests.clone(), bound)),
            ..SimulationPlan::new(pods, steps)
        };
        let simulation = plan.run_on(node)?;
        warn_rejected(&simulation, warn);
        let empty = || AdmissionNode::new(None, node.allocatable.clone());
        let sums = simulation
            .admission
            .map_or_else(empty, |admission| admission.node);
        Ok((simulation.ledger, sums))
    }
}

fn warn_rejected(simulation: &Simulation, warn: impl Fn(&str)) {
    for event in &simulation.events {
        if let (Some(pod), Some(_)) = (&event.pod, &event.rejection) {
            warn(&format!("warning: {pod} does not run: {}", event.message));
        }
    }
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
    let files = state_files(node, dir)?;
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

fn state_files(node: &SimulatedNode, dir: &Path) -> Result<StateFiles, Failure> {
    let settings = node.rules.settings();
    // The kubelet rejects the state of another policy; Pinfold's agent takes it over.
    let strict = settings.fidelity == Fidelity::Exact;
    let pod_level = match settings.pod_level_resources {
        true => PodLevel::Managed,
        false => PodLevel::Ignored,
    };
    let mut files = StateFiles::default();
    if let Some(source) = state_file(dir, KubeletManager::Cpu)? {
        let how = CpuRestore {
            file: &source.name,
            policy: strict.then_some(settings.cpu_policy.name()),
            pod_level,
            running: &std::collections::BTreeMap::new(),
        };
        let state = CpuManagerState::restore(&source.bytes, &how);
        files.cpus = Some(state.map_err(|error| rejected(&error, &source.bytes))?.0);
    }
    if let Some(source) = state_file(dir, KubeletManager::Memory)? {
        let how = MemoryRestore {
            file: &source.name,
            policy: strict.then_some(settings.memory_policy.name()),
            pod_level,
        };
        let state = MemoryManagerState::restore(&source.bytes, &how);
        files.memory = Some(state.map_err(|error| rejected(&error, &source.bytes))?.0);
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
    Ok(files)
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
        Fault::Corrupt { .. } | Fault::Format4(_) | Fault::Json(_) if has_checksum(bytes) => {
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
