//! The sums: whether a node has room for a pod as a whole.
//!
//! Mirrors `fitsRequest` of the stock scheduler's `NodeResourcesFit`, which every dialect runs beside: each requested
//! amount above zero has to fit into what the node's pods leave of its allocatable, and one more pod into its number of
//! pods. A resource that the node does not list is not there; a node that lists no `pods` has no such limit.

use std::fmt;

use smallvec::SmallVec;

use crate::koordinator::amounts::{Amounts, CPU, MILLI};
use crate::name::ResourceName;
use crate::quantity::Quantity;

/// The name under which allocatable lists how many pods a node takes.
pub const PODS: &str = "pods";

/// One resource a node has too little of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The resource.
    pub resource: ResourceName,
    /// What the pod asks for: thousandths for `cpu`, whole units for everything else.
    pub asked: i64,
    /// What is left for it.
    pub left: i64,
}

/// What the stock scheduler says.
impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resource.as_str() {
            PODS => f.write_str("Too many pods"),
            name => write!(f, "Insufficient {name}"),
        }
    }
}

impl Shortage {
    /// The amounts behind it: `4 asked, 1500m left`.
    #[must_use]
    pub fn amounts(&self) -> String {
        let text = |amount: i64| match self.resource.as_str() {
            CPU if amount % MILLI == 0 => (amount / MILLI).to_string(),
            CPU => format!("{amount}m"),
            name if is_bytes(name) => Quantity::bytes(amount).to_string(),
            _ => amount.to_string(),
        };
        format!("{} asked, {} left", text(self.asked), text(self.left))
    }
}

/// Whether a resource is counted in bytes.
fn is_bytes(name: &str) -> bool {
    matches!(name, "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// What is missing for one more pod with these requests.
pub(super) fn shortages(
    requests: &Amounts,
    used: &Amounts,
    allocatable: &Amounts,
) -> SmallVec<[Shortage; 1]> {
    let mut short = SmallVec::new();
    let left = |name: &str| allocatable.get(name).saturating_sub(used.get(name));
    if allocatable.contains(PODS) && left(PODS) < 1 {
        short.push(Shortage {
            resource: PODS.into(),
            asked: 1,
            left: left(PODS),
        });
    }
    for (resource, asked) in requests.iter().filter(|&(_, asked)| asked > 0) {
        let left = left(resource.as_str());
        if asked > left {
            short.push(Shortage {
                resource: resource.clone(),
                asked,
                left,
            });
        }
    }
    short
}

/// Counts one more pod.
pub(super) fn book(used: &mut Amounts, requests: &Amounts) {
    used.add(requests);
    used.set(&PODS.into(), used.get(PODS).saturating_add(1));
}

/// Counts one pod less.
pub(super) fn unbook(used: &mut Amounts, requests: &Amounts) {
    for (name, amount) in requests.iter() {
        used.set(name, used.get(name.as_str()).saturating_sub(amount));
    }
    used.set(&PODS.into(), used.get(PODS).saturating_sub(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_missing_is_named_with_its_amounts() {
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
    fn nothing_asked_is_never_too_much() {
        let requests = Amounts::from([("cpu", 0), ("vendor.com/gpu", 0)]);
        let overfull = Amounts::from([("cpu", 9000)]);
        assert!(shortages(&requests, &overfull, &Amounts::new()).is_empty());
    }

    #[test]
    fn a_pod_that_left_is_not_counted_any_more() {
        let requests = Amounts::from([("cpu", 2000)]);
        let mut used = Amounts::from([("cpu", 500), ("pods", 3)]);
        let before = used.clone();
        book(&mut used, &requests);
        assert_eq!((used.get("cpu"), used.get(PODS)), (2500, 4));
        unbook(&mut used, &requests);
        assert_eq!(used, before);
    }
}
