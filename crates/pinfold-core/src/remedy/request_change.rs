//! [`RequestChange`]: finds the amounts of a pod's spec and replaces one of them.

use super::{Alteration, RemedyScope, RemedySize, RequestChange};
use crate::decision::ResourceManager;
use crate::demand::{self, PodDemand};
use crate::ledger::Ledger;
use crate::name::{ContainerName, ResourceName};
use crate::pod::{Container, Pod, ResourceList};
use crate::quantity::Quantity;

/// Memory amounts are proposed in steps of this many bytes.
const MIB: u64 = 1 << 20;

/// An amount of a pod's spec that can be changed.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The amount, initially unchanged.
    pub(super) change: RequestChange,
    /// The smallest valid amount: a Guaranteed pod keeps its class, and pod-level amounts cover the containers.
    pub(super) least: u64,
    /// Amounts are multiples of this.
    pub(super) grain: u64,
}

impl Slot {
    /// All amounts of a pod that a manager of this ledger allocates, in the order of the pod.
    pub(super) fn all(ledger: &Ledger, pod: &Pod) -> Vec<Slot> {
        let demand = PodDemand::new(pod, ledger.rules().pod_level());
        let guaranteed = demand.is_guaranteed() && !demand.is_ignored();
        let has_cpus = guaranteed && ledger.rules().has_exclusive_cpus();
        let has_memory = guaranteed && !ledger.state().memory().nodes().is_empty();
        // CPUs and memory of one container, or of the pod as a whole.
        let managed = |container: Option<&Container>| {
            let (cpus, memory) = match container {
                Some(container) => (
                    demand.container_cpus(container),
                    demand.container_memory(container),
                ),
                None => (demand.pod_cpus(), demand.pod_memory()),
            };
            let cpus = has_cpus.then(|| ("cpu".into(), ResourceManager::Cpu, cpus as u64));
            let memory = memory.ok().filter(|_| has_memory).into_iter().flatten();
            let memory = memory.map(|(resource, bytes)| (resource, ResourceManager::Memory, bytes));
            cpus.into_iter().chain(memory)
        };
        let mut slots = Vec::new();
        if demand.is_managed_as_whole() {
            let containers = Pod {
                pod_requests: None,
                pod_limits: None,
                ..pod.clone()
            };
            let covered = demand::effective_requests(&containers);
            for (resource, manager, from) in managed(None) {
                let least = covered.get(&resource).map_or(0, Quantity::value);
                slots.extend(Slot::of(None, resource, manager, from, Some(least)));
            }
        }
        for container in pod.all_containers() {
            let pool = ledger.state().pool();
            let devices = container.limits.iter();
            let devices = devices.filter(|(resource, _)| pool.devices(resource).is_some());
            let devices = devices.map(|(resource, amount)| {
                let count = u64::try_from(amount.value()).unwrap_or(0);
                (resource.clone(), ResourceManager::Device, count)
            });
            for (resource, manager, from) in managed(Some(container)).chain(devices) {
                let name = Some(container.name.clone());
                slots.extend(Slot::of(name, resource, manager, from, None));
            }
        }
        slots
    }

    /// `covered` is what the containers request of a pod-level amount, which must not be smaller.
    fn of(
        container: Option<ContainerName>,
        resource: ResourceName,
        manager: ResourceManager,
        from: u64,
        covered: Option<i64>,
    ) -> Option<Slot> {
        let is_memory = resource.as_str() == "memory";
        let grain = match manager {
            ResourceManager::Memory if is_memory => MIB,
            ResourceManager::Memory => page_size(&resource),
            ResourceManager::Cpu | ResourceManager::Device => 1,
        };
        let least = match covered {
            Some(covered) => u64::try_from(covered).unwrap_or(0).max(grain),
            None if is_memory || manager == ResourceManager::Cpu => grain,
            None => 0,
        };
        (from > 0).then_some(Slot {
            change: RequestChange {
                container,
                resource,
                manager,
                from,
                to: from,
            },
            least,
            grain,
        })
    }

    /// The change to another amount.
    pub(super) fn to(&self, to: u64) -> RequestChange {
        RequestChange {
            to,
            ..self.change.clone()
        }
    }
}

/// The page size in a hugepages resource name; 1 MiB if there is none.
fn page_size(resource: &ResourceName) -> u64 {
    let size = resource.as_str().strip_prefix("hugepages-");
    let size = size.and_then(|size| size.parse::<Quantity>().ok());
    size.and_then(|size| u64::try_from(size.value()).ok())
        .filter(|&size| size > 0)
        .unwrap_or(MIB)
}

impl RequestChange {
    /// The relative difference of the amounts in thousandths, rounded up.
    pub(super) fn difference(&self) -> u64 {
        let parts = u128::from(self.from.abs_diff(self.to)) * 1000;
        u64::try_from(parts.div_ceil(u128::from(self.from.max(1)))).unwrap_or(u64::MAX)
    }

    /// Writes the amount into `pod`: the request, and the limit by the same difference, so that the QoS class stays.
    /// `None` if the pod has no such amount or the limit would become zero.
    #[must_use]
    pub fn apply(&self, pod: &mut Pod) -> Option<()> {
        let mut found = None;
        for list in self.lists(pod)?.into_iter().flatten() {
            if let Some(amount) = list.get_mut(&self.resource) {
                *amount = self.shifted(*amount)?;
                found = Some(());
            }
        }
        found
    }

    /// The requests and limits that contain the amount.
    fn lists<'p>(&self, pod: &'p mut Pod) -> Option<[Option<&'p mut ResourceList>; 2]> {
        let Some(name) = &self.container else {
            return Some([pod.pod_requests.as_mut(), pod.pod_limits.as_mut()]);
        };
        let mut all = pod.init_containers.iter_mut().chain(&mut pod.containers);
        let container = all.find(|container| container.name == *name)?;
        Some([Some(&mut container.requests), Some(&mut container.limits)])
    }

    /// `amount` changed by the difference. Devices have one amount only.
    fn shifted(&self, amount: Quantity) -> Option<Quantity> {
        let (from, to) = (i128::from(self.from), i128::from(self.to));
        let count = |amount: i128| i64::try_from(amount).ok();
        let positive = |amount: i128| count(amount).filter(|&amount| amount > 0);
        match self.manager {
            ResourceManager::Device => count(to * 1000).map(Quantity::milli),
            ResourceManager::Cpu => {
                positive(i128::from(amount.milli_value()) + (to - from) * 1000).map(Quantity::milli)
            }
            ResourceManager::Memory if to == 0 => Some(Quantity::bytes(0)),
            ResourceManager::Memory => {
                positive(i128::from(amount.value()) + to - from).map(Quantity::bytes)
            }
        }
    }
}

impl Alteration {
    /// The pod after the change; unchanged if the change does not affect the pod.
    #[must_use]
    pub fn pod(&self, pod: &Pod) -> Option<Pod> {
        let mut changed = pod.clone();
        if let Alteration::Request(changes) = self {
            for change in changes {
                change.apply(&mut changed)?;
            }
        }
        Some(changed)
    }
}

impl RemedySize {
    /// The size of a change of the pod: the largest difference of its parts.
    pub(super) fn of_changes(changes: &[RequestChange]) -> Self {
        RemedySize {
            scope: RemedyScope::Pod,
            amount: changes
                .iter()
                .map(RequestChange::difference)
                .max()
                .unwrap_or(0),
            loss: 0,
        }
    }
}
