//! The QoS class that Kubernetes derives from a pod's requests and limits.
//!
//! Mirrors `ComputePodQOS`. Only CPU and memory count, and only amounts above zero. Pod-level resources, if the spec
//! has them, decide alone; otherwise all containers do, init containers included. *Guaranteed* needs limits for both
//! resources (in every container) and the sums of the requests equal to the sums of the limits; *BestEffort* has
//! neither requests nor limits.

use serde::{Deserialize, Serialize};

use crate::pod::{Container, Pod, ResourceList};
use crate::quantity::Quantity;

/// Kubernetes' three QoS classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QosClass {
    /// Every container has CPU and memory limits and requests equal to them.
    Guaranteed,
    /// Something is requested or limited, but not everything.
    Burstable,
    /// There are no requests and no limits.
    BestEffort,
}

/// CPU and memory amounts above zero.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct QosSums {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

impl QosSums {
    fn of(list: &ResourceList) -> Self {
        let positive = |name| list.get(name).copied().filter(Quantity::is_positive);
        Self {
            cpu: positive("cpu"),
            memory: positive("memory"),
        }
    }

    fn add(&mut self, other: QosSums) {
        let plus = |a: Option<Quantity>, b: Option<Quantity>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (one, None) | (None, one) => one,
        };
        self.cpu = plus(self.cpu, other.cpu);
        self.memory = plus(self.memory, other.memory);
    }

    fn has_both(self) -> bool {
        self.cpu.is_some() && self.memory.is_some()
    }
}

impl QosClass {
    /// The class of `pod`.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        if pod.pod_requests.is_none() && pod.pod_limits.is_none() {
            return Self::of_containers(pod);
        }
        let sums = |list: &Option<ResourceList>| list.as_ref().map(QosSums::of).unwrap_or_default();
        let limits = sums(&pod.pod_limits);
        Self::of_sums(sums(&pod.pod_requests), limits, limits.has_both())
    }

    /// The class of `pod` for a kubelet that does not know pod-level resources.
    #[must_use]
    pub fn of_containers(pod: &Pod) -> Self {
        let mut requests = QosSums::default();
        let mut limits = QosSums::default();
        let mut limited = true;
        for container in pod.all_containers() {
            let own_limits = QosSums::of(&container.limits);
            limited &= own_limits.has_both();
            limits.add(own_limits);
            requests.add(QosSums::of(&container.requests));
        }
        Self::of_sums(requests, limits, limited)
    }

    fn of_sums(requests: QosSums, limits: QosSums, limited: bool) -> Self {
        if requests == QosSums::default() && limits == QosSums::default() {
            QosClass::BestEffort
        } else if limited && requests == limits {
            QosClass::Guaranteed
        } else {
            QosClass::Burstable
        }
    }
}

/// Whether a container would be Guaranteed by itself: CPU and memory requests above zero and equal to the limits.
/// Mirrors `IsContainerEquivalentQOSGuaranteed`.
pub(crate) fn is_guaranteed_alone(container: &Container) -> bool {
    let amount = |list: &ResourceList, name: &str| list.get(name).copied().unwrap_or_default();
    ["cpu", "memory"].into_iter().all(|name| {
        let request = amount(&container.requests, name);
        !request.is_zero() && request == amount(&container.limits, name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> ResourceList {
        text.split_whitespace()
            .map(|entry| {
                let (name, amount) = entry.split_once('=').expect("name=amount");
                (name.into(), amount.parse().expect("a quantity"))
            })
            .collect()
    }

    fn container(requests: &str, limits: &str) -> Container {
        Container {
            name: "c".into(),
            restartable: false,
            requests: list(requests),
            limits: list(limits),
        }
    }

    fn pod(containers: Vec<Container>) -> Pod {
        Pod::new("pod", containers)
    }

    #[test]
    fn cpu_and_memory_of_the_containers_decide() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        for (requests, limits, class) in [
            ("", "", BestEffort),
            ("cpu=0 memory=0", "cpu=0", BestEffort),
            ("cpu=-1", "", BestEffort),
            ("example.com/gpu=1", "example.com/gpu=1", BestEffort),
            ("cpu=1", "", Burstable),
            ("", "memory=1Gi", Burstable),
            ("", "cpu=1 memory=1Gi", Burstable),
            ("cpu=1 memory=1Gi", "cpu=1 memory=1Gi", Guaranteed),
            ("cpu=1000m memory=1024Mi", "cpu=1 memory=1Gi", Guaranteed),
            ("cpu=1 memory=1Gi", "cpu=2 memory=1Gi", Burstable),
            ("cpu=1 memory=0", "cpu=1 memory=0", Burstable),
            (
                "cpu=1 memory=1 hugepages-2Mi=2Mi",
                "cpu=1 memory=1",
                Guaranteed,
            ),
        ] {
            let pod = pod(vec![container(requests, limits)]);
            assert_eq!(QosClass::of(&pod), class, "{requests:?} {limits:?}");
        }
    }

    #[test]
    fn an_init_container_without_limits_spoils_guaranteed() {
        let good = || container("cpu=1 memory=1Gi", "cpu=1 memory=1Gi");
        let mut pod = pod(vec![good()]);
        pod.init_containers = vec![good()];
        assert_eq!(QosClass::of(&pod), QosClass::Guaranteed);
        pod.init_containers = vec![container("", "")];
        assert_eq!(QosClass::of(&pod), QosClass::Burstable);
    }

    #[test]
    fn only_the_sums_of_requests_and_limits_are_compared() {
        let pod = pod(vec![
            container("cpu=1 memory=1Gi", "cpu=2 memory=1Gi"),
            container("cpu=2 memory=1Gi", "cpu=1 memory=1Gi"),
        ]);
        assert_eq!(QosClass::of(&pod), QosClass::Guaranteed);
    }

    #[test]
    fn pod_level_resources_alone_decide_when_there_are_any() {
        let mut pod = pod(vec![container("cpu=1", "")]);
        pod.pod_requests = Some(list("cpu=4 memory=1Gi"));
        assert_eq!(QosClass::of(&pod), QosClass::Burstable);
        pod.pod_limits = Some(list("cpu=4 memory=1Gi"));
        assert_eq!(QosClass::of(&pod), QosClass::Guaranteed);
        pod.pod_requests = Some(list("cpu=4"));
        assert_eq!(QosClass::of(&pod), QosClass::Burstable);
        pod.pod_requests = Some(ResourceList::new());
        pod.pod_limits = None;
        assert_eq!(QosClass::of(&pod), QosClass::BestEffort);
    }

    #[test]
    fn a_container_is_guaranteed_alone_with_equal_requests_and_limits() {
        for (requests, limits, guaranteed) in [
            ("cpu=1 memory=1Gi", "cpu=1 memory=1Gi", true),
            ("cpu=1 memory=1Gi", "cpu=1 memory=2Gi", false),
            ("cpu=1 memory=0", "cpu=1 memory=0", false),
            ("memory=1Gi", "memory=1Gi", false),
            ("", "", false),
        ] {
            let container = container(requests, limits);
            assert_eq!(is_guaranteed_alone(&container), guaranteed, "{requests:?}");
        }
    }
}
