//! [`KubeletReport`]: what a kubelet's node reports, for those who rebuild the node again and again.

use pinfold_core::fidelity::Fidelity;
use pinfold_core::koordinator::amounts::Amounts;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::PodUid;
use pinfold_core::node_topology::attributes::MEMORY_GROUP;
use pinfold_core::node_topology::numa::numa_id;
use pinfold_core::node_topology::replica::{KnownCpus, Replica, Shelf, Unreadable};
use pinfold_core::node_topology::{NodeTopology, Zone};

use super::{device_totals, known_cpus};
use crate::finding::{Findings, Read};
use crate::koordinator::NodeFacts;
use crate::node_resource_topology::NodeResourceTopology;
use crate::node_state::NodeState;

/// What is kept of a NodeResourceTopology whose node's kubelet decides.
#[derive(Clone, Debug)]
pub struct KubeletReport {
    topology: NodeTopology,
    cpus: Option<KnownCpus>,
    state: Option<NodeState>,
}

impl KubeletReport {
    /// Reads a report.
    ///
    /// # Errors
    /// With every annotation that cannot be understood.
    pub fn read(topology: &NodeResourceTopology) -> Result<Read<Self>, Findings> {
        let Read {
            value: state,
            mut warnings,
        } = NodeState::read(topology)?;
        let facts = NodeFacts::read(topology, Fidelity::Sound)?;
        warnings.extend(facts.warnings);
        let value = Self {
            topology: topology.to_core(),
            cpus: known_cpus(&facts.value),
            state,
        };
        Ok(Read { value, warnings })
    }

    /// The counts.
    #[must_use]
    pub fn topology(&self) -> &NodeTopology {
        &self.topology
    }

    /// Who holds what, if the report says so.
    #[must_use]
    pub fn state(&self) -> Option<&NodeState> {
        self.state.as_ref()
    }

    /// Whether it lists the CPUs one by one.
    #[must_use]
    pub fn lists_cpus(&self) -> bool {
        self.cpus.is_some()
    }

    /// Whether it speaks of this pod; `None` if it does not speak of pods.
    #[must_use]
    pub fn lists(&self, pod: &PodUid) -> Option<bool> {
        let state = self.state.as_ref()?;
        Some(state.pods.iter().any(|listed| listed.uid == *pod))
    }

    /// Rebuilds the kubelet, without pods that are gone. `allocatable` is what the node offers, `used` what the pods
    /// of the report request together. Kubelets of one kind share their rules on `shelf`.
    ///
    /// # Errors
    /// If it describes no machine or no kubelet.
    pub fn replica(
        &self,
        allocatable: &Amounts,
        used: &Amounts,
        is_gone: impl Fn(&PodUid) -> bool,
        shelf: &mut Shelf,
    ) -> Result<Replica, Unreadable> {
        let totals = device_totals(allocatable, used);
        let Some(state) = &self.state else {
            let cpus = self.cpus.as_ref();
            return Replica::of_kind(&self.topology, &totals, cpus, Fidelity::Exact, shelf);
        };
        let mut topology = self.topology.clone();
        let held = state.without(&mut topology, is_gone);
        let cpus = self.cpus.as_ref().map(|known| KnownCpus {
            held,
            ..known.clone()
        });
        Replica::of_kind(&topology, &totals, cpus.as_ref(), state.fidelity, shelf)
    }

    /// What the node will report when it has let in the pods of `ledger`, which is its rebuilt kubelet with them, and
    /// without pods that are gone. `None` if the report does not speak of pods.
    #[must_use]
    pub fn caught_up(&self, ledger: &Ledger, is_gone: impl Fn(&PodUid) -> bool) -> Option<Self> {
        let mut state = self.state.clone()?;
        state.pods.retain(|pod| !is_gone(&pod.uid));
        state.pods.extend(NodeState::of(ledger, state.dialect).pods);
        let mut topology = self.topology.clone();
        let now = NodeTopology::of(ledger);
        for zone in &mut topology.zones {
            let same = |now: &&Zone| numa_id(&now.name) == numa_id(&zone.name);
            let Some(now) = now.zones.iter().find(same) else {
                continue;
            };
            for row in &mut zone.resources {
                if let Some(now) = now.resources.iter().find(|now| now.name == row.name) {
                    row.available = now.available;
                }
            }
            let group = now.attributes.iter().find(|now| now.name == MEMORY_GROUP);
            for own in &mut zone.attributes {
                if let Some(group) = group.filter(|group| group.name == own.name) {
                    own.value.clone_from(&group.value);
                }
            }
        }
        Some(Self {
            topology,
            cpus: self.cpus.clone(),
            state: Some(state),
        })
    }
}
