//! The total of the resources of a pod's containers.
//!
//! Mirrors `AggregateContainerRequests`: app containers and sidecars run together; an init container runs together with
//! the sidecars before it; the larger sum counts.

use pinfold_core::pod::{Container, ResourceList};

/// The total of one list per container, over the lifetime of the pod.
pub(crate) fn aggregate(
    init_containers: &[Container],
    containers: &[Container],
    list: fn(&Container) -> &ResourceList,
) -> ResourceList {
    let mut running = ResourceList::new();
    for container in containers {
        add(&mut running, list(container));
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in init_containers {
        let mut needed = sidecars.clone();
        add(&mut needed, list(container));
        if container.restartable {
            add(&mut running, list(container));
            sidecars.clone_from(&needed);
        }
        raise(&mut starting, needed);
    }
    raise(&mut running, starting);
    running
}

fn add(sum: &mut ResourceList, list: &ResourceList) {
    for (name, amount) in list {
        sum.entry(name.clone())
            .and_modify(|total| *total += *amount)
            .or_insert(*amount);
    }
}

fn raise(most: &mut ResourceList, list: ResourceList) {
    for (name, amount) in list {
        most.entry(name)
            .and_modify(|own| *own = amount.max(*own))
            .or_insert(amount);
    }
}
