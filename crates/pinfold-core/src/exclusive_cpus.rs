//! Why each container of a pod has exclusive or shared CPUs, and the smallest change that would make them exclusive.
//!
//! States the rule of the static policy's `guaranteedCPUs` as facts: the pod is Guaranteed, and the container requests a
//! whole number of CPUs. Every change is applied to the pod and checked with the decision itself
//! ([`PodDemand::container_cpus`]) before it is reported.

use serde::Serialize;

use crate::demand::{PodDemand, PodLevel};
use crate::name::{ContainerName, ResourceName};
use crate::pod::{Container, Pod, ResourceList};
use crate::qos::QosClass;
use crate::quantity::Quantity;

/// The QoS class of a pod with what decides it, and the CPUs of its containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuReasons {
    /// The class.
    pub qos: QosClass,
    /// Why it is not Guaranteed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos_reason: Option<QosReason>,
    /// The containers, init containers first.
    pub containers: Vec<ContainerCpus>,
}

/// Why a pod is not Guaranteed: the first amount that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum QosReason {
    /// There are no requests and limits of CPU and memory.
    NothingRequested,
    /// A limit is missing. No container: it is missing at pod level.
    NoLimit {
        /// The container.
        container: Option<ContainerName>,
        /// `cpu` or `memory`.
        resource: ResourceName,
        /// The request, if there is one.
        request: Option<Quantity>,
    },
    /// Request and limit differ.
    Differs {
        /// The container.
        container: Option<ContainerName>,
        /// `cpu` or `memory`.
        resource: ResourceName,
        /// The request.
        request: Quantity,
        /// The limit.
        limit: Quantity,
    },
}

/// The CPUs of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContainerCpus {
    /// The container.
    pub container: ContainerName,
    /// Whether it is an init container that ends before the app containers start.
    pub init: bool,
    /// The number of exclusive CPUs; 0 means the shared pool.
    pub exclusive: usize,
    /// Why it has the shared pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedReason>,
    /// The amounts, as requests and limits, with which it would have exclusive CPUs. Empty if it has them, or if no
    /// change of the pod is enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub change: Vec<AmountChange>,
}

/// Why a container has the shared pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SharedReason {
    /// The CPU manager policy is not `static`.
    PolicyNone,
    /// The kubelet does not manage pods with pod-level resources.
    PodLevelResources,
    /// The pod is not Guaranteed.
    NotGuaranteed,
    /// The container requests no CPU.
    NoCpuRequest,
    /// The request is not a whole number of CPUs.
    Fraction(Quantity),
    /// The request does not fit 64 bits, and Kubernetes computes with zero or a negative number.
    Overflow(Quantity),
    /// The pod has pod-level resources, and this container is not Guaranteed by itself.
    NotGuaranteedAlone,
}

/// An amount that becomes both request and limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AmountChange {
    /// The container.
    pub container: ContainerName,
    /// The resource.
    pub resource: ResourceName,
    /// The amount.
    pub to: Quantity,
}

/// The reasons of a pod on a node whose CPU manager policy is `static` or not.
#[must_use]
pub fn reasons(pod: &Pod, is_static: bool, pod_level: PodLevel) -> CpuReasons {
    let qos = QosClass::of(pod);
    let demand = PodDemand::new(pod, pod_level);
    let of = |container: &Container| {
        let exclusive = match is_static && !demand.is_ignored() {
            true => demand.container_cpus(container),
            false => 0,
        };
        let shared = (exclusive == 0).then(|| shared(&demand, container, is_static));
        let changeable = !matches!(
            shared,
            None | Some(SharedReason::PolicyNone | SharedReason::PodLevelResources)
        );
        ContainerCpus {
            container: container.name.clone(),
            init: pod.is_finishing_init(&container.name),
            exclusive,
            change: match changeable {
                true => change(pod, container, pod_level),
                false => Vec::new(),
            },
            shared,
        }
    };
    CpuReasons {
        qos,
        qos_reason: qos_reason(pod, qos),
        containers: pod.all_containers().map(of).collect(),
    }
}

