//! Collects the facts of an explanation: the requested amount of every resource and what each NUMA node has of it.

use super::transaction::LedgerTransaction;
use crate::decision::ResourceManager;
use crate::demand;
use crate::device::ReusableDevices;
use crate::explanation::{MemoryGrouping, NodeFacts, ResourceFacts, WithoutTopology};
use crate::hint::ProviderHints;
use crate::merge::MergeFacts;
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};
use crate::pod::{Container, Pod};
use crate::qos::QosClass;

impl LedgerTransaction<'_> {
    /// The facts of all resources of one alignment, with a summary of their hints.
    pub(super) fn facts(
        &self,
        pod: &Pod,
        container: Option<&Container>,
        hints: &[ProviderHints; 3],
        merge: &MergeFacts,
    ) -> Vec<ResourceFacts> {
        let mut facts = Vec::new();
        for (provider, manager) in ResourceManager::ALL.into_iter().enumerate() {
            for mut resource in self.facts_of(manager, pod, container) {
                resource.merge_index = merge.resources.iter().position(|merged| {
                    let row = merged.row.and_then(|row| hints[provider].rows.get(row));
                    merged.provider == provider
                        && row.is_some_and(|(name, _)| *name == resource.resource)
                });
                resource.hints = resource
                    .merge_index
                    .map(|index| merge.resources[index].hints);
                facts.push(resource);
            }
        }
        facts
    }

    /// The facts of the resources that one manager allocates.
    pub(super) fn facts_of(
        &self,
        manager: ResourceManager,
        pod: &Pod,
        container: Option<&Container>,
    ) -> Vec<ResourceFacts> {
        match manager {
            ResourceManager::Device => self.device_facts(pod, container),
            ResourceManager::Cpu => self.cpu_facts(pod, container).into_iter().collect(),
            ResourceManager::Memory => self.memory_facts(pod, container),
        }
    }

    fn cpu_facts(&self, pod: &Pod, container: Option<&Container>) -> Option<ResourceFacts> {
        let policy = self.rules.cpus.as_static()?;
        let requested = match container {
            Some(container) => demand::container_cpus(pod, container, self.rules.pod_level),
            None => demand::pod_cpus(pod, self.rules.pod_level),
        };
        if requested == 0 || self.ignores(pod) {
            return None;
        }
        let free = policy.usable(
            &self.state.cpus,
            &self.state.reusable_cpus_of(&pod.uid),
            &pod.uid,
        );
        let nodes = policy.topology().nodes().iter().map(|node| NodeFacts {
            node: node.id,
            total: (node.cpus.len() - node.cpus.common_len(policy.reserved())) as u64,
            free: node.cpus.common_len(&free) as u64,
            grouping: MemoryGrouping::Unrestricted,
        });
        Some(ResourceFacts {
            resource: ResourceName::from("cpu"),
            manager: ResourceManager::Cpu,
            requested: requested as u64,
            total: policy.allocatable().len() as u64,
            free: free.len() as u64,
            nodes: nodes.collect(),
            without_topology: WithoutTopology::default(),
            hints: None,
            merge_index: None,
        })
    }

    /// Whether the pod has pod-level resources and the managers ignore such pods.
    fn ignores(&self, pod: &Pod) -> bool {
        demand::has_pod_level_resources(pod) && !self.rules.pod_level.manages(pod)
    }

    fn memory_facts(&self, pod: &Pod, container: Option<&Container>) -> Vec<ResourceFacts> {
        let pod_level = self.rules.pod_level;
        let requested = match container {
            Some(container) => demand::container_memory(pod, container, pod_level),
            None => demand::pod_memory(pod, pod_level),
        };
        let managed = QosClass::of(pod) == QosClass::Guaranteed && !self.ignores(pod);
        if self.state.memory.nodes().is_empty() || !managed {
            return Vec::new();
        }
        let resource = |(resource, requested): (ResourceName, u64)| {
            let nodes = self.state.memory.nodes().iter().map(|(&node, row)| {
                let amounts = row.amounts(&resource);
                NodeFacts {
                    node,
                    total: amounts.allocatable,
                    free: amounts.free,
                    grouping: match (row.cells.len() > 1, row.assignments) {
                        (true, _) => MemoryGrouping::Group(row.cells),
                        (false, 0) => MemoryGrouping::Unrestricted,
                        (false, _) => MemoryGrouping::SingleNodeOnly,
                    },
                }
            });
            let all = self.state.memory.node_ids();
            ResourceFacts {
                manager: ResourceManager::Memory,
                requested,
                total: self.state.memory.allocatable(all, &resource),
                free: self.state.memory.free(all, &resource),
                nodes: nodes.collect(),
                without_topology: WithoutTopology::default(),
                hints: None,
                merge_index: None,
                resource,
            }
        };
        let requested = requested.unwrap_or_default().into_iter();
        requested.map(resource).collect()
    }

    fn device_facts(&self, pod: &Pod, container: Option<&Container>) -> Vec<ResourceFacts> {
        let whole;
        let (limits, reusable) = match container {
            Some(container) => (
                &container.limits,
                ReusableDevices::before(&self.state.devices, pod, &container.name),
            ),
            None => {
                whole = demand::effective_limits(pod);
                (&whole, ReusableDevices::default())
            }
        };
        let pool = &self.state.pool;
        let mut all = Vec::new();
        for (resource, amount) in limits {
            let Some(devices) = pool.devices(resource) else {
                continue;
            };
            let mut free = pool.available(&self.state.devices, resource);
            free.extend(reusable.of(resource).into_iter().flatten().cloned());
            let mut facts = ResourceFacts {
                resource: resource.clone(),
                manager: ResourceManager::Device,
                requested: u64::try_from(amount.value()).unwrap_or(0),
                total: 0,
                free: 0,
                nodes: pool.nodes().iter().map(NodeFacts::nothing).collect(),
                without_topology: WithoutTopology::default(),
                hints: None,
                merge_index: None,
            };
            for (id, device) in devices.iter().filter(|(_, device)| device.healthy) {
                let free = u64::from(free.contains(id));
                facts.total += 1;
                facts.free += free;
                let near: NodeSet = device.nodes() & pool.nodes();
                for node in facts
                    .nodes
                    .iter_mut()
                    .filter(|node| near.contains(node.node))
                {
                    node.total += 1;
                    node.free += free;
                }
                if near.is_empty() {
                    facts.without_topology.total += 1;
                    facts.without_topology.free += free;
                }
            }
            all.push(facts);
        }
        all
    }
}

impl NodeFacts {
    /// A NUMA node that has none of the resource.
    fn nothing(node: NodeId) -> Self {
        Self {
            node,
            total: 0,
            free: 0,
            grouping: MemoryGrouping::Unrestricted,
        }
    }
}
