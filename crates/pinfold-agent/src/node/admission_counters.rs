//! [`AdmissionCounters`]: counts admission requests and their results as the kubelet's managers do.
//!
//! | counter | counts |
//! |---|---|
//! | CPUs, memory | containers that request exclusive CPUs or pinned memory, and pods rejected for lack of them |
//! | aligned | containers (scope `container`) or pods (scope `pod`) under policy `single-numa-node`; containers with exclusive CPUs under `full-pcpus-only` |

use std::collections::BTreeMap;

use pinfold_core::decision::{AdmissionResult, Decision, ResourceManager};
use pinfold_core::ledger::Rules;
use pinfold_core::pod::{Container, Pod};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::qos::QosClass;
use pinfold_core::settings::TopologyScope;

/// Labels of an alignment counter: scope (`container`, `pod`) and boundary (`numa_node`, `physical_cpu`).
pub type AlignmentKind = (&'static str, &'static str);

/// Counters of admission requests by result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionCounters {
    /// Containers that requested exclusive CPUs.
    pub cpu_requests: u64,
    /// Pods rejected because the CPU manager could not assign CPUs.
    pub cpu_errors: u64,
    /// Containers of Guaranteed pods under the memory manager's policy `Static`.
    pub memory_requests: u64,
    /// Pods rejected because the memory manager could not assign memory.
    pub memory_errors: u64,
    /// AlignedPod containers or pods.
    pub aligned: BTreeMap<AlignmentKind, u64>,
    /// Containers or pods that could not be aligned.
    pub unaligned: BTreeMap<AlignmentKind, u64>,
}

impl AdmissionCounters {
    /// Counts the decision on a pod under these rules.
    pub(super) fn count(&mut self, pod: &Pod, decision: &Decision, rules: &Rules) {
        let admitted = decision.is_admitted();
        let short_of = |manager: ResourceManager| match &decision.result {
            AdmissionResult::Rejected(rejection) => rejection.manager == Some(manager),
            AdmissionResult::Admitted(_) => false,
        };
        let guaranteed = QosClass::of(pod) == QosClass::Guaranteed;
        let count = |containers: &[&Container]| u64::try_from(containers.len()).unwrap_or(u64::MAX);
        let all: Vec<&Container> = pod.all_containers().collect();
        let exclusive: Vec<&Container> = match guaranteed && rules.has_exclusive_cpus() {
            true => all
                .iter()
                .copied()
                .filter(|one| requests_exclusive_cpus(one))
                .collect(),
            false => Vec::new(),
        };
        self.cpu_requests += count(&exclusive);
        if short_of(ResourceManager::Cpu) {
            self.cpu_errors += 1;
        }
        if guaranteed && rules.assigns_memory() {
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
        let options = rules.cpu_options();
        if options.is_some_and(|options| options.full_pcpus_only) && !exclusive.is_empty() {
            let times = if admitted { count(&exclusive) } else { 1 };
            *into.entry(("container", "physical_cpu")).or_default() += times;
        }
    }

    /// Counts a pod for which a scheduler or Koordinator's rules chose the CPUs.
    pub(super) fn count_grant(&mut self, admitted: bool) {
        self.cpu_requests += 1;
        self.cpu_errors += u64::from(!admitted);
    }
}

/// Whether a container of a Guaranteed pod requests exclusive CPUs: a whole number of CPUs.
fn requests_exclusive_cpus(container: &Container) -> bool {
    let request = container
        .requests
        .get("cpu")
        .or(container.limits.get("cpu"));
    request.is_some_and(|cpu| cpu.milli_value() > 0 && cpu.milli_value() % 1000 == 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_core::device::NoPreference;
    use pinfold_core::ledger::Ledger;
    use pinfold_core::settings::{CpuManagerPolicy, Settings};
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
            topology_policy: TopologyPolicy::SingleNumaNode,
            cpu_policy: CpuManagerPolicy::Static,
            cpu_options: [("full-pcpus-only".to_owned(), "true".to_owned())].into(),
            reserved_cpu: Some("2".parse().expect("a quantity")),
            ..Settings::default()
        };
        let rules = Arc::new(Rules::new(Arc::new(machine), settings).expect("settings"));
        let mut ledger = Ledger::new(rules.clone());
        let mut counters = AdmissionCounters::default();
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
            counters.count(&pod, &decision, &rules);
        }
        assert_eq!((counters.cpu_requests, counters.cpu_errors), (3, 1));
        assert_eq!((counters.memory_requests, counters.memory_errors), (0, 0));
        let numa = ("container", "numa_node");
        let core = ("container", "physical_cpu");
        assert_eq!(counters.aligned, [(numa, 2), (core, 1)].into());
        assert_eq!(counters.unaligned, [(numa, 2), (core, 2)].into());
    }
}
