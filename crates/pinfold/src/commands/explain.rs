//! `pinfold explain`: why a pod goes where it goes, or what stands in its way and what would let it in.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use pinfold_core::demand::PodLevel;
use pinfold_core::device::{DevicePool, NoPreference};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Ledger;
use pinfold_core::pod::Pod;
use pinfold_core::remedy::{self, Effort, Remedies};
use pinfold_kube::pod::PodObject;
use pinfold_kube::state::cpu::CpuRestore;
use pinfold_kube::state::memory::MemoryRestore;
use pinfold_kube::state::{
    CpuManagerState, DeviceState, Manager, MemoryManagerState, RestoreError, StateFiles,
};
use pinfold_render::explain;

use crate::args::ExplainArgs;
use crate::exit::{Failure, REFUSED};
use crate::input::{self, Source};
use crate::node::Node;
use crate::output::{self, remark};

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let node = Node::open(&args.node)?;
    let ledger = match &args.state {
        Some(dir) => restored(&node, dir)?,
        None => populated(&node, &input::pods(&args.pods)?)?,
    };
    let pod = asked(&args.pod)?;
    let found = remedy::find(&ledger, &pod, &mut NoPreference, Effort::default())
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    output::print_as(args.output, &found, || text(&found))?;
    Ok(match found.decision.is_admitted() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REFUSED),
    })
}

/// The answer for people.
pub(crate) fn text(found: &Remedies) -> String {
    match found.decision.is_admitted() {
        true => explain::admission(&found.decision),
        false => explain::refusal(&found.decision, Some(found)),
    }
}

/// The pod in question.
fn asked(path: &Path) -> Result<Arc<Pod>, Failure> {
    let mut pods = input::pods(&[path])?.into_iter();
    let Some(first) = pods.next() else {
        return Err(Failure::BadInput(format!(
            "{}: expected a pod, or something that makes pods; found none",
            path.display()
        )));
    };
    if pods.len() > 0 {
        remark(&format!(
            "explaining {}, the first pod of the file",
            first.pod.name
        ));
    }
    Ok(Arc::new(first.pod))
}

/// The node with these pods on it, in order.
fn populated(node: &Node, running: &[PodObject]) -> Result<Ledger, Failure> {
    let mut ledger = node.ledger();
    for object in running {
        let pod = Arc::new(object.pod.clone());
        let admission = ledger
            .admit(&pod, &mut NoPreference)
            .map_err(|error| Failure::BadInput(error.to_string()))?;
        if !admission.decision.is_admitted() {
            let told = explain::one_line(&admission.decision);
            remark(&format!("warning: {} does not run: {told}", pod.name));
        }
    }
    Ok(ledger)
}

/// The node as a kubelet's state files describe it.
fn restored(node: &Node, dir: &Path) -> Result<Ledger, Failure> {
    let files = state_files(node, dir)?;
    let empty = node.ledger();
    let mut pool = DevicePool::new(node.machine().node_ids());
    for (resource, offer) in files.offers().into_iter().chain(node.offers.clone()) {
        pool.report(resource, offer);
    }
    let pods: Vec<Arc<Pod>> = files
        .strangers(&BTreeSet::new())
        .into_iter()
        .map(Arc::new)
        .collect();
    let saved = files.saved(empty.state());
    let restored = Ledger::restore(node.rules.clone(), saved, pool, &pods, &mut NoPreference);
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
    if let Some(source) = state_file(dir, Manager::Cpu)? {
        let how = CpuRestore {
            file: &source.name,
            policy: strict.then_some(settings.cpu_policy.as_str()),
            pod_level,
            running: &std::collections::BTreeMap::new(),
        };
        let state = CpuManagerState::restore(&source.bytes, &how);
        files.cpus = Some(state.map_err(|error| refused(&error))?.0);
    }
    if let Some(source) = state_file(dir, Manager::Memory)? {
        let how = MemoryRestore {
            file: &source.name,
            policy: strict.then_some(settings.memory_policy.as_str()),
            pod_level,
        };
        let state = MemoryManagerState::restore(&source.bytes, &how);
        files.memory = Some(state.map_err(|error| refused(&error))?.0);
    }
    if let Some(source) = state_file(dir, Manager::Device)? {
        let state = DeviceState::restore(&source.bytes, &source.name);
        files.devices = Some(state.map_err(|error| refused(&error))?);
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
fn state_file(dir: &Path, manager: Manager) -> Result<Option<Source>, Failure> {
    let name = manager.file_name();
    let places = [dir.join(name), dir.join("device-plugins").join(name)];
    match places.iter().find(|path| path.exists()) {
        Some(path) => Source::open(path).map(Some),
        None => Ok(None),
    }
}

fn refused(error: &RestoreError) -> Failure {
    Failure::BadInput(format!("{}\n  {error}", error.file))
}
