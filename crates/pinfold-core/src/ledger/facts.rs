//! The facts of a request: what was asked of every resource, and what each NUMA node had of it.

use smallvec::SmallVec;

use super::draft::Draft;
use crate::decision::Manager;
use crate::demand;
use crate::device::Reusable;
use crate::explanation::{NodeFacts, ResourceFacts};
use crate::hint::ProviderHints;
use crate::merge::MergeFacts;
use crate::name::ResourceName;
use crate::pod::{Container, Pod};

impl Draft<'_> {
    /// The facts of all resources of one alignment, with what each wanted of the merge.
    pub(super) fn facts(
        &self,
        pod: &Pod,
        container: Option<&Container>,
        hints: &[ProviderHints; 3],
        merge: &MergeFacts,
    ) -> Vec<ResourceFacts> {
        let mut facts = Vec::new();
        for (provider, manager) in Manager::ALL.into_iter().enumerate() {
            for mut resource in self.facts_of(manager, pod, container) {
                let brought = merge.resources.iter().find(|brought| {
                    let row = brought.row.and_then(|row| hints[provider].rows.get(row));
                    brought.provider == provider
                        && row.is_some_and(|(name, _)| *name == resource.resource)
                });
                resource.wish = brought.map(|brought| brought.wish);
                facts.push(resource);
            }
        }
        facts
    }

    /// The facts of the resources that one manager hands out.
    pub(super) fn facts_of(
        &self,
        manager: Manager,
        pod: &Pod,
        container: Option<&Container>,
    ) -> Vec<ResourceFacts> {
        match manager {
            Manager::Device => self.device_facts(pod, container),
            Manager::Cpu => self.cpu_facts(pod, container).into_iter().collect(),
            Manager::Memory => self.memory_facts(pod, container),
        }
    }

    fn cpu_facts(&self, pod: &Pod, container: Option<&Container>) -> Option<ResourceFacts> {
        let policy = self.rules.cpus.as_static()?;
        let asked = match container {
            Some(container) => demand::container_cpus(pod, container, self.rules.pod_level),
            None => demand::pod_cpus(pod, self.rules.pod_level),
        };
        if asked == 0 {
            return None;
        }
        let mut free = policy.available(&self.state.cpus);
        free |= &self.state.reusable_cpus_of(&pod.uid);
        let nodes = policy.topology().nodes().iter().map(|node| NodeFacts {
            node: node.id,
            total: (node.cpus.len() - node.cpus.common_len(policy.reserved())) as u64,
            free: node.cpus.common_len(&free) as u64,
            grouped: false,
        });
        Some(ResourceFacts {
            resource: ResourceName::from("cpu"),
            manager: Manager::Cpu,
            asked: asked as u64,
            nodes: nodes.collect(),
            elsewhere: 0,
            wish: None,
        })
    }

    fn memory_facts(&self, pod: &Pod, container: Option<&Container>) -> Vec<ResourceFacts> {
        let pod_level = self.rules.pod_level;
        let asked = match container {
            Some(container) => demand::container_memory(pod, container, pod_level),
            None => demand::pod_memory(pod, pod_level),
        };
        let resource = |(resource, asked): (ResourceName, u64)| {
            let nodes = self.state.memory.nodes().iter().map(|(&node, row)| {
                let amounts = row.amounts(&resource);
                NodeFacts {
                    node,
                    total: amounts.allocatable,
                    free: amounts.free,
                    grouped: row.cells.len() > 1,
                }
            });
            let nodes = nodes.collect();
            let manager = Manager::Memory;
            ResourceFacts {
                resource,
                manager,
                asked,
                nodes,
                elsewhere: 0,
                wish: None,
            }
        };
        match self.state.memory.nodes().is_empty() {
            true => Vec::new(),
            false => asked
                .unwrap_or_default()
                .into_iter()
                .map(resource)
                .collect(),
        }
    }

    fn device_facts(&self, pod: &Pod, container: Option<&Container>) -> Vec<ResourceFacts> {
        let whole;
        let (limits, reusable) = match container {
            Some(container) => (
                &container.limits,
                Reusable::before(&self.state.devices, pod, &container.name),
            ),
            None => {
                whole = demand::effective_limits(pod);
                (&whole, Reusable::default())
            }
        };
        let pool = &self.state.pool;
        let mut facts = Vec::new();
        for (resource, amount) in limits {
            let Some(devices) = pool.devices(resource) else {
                continue;
            };
            let mut free = pool.available(&self.state.devices, resource);
            free.extend(reusable.of(resource).into_iter().flatten().cloned());
            let nothing = |node| NodeFacts {
                node,
                total: 0,
                free: 0,
                grouped: false,
            };
            let mut nodes: SmallVec<[NodeFacts; 8]> = pool.nodes().iter().map(nothing).collect();
            let mut elsewhere = 0;
            for (id, device) in devices.iter().filter(|(_, device)| device.healthy) {
                let (near, is_free) = (device.nodes() & pool.nodes(), free.contains(id));
                let rows = nodes.iter_mut().filter(|row| near.contains(row.node));
                for row in rows {
                    row.total += 1;
                    row.free += u64::from(is_free);
                }
                elsewhere += u64::from(near.is_empty() && is_free);
            }
            facts.push(ResourceFacts {
                resource: resource.clone(),
                manager: Manager::Device,
                asked: u64::try_from(amount.value()).unwrap_or(0),
                nodes,
                elsewhere,
                wish: None,
            });
        }
        facts
    }
}
