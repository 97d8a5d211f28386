//! Admits pods with given CPUs: chosen by a scheduler, or found pinned when the agent takes over a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::{Change, LedgerEvent};
use super::state::AdmittedPod;
use super::transaction::LedgerTransaction;
use super::{Admission, Ledger, LedgerError, check_containers};
use crate::cpu_set::CpuSet;
use crate::decision::{AdmissionResult, Rejection};
use crate::device::PreferredAllocation;
use crate::name::{ContainerName, PodUid};
use crate::pod::Pod;

/// Exclusive CPUs by container. Containers of one pod may share CPUs.
pub type GrantedCpus = BTreeMap<ContainerName, CpuSet>;

/// Why a pod cannot be admitted with the given CPUs. The ledger is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// The pod is invalid or admitted already.
    #[error(transparent)]
    Pod(#[from] LedgerError),
    /// The CPU manager policy is `none`.
    #[error("the CPU manager policy of this node is none: there are no exclusive CPUs")]
    NotManaged,
    /// CPUs that the machine does not have.
    #[error("CPUs {0} are not CPUs of this machine")]
    Unknown(CpuSet),
    /// CPUs that are reserved for the system.
    #[error("CPUs {0} are reserved for the system")]
    Reserved(CpuSet),
    /// CPUs that other pods hold exclusively.
    #[error("CPUs {cpus} are held by {}", pods(holders))]
    Taken {
        /// The CPUs.
        cpus: CpuSet,
        /// The pods that hold them.
        holders: Vec<PodUid>,
    },
    /// The topology policy rejects the pod with these CPUs.
    #[error("the topology policy rejects it: {}", .0.message)]
    Rejected(Box<Rejection>),
    /// The CPU manager would assign only these of the given CPUs.
    #[error("the CPU manager would assign only CPUs {0} of them")]
    Fewer(CpuSet),
}

fn pods(holders: &[PodUid]) -> String {
    let holders: Vec<&str> = holders.iter().map(PodUid::as_str).collect();
    holders.join(", ")
}

impl Ledger {
    /// Admits `pod` with these CPUs, without memory and devices. The topology policy is not applied: it already was
    /// when the CPUs were chosen.
    ///
    /// # Errors
    /// If the CPUs are not free, or the pod is invalid or admitted already.
    pub fn grant(&mut self, pod: &Arc<Pod>, cpus: &GrantedCpus) -> Result<Change, GrantError> {
        if self.state.admitted_pods.contains_key(&pod.uid) {
            return Err(LedgerError::AlreadyAdmitted(pod.uid.clone()).into());
        }
        check_containers(pod)?;
        if let Some(unknown) = cpus.keys().find(|name| pod.container(name).is_none()) {
            let (pod, container) = (pod.uid.clone(), unknown.clone());
            return Err(LedgerError::NoSuchContainer { pod, container }.into());
        }
        let mut all = CpuSet::new();
        cpus.values().for_each(|cpus| all |= cpus);
        self.check_granted(&all)?;
        let admitted = AdmittedPod {
            pod: pod.clone(),
            ordinal: self.state.generation,
            affinities: BTreeMap::new(),
        };
        let shared = self.state.cpus.shared() - &all;
        let mut transaction = LedgerTransaction::new(&self.rules, &mut self.state);
        let edit = transaction.state.cpus.set_shared(shared);
        transaction.cpu(edit);
        for (container, cpus) in cpus.iter().filter(|(_, cpus)| !cpus.is_empty()) {
            let held = Some(cpus.clone());
            let edit = transaction
                .state
                .cpus
                .set_container(&pod.uid, container, held);
            transaction.cpu(edit);
        }
        transaction.set_pod(&pod.uid, Some(admitted));
        let event = LedgerEvent::Admitted(pod.uid.clone());
        Ok(transaction
            .finish(event)
            .expect("the entry of the pod was added"))
    }

