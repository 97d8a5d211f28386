//! [`NodeSnapshot`]: converts the node's state to the podresources API and to the objects that schedulers read.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::pools::{CpuHolders, Pools};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::{AdvertisedDevices, DevicesByResource};
use pinfold_core::ledger::Ledger;
use pinfold_core::memory::MemoryBlock;
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_devices::align;
use pinfold_devices::pod_resources::{HeldResources, PodResourcesSnapshot, PodSnapshot};
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, CpuManagerInfo, PodCpuAllocation, ReportAnnotations};
use pinfold_kube::node_resource_topology;
use pinfold_kube::node_state::PublishedNodeState;
use pinfold_kube::pod_fingerprint::ExclusiveKinds;
use pinfold_kube::volcano::{self, ContainerAllocation, PodAllocation};

use super::own_node::OwnNode;
use crate::config::{AgentConfig, NodeDialect, PublishedObject};
use crate::kubernetes::{CustomResource, CustomResourceReport, PodSetFingerprint};
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
    /// The Node object.
    pub(super) own_node: OwnNode,
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
    /// The assigned and allocatable resources, for the podresources API. On a node of a cluster, pods that a client of
    /// the agent declared are left out: readers such as NFD look each pod up at the API server, and fail if it is
    /// unknown.
    pub(super) fn pod_resources(&self, in_cluster: bool) -> PodResourcesSnapshot {
        let mut pods: Vec<PodSnapshot> = Vec::new();
        for resident in self.ledger.admitted_pods() {
            let pod = &resident.pod;
            if in_cluster && self.is_declared(&pod.uid) {
                continue;
            }
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

    /// Whether a client of the agent's API declared the pod, which the API server does not know then.
    fn is_declared(&self, pod: &PodUid) -> bool {
        let record = self.records.get(pod);
        record.is_some_and(|record| record.origin == PodOrigin::Api)
    }

    fn devices(&self, held: &DevicesByResource) -> BTreeMap<ResourceName, AdvertisedDevices> {
        let pool = self.ledger.state().pool();
        let mut devices = BTreeMap::new();
        for (resource, ids) in held {
            let offer = pool.devices(resource).into_iter().flatten();
            let own = offer.filter(|(id, _)| ids.contains(*id));
            let own = own.map(|(id, device)| (id.clone(), device.clone()));
            let requested: &mut AdvertisedDevices = devices
                .entry(align::requested_resource(resource))
                .or_default();
            requested.extend(own);
        }
        devices
    }

    fn allocatable(&self) -> HeldResources {
        let rules = self.ledger.rules();
        let state = self.ledger.state();
        let memory = state.memory().nodes().iter().flat_map(|(&node, row)| {
            // The kubelet lists no hugepages of a size that the node has none of.
            let rows = row.memory.iter().filter(|(_, amounts)| amounts.total > 0);
            rows.map(move |(resource, amounts)| MemoryBlock {
                resource: resource.clone(),
                size: amounts.allocatable,
                nodes: NodeSet::single(node),
            })
        });
        let pool = state.pool();
        // Of devices that the kubelet assigns, only those that pods have are known.
        let mut devices: BTreeMap<ResourceName, AdvertisedDevices> = BTreeMap::new();
        for resource in pool.resources() {
            let offer = pool.devices(resource).cloned().unwrap_or_default();
            let requested = align::requested_resource(resource);
            devices.entry(requested).or_default().extend(offer);
        }
        // The kubelet's CPU manager `none` has no allocatable CPUs: it assigns none.
        let cpus = match rules.settings().cpu_policy {
            CpuManagerPolicy::None => CpuSet::new(),
            CpuManagerPolicy::Static => rules.machine().online() - &rules.reserved_cpus(),
        };
        HeldResources {
            cpus,
            memory: memory.collect(),
            devices,
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
            let state = PublishedNodeState::of(&self.ledger, dialect);
            let state = state.with_local(|pod| self.is_declared(pod));
            state.attach_to(&self.ledger, &mut topology);
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
            pods: Some(PodSetFingerprint {
                method: config.kubernetes.fingerprint_method,
                accounted: self
                    .ledger
                    .state()
                    .admitted_pods()
                    .keys()
                    .cloned()
                    .collect(),
                tracked: ExclusiveKinds {
                    cpus: true,
                    memory: true,
                    devices: true,
                },
            }),
        }
    }

    /// Annotations for Koordinator's scheduler. The kubelet's CPU manager counts as `none` unless its state file says
    /// otherwise.
    fn koordinator_facts(&self, config: &AgentConfig) -> ReportAnnotations {
        let rules = self.ledger.rules();
        let reserved = rules.reserved_cpus();
        let mut facts = ReportAnnotations::of(rules.machine(), rules.settings(), reserved.clone());
        facts.copy_node(&self.own_node.node.settings.annotations, rules);
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
                ..facts.holders()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_core::device::NoPreference;
    use pinfold_core::ledger::Rules;
    use pinfold_core::machine::{HugePages, Machine, MachineParts, UniformMachine};
    use pinfold_core::memory::{MemoryReservation, memory_resource};
    use pinfold_core::pod::Pod;
    use pinfold_core::quantity::Quantity;
    use pinfold_core::settings::{MemoryManagerPolicy, Settings};

    use super::*;

    /// A node of four CPUs without hugepages, with a memory manager and this CPU policy.
    fn snapshot(cpu_policy: CpuManagerPolicy) -> NodeSnapshot {
        let machine = Machine::uniform(UniformMachine {
            sockets: 1,
            nodes_per_socket: 1,
            cores_per_node: 4,
            threads_per_core: 1,
            memory_per_node: 4 << 30,
        });
        let mut parts: MachineParts = machine.expect("valid").parts().clone();
        parts.nodes[0].hugepages = vec![HugePages {
            size_kib: 2048,
            count: 0,
        }];
        let reserved = BTreeMap::from([(memory_resource(), Quantity::bytes(1 << 30))]);
        let settings = Settings {
            cpu_policy,
            reserved_cpu: Some(1.into()),
            memory_policy: MemoryManagerPolicy::Static,
            reserved_memory: vec![MemoryReservation {
                numa_node: 0,
                limits: reserved.clone(),
            }],
            node_reservation: reserved,
            ..Settings::default()
        };
        let machine = Arc::new(Machine::new(parts).expect("valid"));
        let rules = Rules::new(machine, settings).expect("valid");
        NodeSnapshot {
            ledger: Ledger::new(Arc::new(rules)),
            records: BTreeMap::new(),
            generation: 1,
            pools: None,
            kubelet_policy: None,
            own_node: OwnNode::default(),
        }
    }

    #[test]
    fn without_a_cpu_manager_no_cpu_is_allocatable_and_absent_hugepages_are_not_listed() {
        for (policy, cpus) in [
            (CpuManagerPolicy::None, ""),
            (CpuManagerPolicy::Static, "1-3"),
        ] {
            let allocatable = snapshot(policy).pod_resources(true).allocatable;
            assert_eq!(allocatable.cpus.to_string(), cpus, "{policy:?}");
            let memory: Vec<String> = (allocatable.memory.iter())
                .map(|block| block.resource.to_string())
                .collect();
            assert_eq!(memory, ["memory"]);
        }
    }

    #[test]
    fn a_declared_pod_is_local_and_in_a_cluster_not_in_the_podresources_api() {
        let mut snapshot = snapshot(CpuManagerPolicy::Static);
        let pod = Pod::guaranteed("declared", [("cpu", Quantity::from(1))]);
        let admitted = snapshot.ledger.admit(&Arc::new(pod), &mut NoPreference);
        assert!(admitted.is_ok());
        let record = JournalPodRecord {
            origin: PodOrigin::Api,
            ..JournalPodRecord::default()
        };
        snapshot.records.insert("declared".into(), record);
        assert_eq!(snapshot.pod_resources(true).pods, []);
        assert_eq!(snapshot.pod_resources(false).pods.len(), 1);
        let report = snapshot.report("worker-1", &AgentConfig::default());
        let accounted = report.pods.expect("a fingerprint").accounted;
        assert!(accounted.contains("declared"));
        assert!(format!("{:?}", report.objects[0]).contains(r#"\"local\":true"#));
    }
}
