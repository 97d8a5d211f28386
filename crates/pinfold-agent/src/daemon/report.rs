//! What the node tells others about itself: pod resources for monitoring agents, objects for schedulers.

use std::collections::BTreeMap;

use pinfold_core::device::{DeviceOffer, DevicesByResource};
use pinfold_core::koordinator::pools::{CpuHolders, Pools};
use pinfold_core::ledger::Ledger;
use pinfold_core::memory::Block;
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use pinfold_devices::pod_resources::{Holding, PodSnapshot, Snapshot};
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, CpuManager, NodeFacts, PodCpus};
use pinfold_kube::node_resource_topology;
use pinfold_kube::node_state::NodeState;
use pinfold_kube::volcano::{self, ContainerAllocation, PodAllocation};

use crate::config::{AgentConfig, NodeDialect, PublishedObject};
use crate::kubernetes::{NodeObject, NodeReport};
use pinfold_journal::{PodOrigin, PodRecord};

/// The ledger with the notes on its pods, as they were at one moment.
pub(super) struct Picture {
    pub(super) ledger: Ledger,
    pub(super) notes: BTreeMap<PodUid, PodRecord>,
    pub(super) generation: u64,
    /// Koordinator's pools, where its rules decide.
    pub(super) pools: Option<Pools>,
    /// The policy of a kubelet that is not switched off yet, as its state file says.
    pub(super) kubelet_policy: Option<String>,
}

/// A name that the ledger knows a pod by: `namespace/name`, or `namespace/name/container` for a container that was
/// decided about alone.
fn parts(name: &str) -> (&str, &str) {
    let mut parts = name.splitn(3, '/');
    match (parts.next(), parts.next()) {
        (Some(namespace), Some(name)) => (namespace, name),
        (name, _) => ("", name.unwrap_or_default()),
    }
}

