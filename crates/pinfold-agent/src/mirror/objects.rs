//! What schedulers are told about a mirrored node.

use std::collections::BTreeMap;

use pinfold_core::fidelity::Fidelity;
use pinfold_core::koordinator::pools::Pools;
use pinfold_kube::cluster::DialectName;
use pinfold_kube::koordinator::{self, PodCpuAllocation, ReportAnnotations};
use pinfold_kube::node_resource_topology::{self, NodeResourceTopology};
use pinfold_kube::node_state::PublishedNodeState;
use pinfold_kube::volcano::{self, ContainerAllocation, Numatopology, PodAllocation};

use super::Picture;

/// The objects of one node, one for each scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// For scheduler-plugins: NodeResourceTopology v1alpha2.
    pub topology: NodeResourceTopology,
    /// For Koordinator: NodeResourceTopology v1alpha1 with its annotations.
    pub koordinator: NodeResourceTopology,
    /// For Volcano.
    pub numatopology: Numatopology,
}

/// What the node `name` reports about itself.
#[must_use]
pub fn objects(picture: &Picture, name: &str) -> Published {
    let ledger = &picture.ledger;
    let (machine, settings) = (ledger.rules().machine(), ledger.rules().settings());
    let occupancy = ledger.occupancy();
    let topology = node_resource_topology::publish(name, machine, &occupancy, settings);
    let mut facts = ReportAnnotations::of(machine, settings, ledger.rules().reserved_cpus());
    facts.pod_cpus = pod_cpus(picture);
    let pools = Pools::of(&facts.topology(Fidelity::Exact), &facts.holders());
    let facts = facts.with_pools(&pools);
    let mut told = koordinator::publish(&topology, &facts);
    PublishedNodeState::attach(ledger, DialectName::Kubelet, &mut told);
    Published {
        koordinator: told,
        numatopology: volcano::publish(name, machine, &occupancy, settings, allocations(picture)),
        topology,
    }
}

/// The pods with CPUs of their own.
fn pod_cpus(picture: &Picture) -> Vec<PodCpuAllocation> {
    let residents = picture.ledger.admitted_pods().into_iter();
    let pods = residents.map(|resident| {
        let uid = &resident.pod.uid;
        let name = picture.names.get(uid).cloned();
        let (namespace, name) = name
            .map(|name| (name.namespace, name.name))
            .unwrap_or_default();
        PodCpuAllocation {
            namespace,
            name,
            uid: uid.to_string(),
            cpus: picture.ledger.exclusive_cpus(uid),
            managed_by_kubelet: true,
        }
    });
    pods.filter(|pod| !pod.cpus.is_empty()).collect()
}

/// The same, container by container.
fn allocations(picture: &Picture) -> Vec<PodAllocation> {
    let cpus = picture.ledger.state().cpus();
    let residents = picture.ledger.admitted_pods().into_iter();
    let pods = residents.map(|resident| {
        let uid = &resident.pod.uid;
        let name = picture.names.get(uid).cloned();
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
