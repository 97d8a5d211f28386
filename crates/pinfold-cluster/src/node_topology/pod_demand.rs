//! The requests of a pod as the plugin computes them.

use super::resource_kinds::is_native;
use crate::node_topology::TopologyMatchDefects;
use pinfold_core::demand::{add_amounts, raise_amount};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::pod::{Pod, ResourceList};
use pinfold_core::qos::QosClass;

/// A pod and its overhead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopologyPodRequest<'a> {
    /// The pod.
    pub(crate) pod: &'a Pod,
    /// The overhead its runtime class declares.
    pub(crate) overhead: &'a ResourceList,
}

impl TopologyPodRequest<'_> {
    /// The QoS class of the pod.
    #[must_use]
    pub(crate) fn qos(&self) -> QosClass {
        QosClass::of(self.pod)
    }

    /// Whether some container lists a device in its requests, even with amount 0.
    #[must_use]
    pub(crate) fn names_a_device(&self) -> bool {
        let mut names = self
            .pod
            .all_containers()
            .flat_map(|container| container.requests.keys());
        names.any(|name| !is_native(name.as_str()))
    }

    /// The effective requests of the pod, overhead included. Mirrors `GetPodEffectiveRequest`, which treats sidecars as
    /// init containers that terminate; sound mode adds their requests to those of all later containers.
    #[must_use]
    pub(crate) fn effective(&self, fidelity: Fidelity) -> ResourceList {
        let mut peak = ResourceList::new();
        let mut running = ResourceList::new();
        for container in &self.pod.init_containers {
            if container.restartable && !fidelity.treats_sidecars_as_init_containers() {
                add_amounts(&mut running, &container.requests);
            } else {
                let mut now = running.clone();
                add_amounts(&mut now, &container.requests);
                raise(&mut peak, &now);
            }
        }
        for container in &self.pod.containers {
            add_amounts(&mut running, &container.requests);
        }
        raise(&mut peak, &running);
        add_amounts(&mut peak, self.overhead);
        peak
    }
}

/// Raises each amount to the larger of the two.
fn raise(peak: &mut ResourceList, other: &ResourceList) {
    for (name, quantity) in other {
        raise_amount(peak, name, *quantity);
    }
}