impl Picture {
    /// Who holds what, and what there is to hold.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut pods: Vec<PodSnapshot> = Vec::new();
        for resident in self.ledger.residents() {
            let pod = &resident.pod;
            let Some(assignment) = self.ledger.assignment(&pod.uid) else {
                continue;
            };
            let (namespace, name) = parts(&pod.name);
            let running = assignment
                .containers
                .into_iter()
                .filter(|held| !pod.is_finishing_init(&held.name));
            let containers = running.map(|held| {
                let holding = Holding {
                    cpus: held.cpus.unwrap_or_default(),
                    memory: held.memory.unwrap_or_default(),
                    devices: self.devices(&held.devices),
                    dynamic: Vec::new(),
                };
                (held.name.to_string(), holding)
            });
            let known = |one: &&mut PodSnapshot| one.name == name && one.namespace == namespace;
            match pods.iter_mut().find(known) {
                Some(known) => known.containers.extend(containers),
                None => pods.push(PodSnapshot {
                    name: name.to_owned(),
                    namespace: namespace.to_owned(),
                    containers: containers.collect(),
                }),
            }
        }
        let allocatable = self.allocatable();
        Snapshot { pods, allocatable }
    }

    fn devices(&self, held: &DevicesByResource) -> BTreeMap<ResourceName, DeviceOffer> {
        let pool = self.ledger.state().pool();
        let of = |(resource, ids): (&ResourceName, _)| {
            let mut offer = pool.devices(resource)?.clone();
            let ids: &pinfold_core::device::DeviceSet = ids;
            offer.retain(|id, _| ids.contains(id));
            Some((resource.clone(), offer))
        };
        held.iter().filter_map(of).collect()
    }

    fn allocatable(&self) -> Holding {
        let rules = self.ledger.rules();
        let state = self.ledger.state();
        let memory = state.memory().nodes().iter().flat_map(|(&node, row)| {
            row.memory.iter().map(move |(resource, amounts)| Block {
                resource: resource.clone(),
                size: amounts.allocatable,
                nodes: NodeSet::single(node),
            })
        });
        let pool = state.pool();
        let devices = pool.resources().filter_map(|resource| {
            let offer = pool.devices(resource)?.clone();
            Some((resource.clone(), offer))
        });
        Holding {
            cpus: rules.machine().online() - &rules.reserved_cpus(),
            memory: memory.collect(),
            devices: devices.collect(),
            dynamic: Vec::new(),
        }
    }

    /// The objects for schedulers.
    pub(super) fn report(&self, node: &str, config: &AgentConfig) -> NodeReport {
        let rules = self.ledger.rules();
        let (machine, settings) = (rules.machine(), rules.settings());
        let occupancy = self.ledger.occupancy();
        let wants = |publication| config.kubernetes.publish.contains(&publication);
        let mut objects = Vec::new();
        if wants(PublishedObject::V1alpha2) || wants(PublishedObject::V1alpha1) {
            let plain = node_resource_topology::publish(node, machine, &occupancy, settings);
            let mut told = koordinator::publish(&plain, &self.facts(config));
            let dialect = match config.dialect {
                NodeDialect::Kubelet => DialectName::Kubelet,
                NodeDialect::Koordinator => DialectName::Koordinator,
            };
            NodeState::attach(&self.ledger, dialect, &mut told);
            objects.push(NodeObject::topology(&told));
        }
        if wants(PublishedObject::Numatopology) {
            let pods = self.allocations();
            let told = volcano::publish(node, machine, &occupancy, settings, pods);
            objects.push(NodeObject::numatopology(&told));
        }
        NodeReport {
            generation: self.generation,
            objects,
        }
    }

    /// What Koordinator's scheduler wants to know. The kubelet's CPU manager is off where we decide.
    fn facts(&self, config: &AgentConfig) -> NodeFacts {
        let rules = self.ledger.rules();
        let reserved = rules.reserved_cpus();
        let mut facts = NodeFacts::of(rules.machine(), rules.settings(), reserved.clone());
        if config.takeover.disable_query_kubelet_config {
            facts.cpu_manager = CpuManager::default();
        } else {
            let policy = self.kubelet_policy.clone();
            facts.cpu_manager = CpuManager {
                policy: policy.unwrap_or_else(|| "none".to_owned()),
                reserved: reserved.clone(),
                ..CpuManager::default()
            };
            facts.pod_cpus = self.pod_cpus();
        }
        let pools = self.pools.clone().unwrap_or_else(|| {
            let mut holders = CpuHolders {
                kubelet_reserved: reserved,
                ..CpuHolders::default()
            };
            for pod in self.ledger.state().residents().keys() {
                holders.lse |= &self.ledger.exclusive_cpus(pod);
            }
            Pools::of(&facts.topology(rules.fidelity()), &holders)
        });
        facts.with_pools(&pools)
    }

    fn pod_cpus(&self) -> Vec<PodCpus> {
        let pods = self.ledger.residents().into_iter().map(|resident| {
            let pod = &resident.pod;
            let (namespace, name) = parts(&pod.name);
            let origin = self.notes.get(&pod.uid).map(|note| note.origin);
            PodCpus {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: pod.uid.to_string(),
                cpus: self.ledger.exclusive_cpus(&pod.uid),
                managed_by_kubelet: origin == Some(PodOrigin::Kubelet),
            }
        });
        pods.filter(|pod| !pod.cpus.is_empty()).collect()
    }

    fn allocations(&self) -> Vec<PodAllocation> {
        let cpus = self.ledger.state().cpus();
        let pods = self.ledger.residents().into_iter().map(|resident| {
            let pod = &resident.pod;
            let (namespace, name) = parts(&pod.name);
            let containers = pod.all_containers().filter_map(|container| {
                let own = cpus.container(&pod.uid, &container.name)?;
                Some(ContainerAllocation {
                    name: container.name.to_string(),
                    allocations: BTreeMap::from([("cpu".to_owned(), own.to_string())]),
                    ..ContainerAllocation::default()
                })
            });
            PodAllocation {
                uid: pod.uid.to_string(),
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                containers: containers.collect(),
                ..PodAllocation::default()
            }
        });
        pods.filter(|pod| !pod.containers.is_empty()).collect()
    }
}
