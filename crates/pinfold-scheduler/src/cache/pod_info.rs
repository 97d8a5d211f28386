//! [`PodInfo`]: the parts of a pod that the cache keeps.

use std::sync::Arc;

use pinfold_cluster::PodRequest;
use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::ledger::Allocation;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::pod::Pod;
use pinfold_core::qos::QosClass;
use pinfold_kube::api_object::InvalidObject;
use pinfold_kube::koordinator::{self, ResourceStatus, keys};
use pinfold_kube::pod::{ApiPod, PodObject};
use pinfold_kube::volcano;

pub use pinfold_kube::pod::PodPhase;

/// The parts of a pod that the cache keeps.
#[derive(Clone, Debug)]
pub struct PodInfo {
    /// The request of the pod for every dialect. Its uid is the one that the kubelet uses.
    pub request: PodRequest,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The resource version.
    pub version: String,
    /// The priority.
    pub priority: i32,
    /// The effective requests, including overhead.
    pub requests: Amounts,
    /// The allocation in Koordinator's annotation `resource-status`.
    pub koordinator_allocation: Option<Allocation>,
    /// Why Koordinator's labels or annotations cannot be parsed.
    pub koordinator_error: Option<String>,
    /// Whether the NUMA rules of any dialect may apply to the pod.
    pub needs_numa: bool,
    /// The whole object, for unbound pods whose Koordinator annotations binding may have to complete.
    pub object: Option<Arc<PodObject>>,
}

/// A pod of a list or a watch event.
#[derive(Clone, Debug)]
pub struct ObservedPod {
    /// The requests and the identity of the pod.
    pub info: Arc<PodInfo>,
    /// The node that the pod is bound to.
    pub node: Option<NodeName>,
    /// The phase.
    pub phase: PodPhase,
}

impl PodInfo {
    /// The uid that the kubelet uses.
    #[must_use]
    pub fn uid(&self) -> &PodUid {
        self.request.uid()
    }

    /// `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether another version of the pod has the same requests and allocation.
    #[must_use]
    pub fn has_same_requests(&self, other: &PodInfo) -> bool {
        self.request == other.request
            && self.requests == other.requests
            && self.koordinator_allocation == other.koordinator_allocation
    }
}

/// Parses a pod in the API server's JSON.
///
/// # Errors
/// If the object is not a valid pod.
pub fn parse(json: &str) -> Result<ObservedPod, InvalidObject> {
    let ApiPod {
        mut object,
        resource_version,
        phase,
        resize,
        ..
    } = ApiPod::parse(json)?;
    let node = object.node_name.as_deref().filter(|name| !name.is_empty());
    let node = node.map(NodeName::from);
    let is_bound = node.is_some();
    if is_bound {
        object.pod = resize.apply(&object.pod);
    }
    Ok(ObservedPod {
        info: Arc::new(info_of(object, resource_version, is_bound)),
        node,
        phase,
    })
}

fn info_of(object: PodObject, version: String, is_bound: bool) -> PodInfo {
    const FIDELITY: Fidelity = Fidelity::Sound;
    let mut request = PodRequest::new(Arc::new(object.pod.clone()));
    let mut koordinator_allocation = None;
    let mut koordinator_error = None;
    match koordinator::demand(&object, FIDELITY) {
        Ok(read) => {
            match ResourceStatus::read(&object, FIDELITY) {
                Ok(status) => {
                    koordinator_allocation =
                        status.value.map(|status| status.allocation(&read.value));
                }
                Err(findings) => koordinator_error = Some(findings.to_string()),
            }
            request = request.with_koordinator(read.value);
        }
        Err(findings) => koordinator_error = Some(findings.to_string()),
    }
    if let Some(policy) = volcano::task(&object, FIDELITY).value.policy {
        request = request.with_volcano_policy(policy);
    }
    let meta = &object.meta;
    let has_koordinator_spec = meta.labels.contains_key(keys::QOS_CLASS)
        || [keys::RESOURCE_SPEC, keys::NUMA_SPEC]
            .iter()
            .any(|key| meta.annotations.contains_key(*key));
    let needs_numa = has_koordinator_spec
        || request.volcano().policy().is_some()
        || QosClass::of(&object.pod) == QosClass::Guaranteed
        || requests_devices(&object.pod);
    PodInfo {
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        priority: object.priority.unwrap_or(0),
        requests: Amounts::of(&koordinator::effective_requests(&object)),
        object: (has_koordinator_spec && !is_bound).then(|| Arc::new(object)),
        request,
        version,
        koordinator_allocation,
        koordinator_error,
        needs_numa,
    }
}

fn requests_devices(pod: &Pod) -> bool {
    let lists = pod.all_containers().map(|container| &container.limits);
    let mut names = lists.flat_map(|list| list.keys());
    names.any(|name| name.as_str().contains('/'))
}
