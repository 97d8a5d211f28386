//! [`Request`]: what somebody wants for a command, and the pod that says so in the engine's words.

use pinfold_core::name::ResourceName;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::quantity::Quantity;

/// What is asked for one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// CPUs. A whole number gets CPUs of its own; a fraction, or nothing, runs in the shared pool.
    pub cpus: Option<Quantity>,
    /// Memory in bytes. Without it the command may use memory of all nodes.
    pub memory: Option<Quantity>,
    /// Hugepages in bytes, by resource name (`hugepages-2Mi`).
    pub hugepages: ResourceList,
    /// Keep every other process of the machine off the CPUs, not just other runs.
    pub exclusive: bool,
}

impl Request {
    /// Whether memory is booked for it.
    #[must_use]
    pub fn books_memory(&self) -> bool {
        self.memory.is_some() || !self.hugepages.is_empty()
    }

    /// The pod of one container that asks for this.
    ///
    /// Only pods whose containers state both CPU and memory get CPUs or memory of their own. What was left open is
    /// stated as the smallest amount there is: a thousandth of a CPU, one byte. The byte is booked only beside
    /// hugepages.
    #[must_use]
    pub fn pod(&self, id: u64, command: &str) -> Pod {
        let mut amounts = self.hugepages.clone();
        if self.cpus.is_some() || self.books_memory() {
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
    fn whoever_asks_for_anything_is_guaranteed_and_who_asks_for_nothing_is_not() {
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
            let request = Request {
                cpus,
                memory,
                hugepages,
                exclusive: false,
            };
            assert_eq!(QosClass::of(&request.pod(1, "x")), class, "{request:?}");
        }
    }
}
