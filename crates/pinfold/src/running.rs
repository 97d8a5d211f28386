//! What runs on a node already: pods that came one after the other, or what a kubelet's state files know.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pinfold_core::demand::PodLevel;
use pinfold_core::device::{DevicePool, NoPreference};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Ledger;
use pinfold_core::pod::Pod;
use pinfold_kube::state::cpu::CpuRestore;
use pinfold_kube::state::memory::MemoryRestore;
use pinfold_kube::state::{
    CpuManagerState, DeviceManagerState, KubeletManager, MemoryManagerState, RestoreError,
    StateFiles,
};

use crate::args::RunningArgs;
use crate::exit::Failure;
use crate::input::{self, Source};
use crate::node::Node;
use crate::output::remark;
use crate::script;
use crate::simulation::Play;

/// The node with what runs on it.
pub(crate) fn ledger(node: &Node, args: &RunningArgs) -> Result<Ledger, Failure> {
    match &args.state {
        Some(dir) => restored(node, dir),
        None => populated(node, args),
    }
}

/// The node after its pods came, in order or as the script says.
fn populated(node: &Node, args: &RunningArgs) -> Result<Ledger, Failure> {
    let objects = input::pods(&args.pods)?;
    let steps = script::steps(args.script.as_ref(), &objects)?;
    let pods: Vec<Arc<Pod>> = objects
        .into_iter()
        .map(|object| Arc::new(object.pod))
        .collect();
    let play = Play::new(&pods, &steps);
    let simulation = play.on(node)?;
    for event in simulation.events {
        if let (Some(pod), Some(_)) = (event.pod, event.rejection) {
            remark(&format!("warning: {pod} does not run: {}", event.told));
        }
    }
    Ok(simulation.ledger)
}

/// The node as a kubelet's state files describe it.
fn restored(node: &Node, dir: &Path) -> Result<Ledger, Failure> {
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
    let restored = Ledger::restart_from(node.rules.clone(), saved, pool, &pods, &mut NoPreference);
    let (ledger, _) = restored.map_err(|error| {
        Failure::BadInput(format!(
            "{}: the state does not fit this machine and configuration: {error}\n  \
             give the --machine and --config of the node it was copied from",
            dir.display()
        ))
    })?;
    Ok(ledger)
}

fn state_files(node: &Node, dir: &Path) -> Result<StateFiles, Failure> {
    let settings = node.rules.settings();
    // A ledger of ours starts from what is there; a faithful copy of the kubelet insists on its policy.
    let strict = settings.fidelity == Fidelity::Exact;
    let pod_level = match settings.pod_level_resources {
        true => PodLevel::Managed,
        false => PodLevel::Ignored,
    };
    let mut files = StateFiles::default();
    if let Some(source) = state_file(dir, KubeletManager::Cpu)? {
        let how = CpuRestore {
            file: &source.name,
            policy: strict.then_some(settings.cpu_policy.as_str()),
            pod_level,
            running: &std::collections::BTreeMap::new(),
        };
        let state = CpuManagerState::restore(&source.bytes, &how);
        files.cpus = Some(state.map_err(|error| rejected(&error))?.0);
    }
    if let Some(source) = state_file(dir, KubeletManager::Memory)? {
        let how = MemoryRestore {
            file: &source.name,
            policy: strict.then_some(settings.memory_policy.as_str()),
            pod_level,
        };
        let state = MemoryManagerState::restore(&source.bytes, &how);
        files.memory = Some(state.map_err(|error| rejected(&error))?.0);
    }
    if let Some(source) = state_file(dir, KubeletManager::Device)? {
        let state = DeviceManagerState::restore(&source.bytes, &source.name);
        files.devices = Some(state.map_err(|error| rejected(&error))?);
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

/// The file of a manager, in the kubelet's place for it or beside the others; `None` if it is not there.
fn state_file(dir: &Path, manager: KubeletManager) -> Result<Option<Source>, Failure> {
    let name = manager.file_name();
    let places = [dir.join(name), dir.join("device-plugins").join(name)];
    match places.iter().find(|path| path.exists()) {
        Some(path) => Source::open(path).map(Some),
        None => Ok(None),
    }
}

fn rejected(error: &RestoreError) -> Failure {
    Failure::BadInput(format!("{}\n  {error}", error.file))
}
