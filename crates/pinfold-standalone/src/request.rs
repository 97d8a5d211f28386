//! [`RunRequest`]: the resources requested for a command, and the pod that states them to the core.

use pinfold_core::name::ResourceName;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::quantity::Quantity;

/// The resources requested for one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRequest {
    /// CPUs. A whole number gets exclusive CPUs; a fraction, or `None`, runs in the shared pool.
    pub cpus: Option<Quantity>,
    /// Memory in bytes. Without it the command may use the memory of all NUMA nodes.
    pub memory: Option<Quantity>,
    /// Hugepages in bytes, by resource name (`hugepages-2Mi`).
    pub hugepages: ResourceList,
    /// Make the CPUs a cpuset partition, so that no other process of the machine runs on them.
    pub exclusive: bool,
}

impl RunRequest {
    /// Whether memory or hugepages are reserved for it.
    #[must_use]
    pub fn requests_memory(&self) -> bool {
        self.memory.is_some() || !self.hugepages.is_empty()
    }

    /// The pod of one container that requests these resources.
    ///
    /// Only Guaranteed pods get exclusive CPUs and memory, and those state both CPU and memory. What the request leaves
    /// out is set to the smallest amount: a thousandth of a CPU, one byte. The byte is reserved only together with
    /// hugepages.
    #[must_use]
    pub fn pod(&self, id: u64, command: &str) -> Pod {
        let mut amounts = self.hugepages.clone();
        if self.cpus.is_some() || self.requests_memory() {
            amounts.insert(name("cpu"), self.cpus.unwrap_or(Quantity::milli(1)));
            amounts.insert(name("memory"), self.memory.unwrap_or(Quantity::bytes(1)));
        }
        Pod {
            uid: format!("run-{id}").into(),
            name: format!("{id} {command}"),
            init_containers: Vec::new(),
            containers: vec![Container {
                name: "command".into(),
                restartable: false,
                requests: amounts.clone(),
                limits: amounts,
            }],
            pod_requests: None,
            pod_limits: None,
        }
    }
}

fn name(text: &str) -> ResourceName {
    ResourceName::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::qos::QosClass;

    #[test]
    fn a_request_for_any_resource_is_guaranteed_and_an_empty_one_is_best_effort() {
        let two = Some(Quantity::from(2));
        let some = Some(Quantity::bytes(1 << 20));
        let pages: ResourceList = [(name("hugepages-2Mi"), Quantity::bytes(2 << 20))].into();
        for (cpus, memory, hugepages, class) in [
            (None, None, ResourceList::new(), QosClass::BestEffort),
            (two, None, ResourceList::new(), QosClass::Guaranteed),
            (None, some, ResourceList::new(), QosClass::Guaranteed),
            (two, some, ResourceList::new(), QosClass::Guaranteed),
            (None, None, pages, QosClass::Guaranteed),
        ] {
            let request = RunRequest {
                cpus,
                memory,
                hugepages,
                exclusive: false,
            };
            assert_eq!(QosClass::of(&request.pod(1, "x")), class, "{request:?}");
        }
    }
}
