//! Pods with pod-level resources.

use super::machines::{container, cpus, demand, even, fresh, pod, policy, resources, sidecar};
use crate::cpu::{CpuOptions, CpuState, PodCpus, StaticCpus};
use crate::decision::RejectionReason;
use crate::fidelity::Fidelity;
use crate::hint::ResourceHints;
use crate::pod::{Container, Pod};

fn whole(cpu: &str, init: Vec<Container>, containers: Vec<Container>) -> Pod {
    Pod {
        pod_requests: Some(resources(cpu)),
        pod_limits: Some(resources(cpu)),
        ..pod("p", init, containers)
    }
}

/// A container without requests, which shares the pod's CPUs.
fn sharing(name: &str) -> Container {
    Container {
        requests: std::collections::BTreeMap::new(),
        limits: std::collections::BTreeMap::new(),
        ..container(name, "1")
    }
}

fn static_cpus(fidelity: Fidelity) -> StaticCpus {
    policy(even(1, 2, 4, 1), CpuOptions::default(), "0", fidelity)
}

fn admit(policy: &StaticCpus, state: &mut CpuState, pod: &Pod) {
    for edit in &policy
        .allocate_pod(state, None, &demand(pod))
        .unwrap()
        .edits
    {
        state.apply(edit).unwrap();
    }
}

#[test]
fn containers_divide_the_pods_cpus() {
    let policy = static_cpus(Fidelity::Sound);
    let mut state = fresh(&policy);
    let init = vec![
        sharing("setup"),
        sidecar("side", "1"),
        container("init", "2"),
    ];
    let pod = whole("4", init, vec![container("app", "1"), sharing("log")]);
    admit(&policy, &mut state, &pod);
    assert_eq!(state.pod(&pod.uid), Some(&cpus("4-7")));
    for (name, expected) in [
        ("setup", "4-7"),
        ("side", "4"),
        ("init", "5-6"),
        ("app", "5"),
        ("log", "6-7"),
    ] {
        let held = state.container(&pod.uid, &name.into());
        assert_eq!(held, Some(&cpus(expected)), "{name}");
    }
    assert_eq!(state.shared(), &cpus("0-3"));
}

#[test]
fn the_pods_cpus_are_released_with_its_last_container() {
    let policy = static_cpus(Fidelity::Sound);
    let mut state = fresh(&policy);
    let pod = whole("4", vec![], vec![container("app", "1"), sharing("log")]);
    admit(&policy, &mut state, &pod);
    for name in ["app", "log"] {
        assert_eq!(state.shared(), &cpus("0-3"));
        for edit in &policy.remove_container(&state, &pod.uid, &name.into()) {
            state.apply(edit).unwrap();
        }
    }
    assert_eq!(state, fresh(&policy));
}

#[test]
fn the_shared_pool_of_a_pod_must_not_be_empty() {
    let policy = static_cpus(Fidelity::Sound);
    let state = fresh(&policy);
    let rejection = |pod: &Pod| {
        let hints = policy.pod_hints(&state, &PodCpus::default(), &demand(pod));
        assert_eq!(hints.rows[0].1, ResourceHints::Unsatisfiable);
        let rejection = policy.allocate_pod(&state, None, &demand(pod)).unwrap_err();
        assert_eq!(
            rejection.error.reason(),
            RejectionReason::EmptyPodSharedPoolError
        );
        rejection.to_string()
    };
    let later = whole("2", vec![], vec![container("app", "2"), sharing("log")]);
    assert_eq!(
        rejection(&later),
        "pod rejected, sum of exclusive container cpu requests equals pod budget, \
         leaving no cpus for shared containers"
    );
    let init = vec![sidecar("side", "2"), sharing("setup")];
    assert_eq!(
        rejection(&whole("2", init, vec![])),
        "pod rejected, pod has shared init containers but no cpus available for them"
    );
}

#[test]
fn a_restart_keeps_the_pods_cpus_except_under_exact_fidelity() {
    let pod = whole("2", vec![], vec![sharing("a")]);
    for (fidelity, shared) in [(Fidelity::Exact, "0,5-7"), (Fidelity::Sound, "0,3-7")] {
        let policy = static_cpus(fidelity);
        let mut state = fresh(&policy);
        admit(&policy, &mut state, &pod);
        assert_eq!(state.shared(), &cpus("0,3-7"));
        admit(&policy, &mut state, &pod);
        assert_eq!(state.shared(), &cpus(shared), "{fidelity:?}");
    }
}

#[test]
fn a_pod_that_cannot_be_divided_leaves_no_edits_except_under_exact_fidelity() {
    let pod = whole("2", vec![], vec![container("a", "2"), container("b", "1")]);
    for (fidelity, edits) in [(Fidelity::Exact, 2), (Fidelity::Sound, 0)] {
        let policy = static_cpus(fidelity);
        let rejection = policy
            .allocate_pod(&fresh(&policy), None, &demand(&pod))
            .unwrap_err();
        assert_eq!(rejection.left_behind.len(), edits);
        assert_eq!(
            rejection.error.reason(),
            RejectionReason::UnexpectedAdmissionError
        );
    }
}
