//! The objects that the agent publishes about a mirrored node.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::pools::Pools;
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, NodeAnnotations, PodCpuAllocation, ReportAnnotations};
use pinfold_kube::node_resource_topology::{self, NodeResourceTopology};
use pinfold_kube::node_state::PublishedNodeState;
use pinfold_kube::volcano::{self, ContainerAllocation, Numatopology, PodAllocation};

use super::MirrorSnapshot;

/// The published objects of one node, one for each scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// For scheduler-plugins: NodeResourceTopology v1alpha2.
    pub topology: NodeResourceTopology,
    /// For Koordinator: NodeResourceTopology v1alpha1 with its annotations.
    pub koordinator: NodeResourceTopology,
    /// For Volcano.
    pub numatopology: Numatopology,
}

/// The objects of the node `name`, whose Node object has these annotations.
#[must_use]
pub fn objects(snapshot: &MirrorSnapshot, name: &str, node: &NodeAnnotations) -> Published {
    let ledger = &snapshot.ledger;
    let (machine, settings) = (ledger.rules().machine(), ledger.rules().settings());
    let occupancy = ledger.occupancy();
    let topology = node_resource_topology::publish(name, machine, &occupancy, settings);
    let mut facts = ReportAnnotations::of(machine, settings, ledger.rules().reserved_cpus());
    facts.copy_node(node, ledger.rules());
    facts.pod_cpus = pod_cpus(snapshot);
    let pools = Pools::of(&facts.topology(Fidelity::Exact), &facts.holders());
    let facts = facts.with_pools(&pools);
    let mut annotated = koordinator::publish(&topology, &facts);
    PublishedNodeState::attach(ledger, DialectName::Kubelet, &mut annotated);
    Published {
        koordinator: annotated,
        numatopology: volcano::publish(name, machine, &occupancy, settings, allocations(snapshot)),
        topology,
    }
}

/// The pods with exclusive CPUs.
fn pod_cpus(snapshot: &MirrorSnapshot) -> Vec<PodCpuAllocation> {
    let residents = snapshot.ledger.admitted_pods().into_iter();
    let pods = residents.map(|resident| {
        let uid = &resident.pod.uid;
        let name = snapshot.names.get(uid).cloned();
        let (namespace, name) = name
            .map(|name| (name.namespace, name.name))
            .unwrap_or_default();
        PodCpuAllocation {
            namespace,
            name,
            uid: uid.to_string(),
            cpus: snapshot.ledger.exclusive_cpus(uid),
            managed_by_kubelet: true,
        }
    });
    pods.filter(|pod| !pod.cpus.is_empty()).collect()
}

/// The CPUs of each container, for Volcano.
fn allocations(snapshot: &MirrorSnapshot) -> Vec<PodAllocation> {
    let cpus = snapshot.ledger.state().cpus();
    let residents = snapshot.ledger.admitted_pods().into_iter();
    let pods = residents.map(|resident| {
        let uid = &resident.pod.uid;
        let name = snapshot.names.get(uid).cloned();
        let (namespace, name) = name
            .map(|name| (name.namespace, name.name))
            .unwrap_or_default();
        let containers = resident.pod.all_containers().filter_map(|container| {
            let cpus = cpus.container(uid, &container.name)?;
            Some(ContainerAllocation {
                name: container.name.to_string(),
                allocations: BTreeMap::from([("cpu".to_owned(), cpus.to_string())]),
                ..ContainerAllocation::default()
            })
        });
        PodAllocation {
            uid: uid.to_string(),
            name,
            namespace,
            containers: containers.collect(),
            ..PodAllocation::default()
        }
    });
    pods.collect()
}
