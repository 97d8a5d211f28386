//! The hints of the static policy: the sets of NUMA nodes that fit a request.
//!
//! A set of nodes fits if it contains every CPU that the pod may reuse, and these together with the free CPUs on it are
//! enough. It is preferred if it is as small as on an empty machine; with `align-by-socket` also if it touches as few
//! sockets as that. Mirrors `GetTopologyHints`, `GetPodTopologyHints` and `generateCPUTopologyHints`.

use smallvec::smallvec;

use super::pod_level::check_pod_budget;
use super::state::CpuState;
use super::static_policy::{PodCpus, StaticCpus, Supply};
use crate::cpu_set::CpuSet;
use crate::demand::PodDemand;
use crate::hint::{
    Component, Family, Preference, ProviderHints, ResourceHints, SocketRule, Threshold,
};
use crate::node_set::{NodeId, NodeSet};
use crate::pod::Container;

impl StaticCpus {
    /// The hints of one container.
    #[must_use]
    pub fn container_hints(
        &self,
        state: &CpuState,
        own: &PodCpus,
        demand: &PodDemand<'_>,
        container: &Container,
    ) -> ProviderHints {
        let requested = demand.container_cpus(container);
        if requested == 0 || demand.is_ignored() {
            return ProviderHints::none();
        }
        self.row(match state.container(&demand.pod().uid, &container.name) {
            Some(held) if held.len() != requested => ResourceHints::Unsatisfiable,
            Some(held) => self.hints(&holding(held), requested),
            None => self.hints(&self.supply(state, own), requested),
        })
    }

    /// The hints of the pod as a whole.
    #[must_use]
    pub fn pod_hints(
        &self,
        state: &CpuState,
        own: &PodCpus,
        demand: &PodDemand<'_>,
    ) -> ProviderHints {
        let requested = demand.pod_cpus();
        if requested == 0 || demand.is_ignored() {
            return ProviderHints::none();
        }
        if demand.is_managed_as_whole() {
            if check_pod_budget(demand).is_err() {
                return self.row(ResourceHints::Unsatisfiable);
            }
            if let Some(held) = self.pod_as_recorded(state, demand) {
                return self.row(self.hints(&holding(held), requested));
            }
        }
        let mut assigned = CpuSet::new();
        let pod = demand.pod();
        for container in pod.all_containers() {
            let Some(held) = state.container(&pod.uid, &container.name) else {
                continue;
            };
            if held.len() != demand.container_cpus(container) {
                return self.row(ResourceHints::Unsatisfiable);
            }
            assigned |= held;
        }
        if assigned.len() == requested {
            return self.row(self.hints(&holding(&assigned), requested));
        }
        let mut supply = self.supply(state, own);
        supply.reuse |= &assigned;
        self.row(self.hints(&supply, requested))
    }

    fn row(&self, hints: ResourceHints) -> ProviderHints {
        ProviderHints::one(self.resource.clone(), hints)
    }

    fn hints(&self, supply: &Supply, requested: usize) -> ResourceHints {
        let topology = &self.topology;
        let on = |cpus: &CpuSet, node: &CpuSet| cpus.common_len(node) as u64;
        let nodes = topology.nodes().iter();
        let free = nodes.map(|node| (node.id, on(&supply.free, &node.cpus)));
        let need = requested.saturating_sub(supply.reuse.len()) as u64;
        let unknown = self
            .unknown(&supply.free)
            .map(|(node, cpus)| (node, cpus as u64));
        let component = Component {
            universe: topology.node_ids(),
            forced: self.nodes_of(&supply.reuse),
            thresholds: smallvec![Threshold::new(need, free.chain(unknown))],
        };
        if component.is_empty() {
            return ResourceHints::Unsatisfiable;
        }
        ResourceHints::Family(Family {
            components: smallvec![component],
            preference: self.preference(topology.fewest_nodes(requested)),
        })
    }

    /// The NUMA nodes of some CPUs.
    fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        if cpus.is_empty() {
            return NodeSet::EMPTY;
        }
        let nodes = self.topology.nodes().iter();
        let known = nodes
            .filter(|node| !node.cpus.is_disjoint(cpus))
            .map(|node| node.id);
        known
            .chain(self.unknown(cpus).map(|(node, _)| node))
            .collect()
    }

    /// CPUs that the machine does not have, and the node on which the kubelet counts them.
    fn unknown(&self, cpus: &CpuSet) -> Option<(NodeId, usize)> {
        let unknown = cpus.len() - cpus.common_len(self.topology.all());
        let shown = unknown > 0 && self.fidelity.puts_unknown_cpus_on_node_0();
        shown.then_some((NodeId::MIN, unknown))
    }

    /// Mirrors the second pass of `generateCPUTopologyHints`, and `isHintSocketAligned`.
    fn preference(&self, width: usize) -> Preference {
        let (nodes, sockets) = (self.topology.num_nodes(), self.topology.num_sockets());
        match nodes.checked_div(sockets) {
            Some(per_socket) if self.options.align_by_socket && per_socket > 0 => {
                let rule = SocketRule {
                    sockets: width.div_ceil(per_socket),
                    nodes_of_socket: self.nodes_of_socket.clone(),
                };
                Preference::WidthOrSockets(width, rule)
            }
            _ => Preference::Width(width),
        }
    }
}

/// The supply of a container or pod that already holds its CPUs.
fn holding(cpus: &CpuSet) -> Supply {
    Supply {
        free: cpus.clone(),
        reuse: CpuSet::new(),
    }
}
