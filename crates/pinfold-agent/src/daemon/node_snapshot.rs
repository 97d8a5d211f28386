//! [`NodeSnapshot`]: converts the node's state to the podresources API and to the objects that schedulers read.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::pools::{CpuHolders, Pools};
use pinfold_core::device::{AdvertisedDevices, DevicesByResource};
use pinfold_core::ledger::Ledger;
use pinfold_core::memory::MemoryBlock;
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use pinfold_devices::pod_resources::{HeldResources, PodResourcesSnapshot, PodSnapshot};
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, CpuManagerInfo, PodCpuAllocation, ReportAnnotations};
use pinfold_kube::node_resource_topology;
use pinfold_kube::node_state::PublishedNodeState;
use pinfold_kube::volcano::{self, ContainerAllocation, PodAllocation};

use crate::config::{AgentConfig, NodeDialect, PublishedObject};
use crate::kubernetes::{CustomResource, CustomResourceReport};
use pinfold_journal::{JournalPodRecord, PodOrigin};

/// A consistent copy of the ledger and the journal's pod records.
pub(super) struct NodeSnapshot {
    pub(super) ledger: Ledger,
    pub(super) records: BTreeMap<PodUid, JournalPodRecord>,
    pub(super) generation: u64,
    /// Koordinator's CPU pools; `None` under the kubelet's rules.
    pub(super) pools: Option<Pools>,
    /// CPU manager policy in the kubelet's `cpu_manager_state`.
    pub(super) kubelet_policy: Option<String>,
}

/// Splits a pod name of the ledger: `namespace/name`, or `namespace/name/container` for a container that was admitted
/// without its pod's spec.
fn split_name(name: &str) -> (&str, &str) {
    let mut parts = name.splitn(3, '/');
    match (parts.next(), parts.next()) {
        (Some(namespace), Some(name)) => (namespace, name),
        (name, _) => ("", name.unwrap_or_default()),
    }
}

impl NodeSnapshot {
    /// The assigned and allocatable resources, for the podresources API.
    pub(super) fn pod_resources(&self) -> PodResourcesSnapshot {
        let mut pods: Vec<PodSnapshot> = Vec::new();
        for resident in self.ledger.admitted_pods() {
            let pod = &resident.pod;
            let Some(assignment) = self.ledger.assignment(&pod.uid) else {
                continue;
            };
            let (namespace, name) = split_name(&pod.name);
            let running = assignment
                .containers
                .into_iter()
                .filter(|held| !pod.is_finishing_init(&held.name));
            let containers = running.map(|held| {
                let holding = HeldResources {
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
        PodResourcesSnapshot { pods, allocatable }
    }

    fn devices(&self, held: &DevicesByResource) -> BTreeMap<ResourceName, AdvertisedDevices> {
        let pool = self.ledger.state().pool();
        let of = |(resource, ids): (&ResourceName, _)| {
            let mut offer = pool.devices(resource)?.clone();
            let ids: &pinfold_core::device::DeviceSet = ids;
            offer.retain(|id, _| ids.contains(id));
            Some((resource.clone(), offer))
        };
        held.iter().filter_map(of).collect()
    }

    fn allocatable(&self) -> HeldResources {
        let rules = self.ledger.rules();
        let state = self.ledger.state();
        let memory = state.memory().nodes().iter().flat_map(|(&node, row)| {
            row.memory
                .iter()
                .map(move |(resource, amounts)| MemoryBlock {
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
        HeldResources {
            cpus: rules.machine().online() - &rules.reserved_cpus(),
            memory: memory.collect(),
            devices: devices.collect(),
            dynamic: Vec::new(),
        }
    }

    /// The objects to publish for schedulers.
    pub(super) fn report(&self, node: &str, config: &AgentConfig) -> CustomResourceReport {
        let rules = self.ledger.rules();
        let (machine, settings) = (rules.machine(), rules.settings());
        let occupancy = self.ledger.occupancy();
        let wants = |publication| config.kubernetes.publish.contains(&publication);
        let mut objects = Vec::new();
        if wants(PublishedObject::V1alpha2) || wants(PublishedObject::V1alpha1) {
            let plain = node_resource_topology::publish(node, machine, &occupancy, settings);
            let mut topology = koordinator::publish(&plain, &self.koordinator_facts(config));
            let dialect = match config.dialect {
                NodeDialect::Kubelet => DialectName::Kubelet,
                NodeDialect::Koordinator => DialectName::Koordinator,
            };
            PublishedNodeState::attach(&self.ledger, dialect, &mut topology);
            objects.push(CustomResource::topology(&topology));
        }
        if wants(PublishedObject::Numatopology) {
            let pods = self.allocations();
            let numatopology = volcano::publish(node, machine, &occupancy, settings, pods);
            objects.push(CustomResource::numatopology(&numatopology));
        }
        CustomResourceReport {
            generation: self.generation,
            objects,
        }
    }

    /// Annotations for Koordinator's scheduler. The kubelet's CPU manager counts as `none` unless its state file says
    /// otherwise.
    fn koordinator_facts(&self, config: &AgentConfig) -> ReportAnnotations {
        let rules = self.ledger.rules();
        let reserved = rules.reserved_cpus();
        let mut facts = ReportAnnotations::of(rules.machine(), rules.settings(), reserved.clone());
        if config.takeover.disable_query_kubelet_config {
            facts.cpu_manager = CpuManagerInfo::default();
        } else {
            let policy = self.kubelet_policy.clone();
            facts.cpu_manager = CpuManagerInfo {
                policy: policy.unwrap_or_else(|| "none".to_owned()),
                reserved: reserved.clone(),
                ..CpuManagerInfo::default()
            };
            facts.pod_cpus = self.pod_cpus();
        }
        let pools = self.pools.clone().unwrap_or_else(|| {
            let mut holders = CpuHolders {
                kubelet_reserved: reserved,
                ..CpuHolders::default()
            };
            for pod in self.ledger.state().admitted_pods().keys() {
                holders.lse |= &self.ledger.exclusive_cpus(pod);
            }
            Pools::of(&facts.topology(rules.fidelity()), &holders)
        });
        facts.with_pools(&pools)
    }

    fn pod_cpus(&self) -> Vec<PodCpuAllocation> {
        let pods = self.ledger.admitted_pods().into_iter().map(|resident| {
            let pod = &resident.pod;
            let (namespace, name) = split_name(&pod.name);
            let origin = self.records.get(&pod.uid).map(|record| record.origin);
            PodCpuAllocation {
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
        let pods = self.ledger.admitted_pods().into_iter().map(|resident| {
            let pod = &resident.pod;
            let (namespace, name) = split_name(&pod.name);
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