    /// Decides about `pod` by the rules of this node as if only `cpus` were free; memory and devices are aligned to
    /// them.
    ///
    /// # Errors
    /// If the pod would be assigned other CPUs than exactly these, or is invalid or admitted already.
    pub fn admit_with_cpus(
        &mut self,
        pod: &Arc<Pod>,
        cpus: &CpuSet,
        plugins: &mut dyn PreferredAllocation,
    ) -> Result<Admission, GrantError> {
        if self.state.admitted_pods.contains_key(&pod.uid) {
            return Err(LedgerError::AlreadyAdmitted(pod.uid.clone()).into());
        }
        check_containers(pod)?;
        self.check_granted(cpus)?;
        let aside = &(self.state.cpus.shared() - cpus) - &self.rules.reserved_cpus();
        let admission = self.decide_without(pod, plugins, Some(&aside));
        if let AdmissionResult::Rejected(rejection) = admission.decision.result {
            return Err(GrantError::Rejected(Box::new(rejection)));
        }
        let got = self.exclusive_cpus(&pod.uid);
        if got == *cpus {
            return Ok(admission);
        }
        if let Some(change) = &admission.change {
            self.undo(change)
                .expect("the last change of a ledger can be reverted");
        }
        Err(GrantError::Fewer(got))
    }

