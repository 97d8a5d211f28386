//! Decides whether a pod fits a node whose topology manager policy is `single-numa-node`.
//!
//! Mirrors the plugin's `Filter`: every container (or the pod as a whole) must fit into one NUMA zone by the available
//! amounts of the zone, and the amounts of a container are not available to the next one. Other policies are not
//! filtered. A resource must be in the node's allocatable; if no zone reports it, it is ignored if it need not belong
//! to a zone and rejected otherwise. For pods that are not Guaranteed, every zone that reports CPU, memory or hugepages
//! has enough of them.

use super::NodeTopology;
use super::numa_zones::{NumaZones, Overdrawn};
use super::pod_demand::TopologyPodRequest;
use super::resource_kinds::{is_host_level, is_numa_affine, is_on_node};
use super::topology_manager::TopologyManagerConfig;
use crate::node_topology::TopologyMatchDefects;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{ContainerName, ResourceName};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::{Container, ResourceList};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::qos::QosClass;
use pinfold_core::settings::TopologyScope;

/// Why a pod does not fit. The messages are those of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyRejection {
    /// No NUMA zone has enough for something that must be in one.
    #[error("cannot align {what}")]
    CannotAlign {
        /// The pod or container that must be in one zone.
        what: AlignedUnit,
        /// The first resource, in the order of names, after which no zone fits.
        resource: ResourceName,
    },
    /// Two zones have the same NUMA id and contradict each other.
    #[error("inconsistent resource accounting")]
    Inconsistent(#[source] Box<Overdrawn>),
}

impl TopologyRejection {
    /// The container and the resource, which the message of the plugin leaves out.
    #[must_use]
    pub fn cause(&self) -> String {
        match self {
            TopologyRejection::CannotAlign { what, resource } => {
                let container = what.container();
                let container = container.map(|name| format!("{name}: "));
                format!(
                    "{}no NUMA zone has enough {resource}",
                    container.unwrap_or_default()
                )
            }
            TopologyRejection::Inconsistent(overdrawn) => overdrawn.to_string(),
        }
    }
}

/// The pod or container that must be in one NUMA zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlignedUnit {
    /// The pod.
    Pod,
    /// One of its app containers.
    Container(ContainerName),
    /// One of its init containers that terminates.
    InitContainer(ContainerName),
    /// One of its restartable init containers.
    Sidecar(ContainerName),
}

impl AlignedUnit {
    /// The container's name; `None` for the pod as a whole.
    fn container(&self) -> Option<&ContainerName> {
        match self {
            AlignedUnit::Pod => None,
            AlignedUnit::Container(name)
            | AlignedUnit::InitContainer(name)
            | AlignedUnit::Sidecar(name) => Some(name),
        }
    }
}

impl std::fmt::Display for AlignedUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AlignedUnit::Pod => "pod",
            AlignedUnit::Container(_) => "container",
            AlignedUnit::InitContainer(_) => "init container",
            AlignedUnit::Sidecar(_) => "sidecar container",
        })
    }
}

/// Checks whether the pod fits the node. `topology` is `None` if the node has no such object; `allocatable` is the
/// node's `status.allocatable`.
///
/// # Errors
/// If the pod does not fit. The plugin then marks its cached state of the node as possibly stale.
pub(crate) fn filter(
    topology: Option<&NodeTopology>,
    allocatable: &ResourceList,
    request: &TopologyPodRequest<'_>,
    fidelity: Fidelity,
) -> Result<(), TopologyRejection> {
    let qos = request.qos();
    if qos == QosClass::BestEffort && !request.names_a_device() {
        return Ok(());
    }
    let Some(topology) = topology else {
        return Ok(());
    };
    let manager = TopologyManagerConfig::of(topology);
    if manager.policy != TopologyPolicy::SingleNumaNode {
        return Ok(());
    }
    let mut state = FilterState {
        zones: NumaZones::of(&topology.zones),
        allocatable,
        qos,
    };
    match manager.scope {
        TopologyScope::Pod => {
            let whole = request.effective(fidelity);
            state
                .find(&whole)
                .map_err(cannot_align(AlignedUnit::Pod))
                .map(|_| ())
        }
        TopologyScope::Container => state.containers(request, fidelity),
    }
}

fn cannot_align(what: AlignedUnit) -> impl FnOnce(ResourceName) -> TopologyRejection {
    |resource| TopologyRejection::CannotAlign { what, resource }
}

/// The amounts of a node that are available to one pod.
struct FilterState<'a> {
    zones: NumaZones,
    allocatable: &'a ResourceList,
    qos: QosClass,
}

impl FilterState<'_> {
    /// Checks the containers in order. Init containers release their amounts when they terminate; sidecars keep theirs.
    fn containers(
        &mut self,
        request: &TopologyPodRequest<'_>,
        fidelity: Fidelity,
    ) -> Result<(), TopologyRejection> {
        for container in &request.pod.init_containers {
            let name = container.name.clone();
            let what = match container.restartable {
                true => AlignedUnit::Sidecar(name),
                false => AlignedUnit::InitContainer(name),
            };
            let zone = self.find(&container.requests).map_err(cannot_align(what))?;
            if container.restartable && !fidelity.treats_sidecars_as_init_containers() {
                self.take(zone, container)?;
            }
        }
        for container in &request.pod.containers {
            let what = AlignedUnit::Container(container.name.clone());
            let zone = self.find(&container.requests).map_err(cannot_align(what))?;
            self.take(zone, container)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        zone: Option<NodeId>,
        container: &Container,
    ) -> Result<(), TopologyRejection> {
        let Some(zone) = zone else {
            return Ok(());
        };
        self.zones
            .subtract(zone, &container.requests, self.qos)
            .map_err(TopologyRejection::Inconsistent)
    }

    /// The lowest NUMA node with enough of all `resources`: the one the kubelet would choose. Fails with the resource
    /// after which no NUMA node fits. Mirrors `resourcesAvailableInAnyNUMANodes`.
    fn find(&self, resources: &ResourceList) -> Result<Option<NodeId>, ResourceName> {
        let mut fitting = NodeSet::FULL;
        for (name, quantity) in resources.iter().filter(|(_, quantity)| !quantity.is_zero()) {
            if !is_on_node(name.as_str(), self.allocatable) {
                return Err(name.clone());
            }
            let any_amount = self.qos != QosClass::Guaranteed && is_numa_affine(name.as_str());
            let (mut reported, mut enough) = (false, NodeSet::EMPTY);
            for zone in self.zones.as_slice() {
                if let Some(available) = zone.available.get(name) {
                    reported = true;
                    if any_amount || available >= quantity {
                        enough.insert(zone.id);
                    }
                }
            }
            if !reported && is_host_level(name.as_str()) {
                continue;
            }
            fitting = fitting & enough;
            if fitting.is_empty() {
                return Err(name.clone());
            }
        }
        Ok(fitting.first())
    }
}

#[cfg(test)]
pub(crate) mod tests;
