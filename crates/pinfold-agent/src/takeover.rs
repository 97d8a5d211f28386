//! Taking a node over from its kubelet: CPUs that both believe to be theirs to give.

use std::fmt;

use pinfold_core::cpu::ContainerCpus;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::PodUid;

/// CPUs that were given twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twice {
    /// Which.
    pub cpus: CpuSet,
    /// Who has them by the kubelet's word.
    pub kubelets: PodUid,
    /// Who has them by ours.
    pub ours: PodUid,
}

impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpus,
            kubelets,
            ours,
        } = self;
        write!(
            f,
            "CPUs {cpus} belong to pod {ours} here and to pod {kubelets} by the kubelet's cpu_manager_state: \
             set the kubelet's CPU manager policy to none, and let {kubelets} end or start again"
        )
    }
}

/// The first CPUs that the kubelet gave to one pod and this ledger to another.
#[must_use]
pub fn twice(ledger: &Ledger, kubelet: &ContainerCpus) -> Option<Twice> {
    kubelet.iter().find_map(|(theirs, containers)| {
        let pinned = containers
            .values()
            .fold(CpuSet::new(), |all, one| &all | one);
        let residents = ledger.state().admitted_pods().keys();
        // A container whose pod nobody knows lives here under the pod's name and its own.
        let mut others = residents.filter(|ours| {
            let of_pod = ours.as_str().strip_prefix(theirs.as_str());
            of_pod.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('/'))
        });
        others.find_map(|ours| {
            let cpus = &ledger.exclusive_cpus(ours) & &pinned;
            (!cpus.is_empty()).then(|| Twice {
                cpus,
                kubelets: theirs.clone(),
                ours: ours.clone(),
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_core::device::NoPreference;
    use pinfold_core::ledger::Rules;
    use pinfold_core::settings::Settings;

    use super::*;

    /// Four CPUs, of which pod `web` gets 1.
    fn ledger(uid: &str) -> Ledger {
        let hardware = pinfold_hardware::synthetic::read("1 socket, 1 numa, 4 cores");
        let hardware = hardware.expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("a machine");
        let settings = Settings {
            cpu_policy: "static".to_owned(),
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
    fn cpus_of_two_pods_are_told_and_a_pod_does_not_meet_itself() {
        let ours = ledger("web");
        let told = twice(&ours, &pinned("old", "1-2")).expect("both have CPU 1");
        assert_eq!(told.cpus.to_string(), "1");
        let text = told.to_string();
        assert!(
            text.starts_with("CPUs 1 belong to pod web here and to pod old"),
            "{text}"
        );
        assert_eq!(twice(&ours, &pinned("old", "2-3")), None);
        assert_eq!(twice(&ours, &pinned("web", "1")), None);
        assert_eq!(twice(&ledger("web/main"), &pinned("web", "1")), None);
        assert!(twice(&ledger("webber"), &pinned("web", "1")).is_some());
    }
}
