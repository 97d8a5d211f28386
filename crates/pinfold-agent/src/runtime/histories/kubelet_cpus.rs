//! [`KubeletCpus`]: the static CPU manager of a played kubelet, before the agent takes the node over.

use std::collections::BTreeMap;

use pinfold_core::cpu::ContainerCpus;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::pod::Pod;

/// The `cpu_manager_state` of the played kubelet. It takes the highest free CPUs, so that it rarely agrees with the agent.
pub(super) struct KubeletCpus {
    /// Exclusive CPUs by pod and container.
    pub(super) assigned: ContainerCpus,
    all: CpuSet,
    reserved: CpuSet,
}

impl KubeletCpus {
    pub(super) fn new(all: CpuSet, reserved: CpuSet) -> Self {
        Self {
            assigned: ContainerCpus::default(),
            all,
            reserved,
        }
    }

    /// The CPUs of containers without exclusive ones.
    pub(super) fn default_set(&self) -> CpuSet {
        let containers = self.assigned.values().flat_map(BTreeMap::values);
        containers.fold(self.all.clone(), |rest, cpus| &rest - cpus)
    }

    /// Assigns the CPUs of a pod's containers. A container takes those of the pod's init containers first.
    /// Returns whether there were enough.
    pub(super) fn admit(&mut self, uid: &PodUid, pod: &Pod) -> bool {
        if self.assigned.contains_key(uid) {
            return true;
        }
        let mut free = &self.default_set() - &self.reserved;
        let mut reusable = CpuSet::new();
        let mut assigned = BTreeMap::new();
        let init = pod.init_containers.iter().map(|one| (one, true));
        for (container, is_init) in init.chain(pod.containers.iter().map(|one| (one, false))) {
            let cpus = container.limits.get("cpu").filter(|_| {
                container.requests.get("cpu") == container.limits.get("cpu")
                    && container.limits.contains_key("memory")
            });
            let milli = cpus.map_or(0, pinfold_core::quantity::Quantity::milli_value);
            let Some(count) = usize::try_from(milli / 1000)
                .ok()
                .filter(|_| milli % 1000 == 0)
            else {
                continue;
            };
            let kept = reusable.iter().take(count);
            let taken: Vec<_> = kept
                .chain(free.iter().collect::<Vec<_>>().into_iter().rev())
                .take(count)
                .collect();
            if taken.len() < count {
                return false;
            }
            let taken: CpuSet = taken.into_iter().collect();
            free = &free - &taken;
            match is_init {
                true => reusable |= &taken,
                false => reusable = &reusable - &taken,
            }
            if !taken.is_empty() {
                assigned.insert(container.name.clone(), taken);
            }
        }
        if !assigned.is_empty() {
            self.assigned.insert(uid.clone(), assigned);
        }
        true
    }

    /// The CPUs of a container.
    pub(super) fn of(&self, pod: &PodUid, container: &ContainerName) -> CpuSet {
        let own = self.assigned.get(pod).and_then(|pod| pod.get(container));
        own.cloned().unwrap_or_else(|| self.default_set())
    }
}
