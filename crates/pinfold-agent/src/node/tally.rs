//! [`Tally`]: what pods asked for and what came of it, counted where the kubelet's managers count.
//!
//! | counter | counts |
//! |---|---|
//! | CPUs, memory | containers that ask for their own, and those of them in pods that were rejected for want of it |
//! | aligned | containers (scope `container`) or pods (scope `pod`) under a policy that promises one NUMA node; containers with whole cores where only those are given |

use std::collections::BTreeMap;

use pinfold_core::decision::{AdmissionResult, Decision, ResourceManager};
use pinfold_core::ledger::Rules;
use pinfold_core::pod::{Container, Pod};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::qos::QosClass;
use pinfold_core::settings::TopologyScope;

/// A scope (`container`, `pod`) and a boundary (`numa_node`, `physical_cpu`).
pub type Kind = (&'static str, &'static str);

/// What was asked for and what came of it. Only ever grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Containers that asked for CPUs of their own.
    pub cpu_requests: u64,
    /// Those that did not get them.
    pub cpu_errors: u64,
    /// Containers whose memory had to come from certain NUMA nodes.
    pub memory_requests: u64,
    /// Those that did not get it.
    pub memory_errors: u64,
    /// What was aligned.
    pub aligned: BTreeMap<Kind, u64>,
    /// What could not be aligned.
    pub unaligned: BTreeMap<Kind, u64>,
}

impl Tally {
    /// Counts a decision about a pod under these rules.
    pub(super) fn count(&mut self, pod: &Pod, decision: &Decision, rules: &Rules) {
        let settings = rules.settings();
        let admitted = decision.is_admitted();
        let short_of = |manager: ResourceManager| match &decision.result {
            AdmissionResult::Rejected(rejection) => rejection.manager == Some(manager),
            AdmissionResult::Admitted(_) => false,
        };
        let guaranteed = QosClass::of(pod) == QosClass::Guaranteed;
        let count = |containers: &[&Container]| u64::try_from(containers.len()).unwrap_or(u64::MAX);
        let all: Vec<&Container> = pod.all_containers().collect();
        let own: Vec<&Container> = match guaranteed && settings.cpu_policy == "static" {
            true => all
                .iter()
                .copied()
                .filter(|one| asks_for_cpus(one))
                .collect(),
            false => Vec::new(),
        };
        self.cpu_requests += count(&own);
        if short_of(ResourceManager::Cpu) {
            self.cpu_errors += 1;
        }
        if guaranteed && settings.memory_policy == "Static" {
            self.memory_requests += count(&all);
            self.memory_errors += u64::from(short_of(ResourceManager::Memory));
        }
        let into = match admitted {
            true => &mut self.aligned,
            false => &mut self.unaligned,
        };
        if rules.policy() == TopologyPolicy::SingleNumaNode {
            let (kind, times) = match rules.scope() {
                TopologyScope::Pod => (("pod", "numa_node"), 1),
                TopologyScope::Container if admitted => (("container", "numa_node"), count(&all)),
                TopologyScope::Container => (("container", "numa_node"), 1),
            };
            *into.entry(kind).or_default() += times;
        }
        let whole_cores = settings.cpu_options.get("full-pcpus-only");
        if whole_cores.is_some_and(|on| on == "true") && !own.is_empty() {
            let times = if admitted { count(&own) } else { 1 };
            *into.entry(("container", "physical_cpu")).or_default() += times;
        }
    }

    /// Counts a pod that was given CPUs which somebody else chose, or could not be.
    pub(super) fn count_given(&mut self, admitted: bool) {
        self.cpu_requests += 1;
        self.cpu_errors += u64::from(!admitted);
    }
}

/// Whether a container of a guaranteed pod asks for CPUs of its own.
fn asks_for_cpus(container: &Container) -> bool {
    let asked = container
        .requests
        .get("cpu")
        .or(container.limits.get("cpu"));
    asked.is_some_and(|cpu| cpu.milli_value() > 0 && cpu.milli_value() % 1000 == 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_core::device::NoPreference;
    use pinfold_core::ledger::Ledger;
    use pinfold_core::settings::Settings;
    use pinfold_kube::pod;

    use super::*;

    #[test]
    fn decisions_are_counted_as_the_kubelets_managers_count() {
        let hardware = pinfold_hardware::synthetic::read("2 sockets, 1 numa, 4 cores, smt2");
        let (machine, _) = hardware
            .expect("a machine")
            .machine_within_reach()
            .expect("a machine");
        let settings = Settings {
            topology_policy: "single-numa-node".to_owned(),
            cpu_policy: "static".to_owned(),
            cpu_options: [("full-pcpus-only".to_owned(), "true".to_owned())].into(),
            reserved_cpu: Some("2".parse().expect("a quantity")),
            ..Settings::default()
        };
        let rules = Arc::new(Rules::new(Arc::new(machine), settings).expect("settings"));
        let mut ledger = Ledger::new(rules.clone());
        let mut tally = Tally::default();
        for (name, cpu) in [
            ("a", "2"),
            ("shares", "500m"),
            ("half-a-core", "3"),
            ("wide", "10"),
        ] {
            let manifest = format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {name}}}\nspec:\n  containers:\n  \
                 - name: main\n    resources: {{limits: {{cpu: {cpu}, memory: 1Mi}}}}\n"
            );
            let read = pod::read("pod.yaml", manifest.as_bytes()).expect("a pod");
            let pod = Arc::new(read.value[0].pod.clone());
            let decision = ledger
                .admit(&pod, &mut NoPreference)
                .expect("decided")
                .decision;
            tally.count(&pod, &decision, &rules);
        }
        assert_eq!((tally.cpu_requests, tally.cpu_errors), (3, 1));
        assert_eq!((tally.memory_requests, tally.memory_errors), (0, 0));
        let numa = ("container", "numa_node");
        let core = ("container", "physical_cpu");
        assert_eq!(tally.aligned, [(numa, 2), (core, 1)].into());
        assert_eq!(tally.unaligned, [(numa, 2), (core, 2)].into());
    }
}
