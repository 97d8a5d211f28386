//! Small machines, nodes and tasks for tests.

use std::sync::Arc;

use proptest::prelude::*;

use super::cpu_detail::{CpuDetail, CpuRow};
use super::numa_amounts::NumaAmounts;
use super::predicate::{Misfit, NumaInfo, VolcanoTask};
use crate::koordinator::amounts::Amounts;
use crate::{ClusterNode, Evaluation, NodeRejection, PodRequest};
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::node_set::NodeId;
use pinfold_core::pod::{Container, Pod, ResourceList};

/// A uniform machine with consecutive CPU numbers; core numbers start at 0 in every socket.
pub(crate) fn machine(sockets: u32, cores: u32, threads: u32) -> CpuDetail {
    let rows = (0..sockets * cores * threads).map(|cpu| CpuRow {
        cpu: CpuId::new(cpu).expect("test machines are small"),
        core: cpu / threads % cores,
        node: NodeId::new(i64::from(cpu / threads / cores)).expect("test machines are small"),
        socket: cpu / threads / cores,
    });
    CpuDetail::new(rows)
}

pub(crate) fn cpus(list: &str) -> CpuSet {
    CpuSet::parse(list).expect("a list of CPUs")
}

/// The Numatopology of a node whose kubelet pins CPUs.
pub(crate) fn node(policy: &str, detail: CpuDetail, free: &str) -> NumaInfo {
    NumaInfo {
        cpu_manager: "static".to_owned(),
        topology: policy.to_owned(),
        cpus: detail,
        free: Some(cpus(free)),
        reserved: None,
    }
}

/// A node of a cluster whose totals are never too small for a test.
pub(crate) fn cluster_node(
    numa: Option<NumaInfo>,
    amounts: NumaAmounts,
    fidelity: Fidelity,
) -> ClusterNode {
    let plenty = ["cpu", "memory", "example.com/gpu"].map(|name| (name, i64::MAX / 2));
    ClusterNode::volcano(numa, amounts, Amounts::from(plenty), fidelity)
}

pub(crate) fn request(task: &VolcanoTask) -> PodRequest {
    let request = PodRequest::new(task.pod.clone());
    match &task.policy {
        Some(policy) => request.with_volcano_policy(policy),
        None => request,
    }
}

/// The CPUs of a task on a node; `None` if it fits and no CPUs have to be chosen.
pub(crate) fn evaluate(
    mut node: ClusterNode,
    task: &VolcanoTask,
) -> Result<Option<CpuSet>, Misfit> {
    match node.evaluate(&request(task)) {
        Evaluation::Fits(fit) => Ok(Some(fit.cpus)),
        Evaluation::FitsInTotal => Ok(None),
        Evaluation::Rejected(NodeRejection::Volcano(misfit)) => Err(misfit),
        Evaluation::Rejected(other) => panic!("{other}"),
    }
}

pub(crate) fn container(name: &str, cpu: &str) -> Container {
    let amounts: ResourceList = [("cpu", cpu), ("memory", "1Gi")]
        .map(|(name, amount)| (name.into(), amount.parse().expect("a quantity")))
        .into();
    Container {
        name: ContainerName::from(name),
        restartable: false,
        requests: amounts.clone(),
        limits: amounts,
    }
}

/// A Guaranteed task with one container for each CPU request.
pub(crate) fn task(name: &str, policy: &str, cpu: &[&str]) -> VolcanoTask {
    let containers = cpu.iter().enumerate();
    VolcanoTask {
        pod: Arc::new(Pod {
            uid: PodUid::from(name),
            name: format!("ns/{name}"),
            init_containers: Vec::new(),
            containers: containers
                .map(|(at, cpu)| container(&format!("c{at}"), cpu))
                .collect(),
            pod_requests: None,
            pod_limits: None,
        }),
        policy: Some(policy.to_owned()),
    }
}

/// Irregular machines: any CPU on any core, NUMA node and socket, ids with gaps.
pub(crate) fn odd_machine() -> impl Strategy<Value = CpuDetail> {
    let row =
        (0_u32..80, 0_u32..12, 0_i64..5, 0_u32..4).prop_map(|(cpu, core, node, socket)| CpuRow {
            cpu: CpuId::new(cpu).expect("in range"),
            core,
            node: NodeId::new(node * 3).expect("in range"),
            socket,
        });
    proptest::collection::vec(row, 0..70).prop_map(CpuDetail::new)
}

pub(crate) fn any_cpus() -> impl Strategy<Value = CpuSet> {
    proptest::collection::vec(0_u32..90, 0..80)
        .prop_map(|ids| ids.into_iter().filter_map(CpuId::new).collect())
}
