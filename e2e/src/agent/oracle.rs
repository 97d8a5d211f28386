//! What should be: the same machine, rules and pods, decided about in this process.

use std::path::Path;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::Machine;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::Pod;
use pinfold_kube::kubelet_config::KubeletSettings;

/// This machine, as it is now.
pub(crate) fn machine() -> Result<(Arc<Machine>, u64), String> {
    look(Path::new("/"))
}

/// The machine that the kernel's files below `root` describe, and its memory.
pub(crate) fn look(root: &Path) -> Result<(Arc<Machine>, u64), String> {
    let hardware = pinfold_hardware::from_sysfs(root).map_err(|e| e.to_string())?;
    let (machine, _) = hardware.machine_within_reach().map_err(|e| e.to_string())?;
    Ok((Arc::new(machine), hardware.memory))
}

/// A ledger of its own.
pub(crate) struct Oracle {
    ledger: Ledger,
}

impl Oracle {
    /// Of an empty node under a KubeletConfiguration.
    pub(crate) fn new(rules: &str) -> Result<Self, String> {
        Self::on(Path::new("/"), rules)
    }

    /// The same on another machine, by the kernel's files below `root`.
    pub(crate) fn on(root: &Path, rules: &str) -> Result<Self, String> {
        let (machine, memory) = look(root)?;
        let read = KubeletSettings::read("the rules", rules.as_bytes(), Fidelity::Sound);
        let read = read.map_err(|findings| findings.to_string())?;
        let settings = read.value.settings(memory, Fidelity::Sound);
        let rules = Rules::new(machine, settings).map_err(|error| error.to_string())?;
        let ledger = Ledger::new(Arc::new(rules));
        Ok(Self { ledger })
    }

    /// Whether a pod is let in.
    pub(crate) fn admit(&mut self, pod: &Pod) -> Result<bool, String> {
        let pod = Arc::new(pod.clone());
        let admission = self.ledger.admit(&pod, &mut NoPreference);
        let admission = admission.map_err(|error| error.to_string())?;
        Ok(admission.decision.is_admitted())
    }

    /// A container of it starts.
    pub(crate) fn start(&mut self, pod: &PodUid, name: &ContainerName) -> Result<(), String> {
        let started = self.ledger.start(pod, name);
        started.map(drop).map_err(|error| error.to_string())
    }

    /// A pod leaves, if it is here.
    pub(crate) fn release(&mut self, pod: &PodUid) -> Result<(), String> {
        if !self.ledger.state().admitted_pods().contains_key(pod) {
            return Ok(());
        }
        let released = self.ledger.release(pod);
        released.map(drop).map_err(|error| error.to_string())
    }

    /// The CPUs that a container may use, whether they are its own, and the NUMA nodes of its memory.
    pub(crate) fn expected(&self, pod: &PodUid, name: &ContainerName) -> (CpuSet, bool, NodeSet) {
        let state = self.ledger.state();
        let blocks = state.memory().blocks(pod, name).into_iter().flatten();
        let mems = blocks.fold(NodeSet::EMPTY, |nodes, block| nodes | block.nodes);
        let mems = if mems.is_empty() { self.memory() } else { mems };
        match state.cpus().container(pod, name) {
            Some(own) => (own.clone(), true, mems),
            None => (state.cpus().shared().clone(), false, mems),
        }
    }

    /// The ledger, to look at.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn memory(&self) -> NodeSet {
        let nodes = self.ledger.rules().machine().nodes().iter();
        let with_memory = nodes.filter(|node| node.memory > 0);
        with_memory.map(|node| node.id).collect()
    }
}