/// The pod with these amounts as requests and limits.
#[must_use]
pub fn with_changes(pod: &Pod, changes: &[AmountChange]) -> Pod {
    let mut pod = pod.clone();
    let Pod {
        init_containers,
        containers,
        ..
    } = &mut pod;
    for container in init_containers.iter_mut().chain(containers) {
        for change in changes {
            if change.container == container.name {
                let resource = &change.resource;
                container.requests.insert(resource.clone(), change.to);
                container.limits.insert(resource.clone(), change.to);
            }
        }
    }
    pod
}

fn shared(demand: &PodDemand<'_>, container: &Container, is_static: bool) -> SharedReason {
    let pod = demand.pod();
    if !is_static {
        return SharedReason::PolicyNone;
    }
    if demand.is_ignored() {
        return SharedReason::PodLevelResources;
    }
    if QosClass::of(pod) != QosClass::Guaranteed {
        return SharedReason::NotGuaranteed;
    }
    match positive(&container.requests, "cpu") {
        None => SharedReason::NoCpuRequest,
        Some(request) if request.value() <= 0 => SharedReason::Overflow(request),
        Some(request) if !is_whole(request) => SharedReason::Fraction(request),
        Some(_) => SharedReason::NotGuaranteedAlone,
    }
}

fn positive(list: &ResourceList, name: &str) -> Option<Quantity> {
    list.get(name).copied().filter(Quantity::is_positive)
}

fn is_whole(cpus: Quantity) -> bool {
    cpus.value().wrapping_mul(1000) == cpus.milli_value()
}

fn qos_reason(pod: &Pod, qos: QosClass) -> Option<QosReason> {
    match qos {
        QosClass::Guaranteed => return None,
        QosClass::BestEffort => return Some(QosReason::NothingRequested),
        QosClass::Burstable => {}
    }
    let empty = ResourceList::new();
    if pod.pod_requests.is_some() || pod.pod_limits.is_some() {
        let requests = pod.pod_requests.as_ref().unwrap_or(&empty);
        let limits = pod.pod_limits.as_ref().unwrap_or(&empty);
        return difference(None, requests, limits);
    }
    pod.all_containers().find_map(|container| {
        let name = Some(&container.name);
        difference(name, &container.requests, &container.limits)
    })
}

fn difference(
    container: Option<&ContainerName>,
    requests: &ResourceList,
    limits: &ResourceList,
) -> Option<QosReason> {
    ["cpu", "memory"].into_iter().find_map(|name| {
        let (request, limit) = (positive(requests, name), positive(limits, name));
        let (container, resource) = (container.cloned(), ResourceName::from(name));
        match (request, limit) {
            (request, None) => Some(QosReason::NoLimit {
                container,
                resource,
                request,
            }),
            (request, Some(limit)) if request != Some(limit) => Some(QosReason::Differs {
                container,
                resource,
                request: request.unwrap_or_default(),
                limit,
            }),
            _ => None,
        }
    })
}

