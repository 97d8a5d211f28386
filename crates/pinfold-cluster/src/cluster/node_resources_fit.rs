//! Whether a pod's requests fit into what is left of a node's allocatable.
//!
//! Mirrors `fitsRequest` of kube-scheduler's `NodeResourcesFit`, which runs beside every dialect: each requested amount
//! above zero has to fit into the allocatable minus the requests of the node's pods, and the number of pods has to stay
//! within `pods`. Of a resource that allocatable does not list the node has 0; without `pods` there is no limit.

use std::fmt;

use smallvec::SmallVec;

use crate::koordinator::amounts::{Amounts, CPU, MILLI};
use pinfold_core::name::ResourceName;
use pinfold_core::quantity::Quantity;

/// The name under which allocatable lists the maximum number of pods.
pub const PODS: &str = "pods";

/// A resource of which a pod requests more than the node has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The resource.
    pub resource: ResourceName,
    /// The amount that the pod requests: milli-CPUs for `cpu`, whole units for everything else.
    pub requested: i64,
    /// The amount that the node has left.
    pub free: i64,
}

/// The reason in the words of kube-scheduler.
impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resource.as_str() {
            PODS => f.write_str("Too many pods"),
            name => write!(f, "Insufficient {name}"),
        }
    }
}

impl Shortage {
    /// The amounts: `4 asked, 1500m left`.
    #[must_use]
    pub fn amounts(&self) -> String {
        let text = |amount: i64| match self.resource.as_str() {
            CPU if amount % MILLI == 0 => (amount / MILLI).to_string(),
            CPU => format!("{amount}m"),
            name if is_bytes(name) => Quantity::bytes(amount).to_string(),
            _ => amount.to_string(),
        };
        format!("{} asked, {} left", text(self.requested), text(self.free))
    }
}

/// Whether a resource is counted in bytes.
fn is_bytes(name: &str) -> bool {
    matches!(name, "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// The resources of which a node with `used` out of `allocatable` has too little for these requests.
#[must_use]
pub fn shortages(
    requests: &Amounts,
    used: &Amounts,
    allocatable: &Amounts,
) -> SmallVec<[Shortage; 1]> {
    let mut short = SmallVec::new();
    let left = |name: &str| allocatable.get(name).saturating_sub(used.get(name));
    if allocatable.contains(PODS) && left(PODS) < 1 {
        short.push(Shortage {
            resource: PODS.into(),
            requested: 1,
            free: left(PODS),
        });
    }
    for (resource, requested) in requests.iter().filter(|&(_, requested)| requested > 0) {
        let free = left(resource.as_str());
        if requested > free {
            short.push(Shortage {
                resource: resource.clone(),
                requested,
                free,
            });
        }
    }
    short
}

/// Adds the requests of one pod to the used amounts.
pub(super) fn add_pod(used: &mut Amounts, requests: &Amounts) {
    used.add(requests);
    used.set(&PODS.into(), used.get(PODS).saturating_add(1));
}

/// Subtracts the requests of one pod from the used amounts.
pub(super) fn subtract_pod(used: &mut Amounts, requests: &Amounts) {
    for (name, amount) in requests.iter() {
        used.set(name, used.get(name.as_str()).saturating_sub(amount));
    }
    used.set(&PODS.into(), used.get(PODS).saturating_sub(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_resource_is_listed_with_its_amounts() {
        let allocatable = Amounts::from([("cpu", 4000), ("memory", 3 << 30), ("pods", 1)]);
        let used = Amounts::from([("cpu", 2500), ("memory", 2 << 30), ("pods", 1)]);
        let requests = Amounts::from([("cpu", 2000), ("memory", 2 << 30), ("vendor.com/gpu", 1)]);
        let short = shortages(&requests, &used, &allocatable);
        let texts: Vec<String> = short
            .iter()
            .map(|short| format!("{short}: {}", short.amounts()))
            .collect();
        let expected = [
            "Too many pods: 1 asked, 0 left",
            "Insufficient cpu: 2 asked, 1500m left",
            "Insufficient memory: 2Gi asked, 1Gi left",
            "Insufficient vendor.com/gpu: 1 asked, 0 left",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_request_of_zero_always_fits() {
        let requests = Amounts::from([("cpu", 0), ("vendor.com/gpu", 0)]);
        let overfull = Amounts::from([("cpu", 9000)]);
        assert!(shortages(&requests, &overfull, &Amounts::new()).is_empty());
    }

    #[test]
    fn subtracting_a_pod_restores_the_used_amounts() {
        let requests = Amounts::from([("cpu", 2000)]);
        let mut used = Amounts::from([("cpu", 500), ("pods", 3)]);
        let before = used.clone();
        add_pod(&mut used, &requests);
        assert_eq!((used.get("cpu"), used.get(PODS)), (2500, 4));
        subtract_pod(&mut used, &requests);
        assert_eq!(used, before);
    }
}