    fn check_granted(&self, cpus: &CpuSet) -> Result<(), GrantError> {
        if cpus.is_empty() {
            return Ok(());
        }
        let policy = self.rules.cpus.as_static().ok_or(GrantError::NotManaged)?;
        let unknown = cpus - self.rules.topology.all();
        if !unknown.is_empty() {
            return Err(GrantError::Unknown(unknown));
        }
        let reserved = cpus & policy.reserved();
        if !reserved.is_empty() {
            return Err(GrantError::Reserved(reserved));
        }
        let taken = cpus - self.state.cpus.shared();
        if taken.is_empty() {
            return Ok(());
        }
        let holds = |pod: &&PodUid| !self.exclusive_cpus(pod).is_disjoint(&taken);
        let holders = self.state.admitted_pods.keys().filter(holds).cloned();
        Err(GrantError::Taken {
            holders: holders.collect(),
            cpus: taken,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_set::CpuList;
    use crate::device::NoPreference;
    use crate::ledger::Rules;
    use crate::machine::{Machine, UniformMachine};
    use crate::pod::Container;
    use crate::policy::TopologyPolicy;
    use crate::settings::Settings;
    use crate::settings::{CpuManagerPolicy, MemoryManagerPolicy};

    /// Two NUMA nodes with four cores each.
    fn machine() -> Machine {
        Machine::uniform(UniformMachine {
            sockets: 1,
            nodes_per_socket: 2,
            cores_per_node: 4,
            threads_per_core: 1,
            memory_per_node: 1 << 30,
        })
        .unwrap()
    }

    fn ledger() -> Ledger {
        let machine = machine();
        let settings = Settings {
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some("1".parse().unwrap()),
            reserved_cpus: Some(CpuList::from(&"0".parse::<CpuSet>().unwrap())),
            ..Settings::default()
        };
        Ledger::new(Arc::new(Rules::new(Arc::new(machine), settings).unwrap()))
    }

    fn pod(uid: &str) -> Arc<Pod> {
        let container = |name: &str| Container::guaranteed(name, [("cpu", "2".parse().unwrap())]);
        Arc::new(Pod::new(uid, [container("a"), container("b")]))
    }

    fn chosen(a: &str, b: &str) -> GrantedCpus {
        let cpus = |text: &str| text.parse().unwrap();
        [("a".into(), cpus(a)), ("b".into(), cpus(b))].into()
    }

    #[test]
    fn containers_of_one_pod_may_share_cpus_and_all_are_released() {
        let mut ledger = ledger();
        let empty = ledger.clone();
        let change = ledger.grant(&pod("p"), &chosen("2-5", "4-6")).unwrap();
        assert_eq!(ledger.state().cpus().shared().to_string(), "0-1,7");
        assert_eq!(ledger.exclusive_cpus(&"p".into()).to_string(), "2-6");
        assert_eq!(ledger.audit(), []);
        let mut copy = empty.clone();
        copy.apply(&change).unwrap();
        assert_eq!(copy.state(), ledger.state());
        ledger.release(&"p".into()).unwrap();
        assert_eq!(ledger.state().cpus(), empty.state().cpus());
        assert_eq!(ledger.audit(), []);
    }

    #[test]
    fn cpus_that_are_not_free_are_not_granted_and_the_ledger_is_unchanged() {
        let mut ledger = ledger();
        ledger.grant(&pod("p"), &chosen("2", "3")).unwrap();
        let before = ledger.state().clone();
        for (cpus, expected) in [
            (chosen("0", "4"), GrantError::Reserved("0".parse().unwrap())),
            (
                chosen("4", "9,70"),
                GrantError::Unknown("9,70".parse().unwrap()),
            ),
            (
                chosen("3-4", "2"),
                GrantError::Taken {
                    cpus: "2-3".parse().unwrap(),
                    holders: vec!["p".into()],
                },
            ),
        ] {
            assert_eq!(ledger.grant(&pod("q"), &cpus), Err(expected));
            assert_eq!(ledger.state(), &before);
        }
        let twice = ledger.grant(&pod("p"), &chosen("4", "5"));
        assert_eq!(twice, Err(LedgerError::AlreadyAdmitted("p".into()).into()));
    }

    /// A pod of one container with two CPUs and memory.
    fn small(uid: &str) -> Arc<Pod> {
        let mut pod = Pod::clone(&pod(uid));
        pod.containers.truncate(1);
        let main = &mut pod.containers[0];
        for list in [&mut main.requests, &mut main.limits] {
            list.insert("memory".into(), "1Mi".parse().unwrap());
        }
        Arc::new(pod)
    }

    #[test]
    fn memory_is_aligned_to_given_cpus_and_the_topology_policy_applies() {
        let settings = Settings {
            topology_policy: TopologyPolicy::SingleNumaNode,
            cpu_policy: CpuManagerPolicy::Static,
            memory_policy: MemoryManagerPolicy::Static,
            reserved_cpu: Some("1".parse().unwrap()),
            node_reservation: [("memory".into(), "100Mi".parse().unwrap())].into(),
            reserved_memory: vec![crate::memory::MemoryReservation {
                numa_node: 0,
                limits: [("memory".into(), "100Mi".parse().unwrap())].into(),
            }],
            ..Settings::default()
        };
        let rules = Rules::new(Arc::new(machine()), settings).unwrap();
        let mut ledger = Ledger::new(Arc::new(rules));
        let empty = ledger.clone();
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let admitted = ledger.admit_with_cpus(&small("p"), &set("6-7"), &mut NoPreference);
        let change = admitted.unwrap().change.unwrap();
        let assignment = ledger.assignment(&"p".into()).unwrap();
        let held = &assignment.containers[0];
        assert_eq!(held.cpus, Some(set("6-7")));
        let blocks = held.memory.as_ref().unwrap();
        assert_eq!(blocks[0].nodes.to_string(), "1");
        assert_eq!(ledger.state().cpus().shared(), &set("0-5"));
        assert_eq!(ledger.audit(), []);
        let mut copy = empty.clone();
        copy.apply(&change).unwrap();
        assert_eq!(copy.state(), ledger.state());
        let before = ledger.state().clone();
        // CPUs of two NUMA nodes violate single-numa-node.
        let rejected = ledger.admit_with_cpus(&small("q"), &set("3-4"), &mut NoPreference);
        assert!(matches!(rejected, Err(GrantError::Rejected(_))));
        assert_eq!(ledger.state(), &before);
        let three = ledger.admit_with_cpus(&small("q"), &set("1-3"), &mut NoPreference);
        assert_eq!(three.unwrap_err(), GrantError::Fewer(set("1-2")));
        assert_eq!(ledger.state(), &before);
        let taken = ledger.admit_with_cpus(&small("q"), &set("5-6"), &mut NoPreference);
        assert!(matches!(taken, Err(GrantError::Taken { .. })));
    }

    #[test]
    fn a_pod_without_exclusive_cpus_is_admitted_too() {
        let mut ledger = ledger();
        ledger.grant(&pod("p"), &GrantedCpus::new()).unwrap();
        assert_eq!(ledger.admitted_pods().len(), 1);
        let again = ledger.admit(&pod("p"), &mut NoPreference);
        assert!(again.is_err());
    }
}
