//! Copies of a ledger under other rules, in which pods keep exactly what they hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Ledger;
use super::rules::Rules;
use super::state::LedgerState;
use crate::cpu::CpuState;
use crate::cpu_set::CpuSet;
use crate::memory::MemoryState;
use crate::name::PodUid;

impl Ledger {
    /// The node under other rules, possibly for another machine, with only `pods`, which keep the CPUs, memory and devices
    /// that they hold. What the new rules do not manage is not held any more. `None` if they cannot keep it: CPUs are
    /// missing or reserved, or memory does not suffice.
    #[must_use]
    pub fn keeping(&self, rules: &Arc<Rules>, pods: &BTreeSet<&PodUid>) -> Option<Self> {
        let cpus = self.kept_cpus(rules, pods)?;
        let memory = self.kept_memory(rules, pods)?;
        let mut state = LedgerState {
            generation: self.state.generation,
            cpus,
            memory,
            pool: LedgerState::empty(rules).pool,
            devices: self.state.devices.clone(),
            admitted_pods: self.state.admitted_pods.clone(),
            reusable_cpus: None,
        };
        for resource in self.state.pool.resources() {
            let devices = self.state.pool.devices(resource).cloned();
            state
                .pool
                .set_devices(resource.clone(), devices.unwrap_or_default());
        }
        state.admitted_pods.retain(|pod, _| pods.contains(pod));
        for pod in self
            .state
            .admitted_pods
            .keys()
            .filter(|pod| !pods.contains(pod))
        {
            for edit in state.devices.remove_pod(pod) {
                state.devices.apply(&edit).ok()?;
            }
        }
        Self::from_journal(rules.clone(), state).ok()
    }

    fn kept_cpus(&self, rules: &Rules, pods: &BTreeSet<&PodUid>) -> Option<CpuState> {
        let Some(policy) = rules.cpus.as_static() else {
            return Some(CpuState::default());
        };
        let held = &self.state.cpus;
        let mut containers = held.containers().clone();
        containers.retain(|pod, _| pods.contains(pod));
        let mut of_pods = held.pods().clone();
        of_pods.retain(|pod, _| pods.contains(pod));
        let mut all = CpuSet::new();
        let of_containers = containers.values().flat_map(|one| one.values());
        of_containers
            .chain(of_pods.values())
            .for_each(|cpus| all |= cpus);
        let fits = all.is_subset(rules.topology.all()) && all.is_disjoint(policy.reserved());
        let mut shared = rules.topology.all() - &all;
        if policy.options().strict_reservation {
            shared = &shared - policy.reserved();
        }
        fits.then(|| CpuState::restored(shared, containers, of_pods))
    }

    fn kept_memory(&self, rules: &Rules, pods: &BTreeSet<&PodUid>) -> Option<MemoryState> {
        let Some(policy) = rules.memory.as_static() else {
            return Some(rules.memory.initial_state());
        };
        let mut containers = self.state.memory.assignments().clone();
        containers.retain(|pod, _| pods.contains(pod));
        let mut of_pods = self.state.memory.pod_assignments().clone();
        of_pods.retain(|pod, _| pods.contains(pod));
        let held = MemoryState::new(self.state.memory.nodes().clone(), containers, of_pods);
        policy.table_with_blocks_of(&held).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_set::CpuList;
    use crate::device::NoPreference;
    use crate::machine::{Machine, UniformMachine};
    use crate::memory::MemoryReservation;
    use crate::pod::Pod;
    use crate::policy::TopologyPolicy;
    use crate::quantity::Quantity;
    use crate::settings::{CpuManagerPolicy, MemoryManagerPolicy, Settings};

    fn rules(reserved: &str, memory_per_node: u64) -> Arc<Rules> {
        let machine = Machine::uniform(UniformMachine {
            sockets: 1,
            nodes_per_socket: 2,
            cores_per_node: 4,
            threads_per_core: 1,
            memory_per_node,
        });
        let reserved: CpuSet = reserved.parse().unwrap();
        let mebibyte = [("memory".into(), Quantity::from(1 << 20))];
        let settings = Settings {
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some(reserved.len().to_string().parse().unwrap()),
            reserved_cpus: Some(CpuList::from(&reserved)),
            memory_policy: MemoryManagerPolicy::Static,
            topology_policy: TopologyPolicy::Restricted,
            reserved_memory: vec![MemoryReservation {
                numa_node: 0,
                limits: mebibyte.clone().into(),
            }],
            node_reservation: mebibyte.into(),
            ..Settings::default()
        };
        Arc::new(Rules::new(Arc::new(machine.unwrap()), settings).unwrap())
    }

    #[test]
    fn pods_keep_exactly_what_they_hold_if_the_new_rules_have_it() {
        let mut ledger = Ledger::new(rules("0", 1 << 30));
        for uid in ["a", "b", "c"] {
            let amounts = [
                ("cpu", Quantity::from(2)),
                ("memory", Quantity::from(256 << 20)),
            ];
            let pod = Arc::new(Pod::guaranteed(uid, amounts));
            assert!(
                ledger
                    .admit(&pod, &mut NoPreference)
                    .unwrap()
                    .decision
                    .is_admitted()
            );
        }
        let (a, b, c) = ("a".into(), "b".into(), "c".into());
        assert_eq!(ledger.exclusive_cpus(&b).to_string(), "4-5");
        let same = ledger
            .keeping(ledger.rules(), &[&a, &b, &c].into())
            .unwrap();
        assert_eq!(same.state(), ledger.state());
        let kept = ledger
            .keeping(&rules("0,7", 1 << 30), &[&a, &b].into())
            .unwrap();
        assert_eq!(kept.assignment(&b), ledger.assignment(&b));
        assert!(kept.exclusive_cpus(&c).is_empty());
        assert_eq!(kept.audit(), []);
        let reserved = ledger.keeping(&rules("0,4", 1 << 30), &[&a, &b].into());
        assert!(reserved.is_none(), "CPU 4 is reserved");
        let small = ledger.keeping(&rules("0", 300 << 20), &[&b, &c].into());
        assert!(small.is_none(), "node 1 has memory for one pod only");
    }
}