/// The fewest amounts that make the pod Guaranteed and the container's CPUs whole; empty if that is not enough.
fn change(pod: &Pod, container: &Container, pod_level: PodLevel) -> Vec<AmountChange> {
    let mut changes = Vec::new();
    let has_pod_level = pod.pod_requests.is_some() || pod.pod_limits.is_some();
    for other in pod.all_containers() {
        let is_target = other.name == container.name;
        if has_pod_level && !is_target {
            continue;
        }
        for name in ["cpu", "memory"] {
            let (request, limit) = (
                positive(&other.requests, name),
                positive(&other.limits, name),
            );
            // Amounts that nothing is known about: small ones.
            let least = match (name, is_target) {
                ("cpu", true) => Quantity::from(1),
                ("cpu", false) => Quantity::milli(100),
                _ => Quantity::bytes(128 << 20),
            };
            let mut to = limit.or(request).unwrap_or(least);
            if is_target && name == "cpu" && !is_whole(to) {
                to = Quantity::from(to.value());
            }
            if request != Some(to) || limit != Some(to) {
                changes.push(AmountChange {
                    container: other.name.clone(),
                    resource: name.into(),
                    to,
                });
            }
        }
    }
    let changed = with_changes(pod, &changes);
    let target = changed.container(&container.name);
    let demand = PodDemand::new(&changed, pod_level);
    let cpus = target.map_or(0, |target| demand.container_cpus(target));
    match cpus {
        0 => Vec::new(),
        _ => changes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> ResourceList {
        let entries = text.split_whitespace().map(|entry| {
            let (name, amount) = entry.split_once('=').expect("name=amount");
            (name.into(), amount.parse().expect("a quantity"))
        });
        entries.collect()
    }

    /// A pod of containers `name: requests / limits`.
    fn pod(containers: &[&str]) -> Pod {
        let container = |text: &&str| {
            let (name, amounts) = text.split_once(':').expect("a name");
            let (requests, limits) = amounts.split_once('/').expect("two lists");
            Container {
                name: name.into(),
                restartable: false,
                requests: list(requests),
                limits: list(limits),
            }
        };
        Pod {
            uid: "pod".into(),
            name: String::new(),
            init_containers: Vec::new(),
            containers: containers.iter().map(container).collect(),
            pod_requests: None,
            pod_limits: None,
        }
    }

    fn written(changes: &[AmountChange]) -> String {
        let parts = changes
            .iter()
            .map(|change| format!("{} {}={}", change.container, change.resource, change.to));
        parts.collect::<Vec<_>>().join(", ")
    }

    const WHOLE: &str = "a: cpu=2 memory=1Gi / cpu=2 memory=1Gi";

    #[test]
    fn every_shared_container_has_its_reason_and_a_change_that_works() {
        use SharedReason::{Fraction, NotGuaranteed};
        let half = "3500m".parse().expect("a quantity");
        for (containers, of, reason, change) in [
            (vec![WHOLE], 0, None, ""),
            (
                vec![WHOLE, "p: cpu=100m memory=64Mi / memory=64Mi"],
                0,
                Some(NotGuaranteed),
                "p cpu=100m",
            ),
            (
                vec![WHOLE, "p: cpu=100m memory=64Mi / cpu=200m memory=64Mi"],
                0,
                Some(NotGuaranteed),
                "p cpu=200m",
            ),
            (
                vec![WHOLE, "p: /"],
                0,
                Some(NotGuaranteed),
                "p cpu=100m, p memory=128Mi",
            ),
            (
                vec!["a: cpu=3500m memory=1Gi / cpu=3500m memory=1Gi"],
                0,
                Some(Fraction(half)),
                "a cpu=4",
            ),
            (
                vec!["a: /"],
                0,
                Some(NotGuaranteed),
                "a cpu=1, a memory=128Mi",
            ),
        ] {
            let pod = pod(&containers);
            let found = reasons(&pod, true, PodLevel::Ignored);
            let found = &found.containers[of];
            assert_eq!(found.shared, reason, "{containers:?}");
            assert_eq!(written(&found.change), change, "{containers:?}");
            let changed = with_changes(&pod, &found.change);
            let again = reasons(&changed, true, PodLevel::Ignored);
            assert!(again.containers[of].exclusive > 0, "{containers:?}");
        }
    }

    #[test]
    fn the_container_that_decides_the_class_is_named() {
        let burstable = pod(&[WHOLE, "p: cpu=100m / "]);
        let reason = reasons(&burstable, true, PodLevel::Ignored).qos_reason;
        assert_eq!(
            reason,
            Some(QosReason::NoLimit {
                container: Some("p".into()),
                resource: "cpu".into(),
                request: Some(Quantity::milli(100)),
            })
        );
        let nothing = reasons(&pod(&["a: /"]), true, PodLevel::Ignored);
        assert_eq!(nothing.qos_reason, Some(QosReason::NothingRequested));
    }

    #[test]
    fn without_the_static_policy_no_change_of_the_pod_helps() {
        let found = reasons(&pod(&[WHOLE]), false, PodLevel::Ignored);
        assert_eq!(found.containers[0].shared, Some(SharedReason::PolicyNone));
        assert_eq!(found.containers[0].change, []);
    }

    #[test]
    fn pod_level_resources_are_not_managed_by_default() {
        let mut pod = pod(&[WHOLE]);
        pod.pod_requests = Some(list("cpu=2 memory=1Gi"));
        pod.pod_limits = Some(list("cpu=2 memory=1Gi"));
        let found = reasons(&pod, true, PodLevel::Ignored);
        assert_eq!(
            found.containers[0].shared,
            Some(SharedReason::PodLevelResources)
        );
        let found = reasons(&pod, true, PodLevel::Managed);
        assert_eq!(found.containers[0].exclusive, 2);
    }
}
