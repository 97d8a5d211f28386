//! Nodes and pods in the format of the vectors.

use std::sync::Arc;

use pinfold_cluster::node_topology::NodeTopology;
use pinfold_cluster::node_topology::args::TopologyMatchArgs;
use pinfold_cluster::{PodRequest, TopologyMatchNode};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::pod::{Container, Pod, ResourceList};
use serde::Deserialize;

/// The input that both families share.
#[derive(Deserialize)]
pub(super) struct Input {
    nrt: Option<NodeTopology>,
    pod: PodJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodJson {
    init_containers: Vec<ContainerJson>,
    containers: Vec<ContainerJson>,
    overhead: Option<ResourceList>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerJson {
    name: ContainerName,
    requests: ResourceList,
    limits: ResourceList,
    #[serde(default)]
    restart_policy: Option<String>,
}

impl From<ContainerJson> for Container {
    fn from(json: ContainerJson) -> Self {
        Container {
            name: json.name,
            restartable: json.restart_policy.as_deref() == Some("Always"),
            requests: json.requests,
            limits: json.limits,
        }
    }
}

impl Input {
    /// The node and the pod in the form in which a cluster holds them.
    pub(super) fn node_and_pod(
        self,
        allocatable: ResourceList,
        args: TopologyMatchArgs,
    ) -> (TopologyMatchNode, PodRequest) {
        let containers = |list: Vec<ContainerJson>| list.into_iter().map(Container::from).collect();
        let pod = Pod {
            uid: PodUid::from("pod"),
            name: String::new(),
            init_containers: containers(self.pod.init_containers),
            containers: containers(self.pod.containers),
            pod_requests: None,
            pod_limits: None,
        };
        let overhead = self.pod.overhead.unwrap_or_default();
        let node = TopologyMatchNode::new(self.nrt, allocatable, Arc::new(args), Fidelity::Exact);
        (node, PodRequest::new(Arc::new(pod)).with_overhead(overhead))
    }
}
