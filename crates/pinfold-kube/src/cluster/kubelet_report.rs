//! [`KubeletReport`]: the parsed report of a node whose kubelet decides, from which the kubelet can be rebuilt
//! repeatedly.

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::node_topology::NodeTopology;
use pinfold_cluster::node_topology::attributes::MEMORY_GROUP;
use pinfold_cluster::node_topology::replica::{KnownCpus, Replica, ReplicaError, RulesCache};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::{Fidelity, KubeletVersion};
use pinfold_core::name::PodUid;

use super::{device_totals, known_cpus};
use crate::diagnostic::{Diagnostics, WithWarnings};
use crate::koordinator::ReportAnnotations;
use crate::node_resource_topology::NodeResourceTopology;
use crate::node_state::PublishedNodeState;

/// The parsed NodeResourceTopology of a node whose kubelet decides.
#[derive(Clone, Debug)]
pub struct KubeletReport {
    topology: NodeTopology,
    cpus: Option<KnownCpus>,
    state: Option<PublishedNodeState>,
}

impl KubeletReport {
    /// Parses a report.
    ///
    /// # Errors
    /// With every annotation that cannot be parsed.
    pub fn read(topology: &NodeResourceTopology) -> Result<WithWarnings<Self>, Diagnostics> {
        let WithWarnings {
            value: state,
            mut warnings,
        } = PublishedNodeState::read(topology)?;
        let facts = ReportAnnotations::read(topology, Fidelity::Sound)?;
        warnings.extend(facts.warnings);
        let value = Self {
            topology: topology.to_core(),
            cpus: known_cpus(&facts.value),
            state,
        };
        Ok(WithWarnings { value, warnings })
    }

    /// The counts per NUMA node.
    #[must_use]
    pub fn topology(&self) -> &NodeTopology {
        &self.topology
    }

    /// The resources of each pod, if the report has the annotation.
    #[must_use]
    pub fn state(&self) -> Option<&PublishedNodeState> {
        self.state.as_ref()
    }

    /// Whether the report lists the CPUs one by one.
    #[must_use]
    pub fn lists_cpus(&self) -> bool {
        self.cpus.is_some()
    }

    /// Whether the report lists this pod; `None` if it does not list pods.
    #[must_use]
    pub fn lists(&self, pod: &PodUid) -> Option<bool> {
        let state = self.state.as_ref()?;
        Some(state.pods.iter().any(|listed| listed.uid == *pod))
    }

    /// Rebuilds the kubelet, without pods that are gone. `allocatable` is what the node offers, `used` what the pods
    /// of the report request together. `version` decides unless the report says that Pinfold's agent does. Kubelets of
    /// one kind share their rules on `shelf`.
    ///
    /// # Errors
    /// If it describes no machine or no kubelet.
    pub fn replica(
        &self,
        allocatable: &Amounts,
        used: &Amounts,
        is_gone: impl Fn(&PodUid) -> bool,
        version: KubeletVersion,
        shelf: &mut RulesCache,
    ) -> Result<Replica, ReplicaError> {
        let totals = device_totals(allocatable, used);
        let kubelet = Fidelity::of_kubelet(version);
        let Some(state) = &self.state else {
            let cpus = self.cpus.as_ref();
            return Replica::of(&self.topology, &totals, cpus, kubelet, shelf);
        };
        let mut topology = self.topology.clone();
        let held = state.without(&mut topology, is_gone);
        let cpus = self.cpus.as_ref().map(|known| KnownCpus {
            held,
            ..known.clone()
        });
        let fidelity = match state.fidelity.is_exact() {
            true => kubelet,
            false => state.fidelity,
        };
        Replica::of(&topology, &totals, cpus.as_ref(), fidelity, shelf)
    }

    /// Rebuilds the kubelet of the same node without any pods. `allocatable` is what the node offers.
    ///
    /// # Errors
    /// If it describes no machine or no kubelet.
    pub fn empty_replica(
        &self,
        allocatable: &Amounts,
        fidelity: Fidelity,
        shelf: &mut RulesCache,
    ) -> Result<Replica, ReplicaError> {
        let totals = device_totals(allocatable, &Amounts::new());
        let mut topology = self.topology.clone();
        for zone in &mut topology.zones {
            for resource in &mut zone.resources {
                resource.available = resource.allocatable;
            }
            zone.attributes
                .retain(|attribute| attribute.name != MEMORY_GROUP);
        }
        let cpus = self.cpus.as_ref().map(|known| KnownCpus {
            held: CpuSet::new(),
            ..known.clone()
        });
        Replica::of(&topology, &totals, cpus.as_ref(), fidelity, shelf)
    }
}
