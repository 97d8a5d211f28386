//! Takeover of a node from its kubelet: finds CPUs that the kubelet's CPU manager and the ledger both assigned.

use std::fmt;

use pinfold_core::cpu::ContainerCpus;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::PodUid;

/// CPUs that the kubelet assigned to one pod and the agent to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuConflict {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The pod that has them in the kubelet's `cpu_manager_state`.
    pub kubelet_pod: PodUid,
    /// The pod that has them in the agent's ledger.
    pub agent_pod: PodUid,
}

impl fmt::Display for CpuConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpus,
            kubelet_pod,
            agent_pod,
        } = self;
        write!(
            f,
            "CPUs {cpus} are assigned to pod {agent_pod} by the agent and to pod {kubelet_pod} in the kubelet's \
             cpu_manager_state: set the kubelet's CPU manager policy to none and restart pod {kubelet_pod}"
        )
    }
}

/// The first conflict between the ledger and the kubelet's `cpu_manager_state`.
#[must_use]
pub fn find_cpu_conflict(ledger: &Ledger, kubelet: &ContainerCpus) -> Option<CpuConflict> {
    kubelet.iter().find_map(|(kubelet_pod, containers)| {
        let pinned = containers
            .values()
            .fold(CpuSet::new(), |all, one| &all | one);
        let residents = ledger.state().admitted_pods().keys();
        // A container admitted without its pod's spec has the UID `<pod>/<container>` in the ledger.
        let mut others = residents.filter(|agent_pod| {
            let of_pod = agent_pod.as_str().strip_prefix(kubelet_pod.as_str());
            of_pod.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('/'))
        });
        others.find_map(|agent_pod| {
            let cpus = &ledger.exclusive_cpus(agent_pod) & &pinned;
            (!cpus.is_empty()).then(|| CpuConflict {
                cpus,
                kubelet_pod: kubelet_pod.clone(),
                agent_pod: agent_pod.clone(),
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_core::device::NoPreference;
    use pinfold_core::ledger::Rules;
    use pinfold_core::settings::{CpuManagerPolicy, Settings};

    use super::*;

    /// The ledger of a machine with four CPUs, on which pod `web` has CPU 1.
    fn ledger(uid: &str) -> Ledger {
        let hardware = pinfold_hardware::synthetic::read("1 socket, 1 numa, 4 cores");
        let hardware = hardware.expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("a machine");
        let settings = Settings {
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some("1".parse().expect("a quantity")),
            ..Settings::default()
        };
        let rules = Rules::new(Arc::new(machine), settings).expect("settings that fit");
        let mut ledger = Ledger::new(Arc::new(rules));
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: web}\nspec:\n  containers:\n  \
                   - {name: main, resources: {limits: {cpu: 1, memory: 1Mi}}}\n";
        let read = pinfold_kube::pod::read("pod.yaml", pod.as_bytes()).expect("a pod");
        let mut pod = read.value.into_iter().next().expect("a pod").pod;
        pod.uid = uid.into();
        let admitted = ledger.admit(&Arc::new(pod), &mut NoPreference);
        assert!(admitted.expect("decided").decision.is_admitted());
        ledger
    }

    fn pinned(pod: &str, cpus: &str) -> ContainerCpus {
        let cpus = cpus.parse().expect("CPUs");
        [(pod.into(), [("main".into(), cpus)].into())].into()
    }

    #[test]
    fn cpus_assigned_to_two_pods_are_a_conflict_and_a_pod_has_none_with_itself() {
        let agent_pod = ledger("web");
        let conflict =
            find_cpu_conflict(&agent_pod, &pinned("old", "1-2")).expect("both have CPU 1");
        assert_eq!(conflict.cpus.to_string(), "1");
        let text = conflict.to_string();
        assert!(
            text.starts_with("CPUs 1 are assigned to pod web by the agent and to pod old"),
            "{text}"
        );
        assert_eq!(find_cpu_conflict(&agent_pod, &pinned("old", "2-3")), None);
        assert_eq!(find_cpu_conflict(&agent_pod, &pinned("web", "1")), None);
        assert_eq!(
            find_cpu_conflict(&ledger("web/main"), &pinned("web", "1")),
            None
        );
        assert!(find_cpu_conflict(&ledger("webber"), &pinned("web", "1")).is_some());
    }
}
