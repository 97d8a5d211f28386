//! The static policy by example.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::machines::{container, cpus, demand, even, fresh, nodes, pod, policy, sidecar};
use crate::cpu::{CpuError, CpuManager, CpuOptions, CpuState, PodCpus, StaticCpus};
use crate::cpu_set::{CpuList, CpuSet};
use crate::fidelity::Fidelity;
use crate::hint::{ProviderHints, ResourceHints};
use crate::pod::Pod;
use crate::quantity::Quantity;
use crate::settings::{CpuManagerPolicy, Settings};

const FULL: CpuOptions = CpuOptions {
    full_pcpus_only: true,
    distribute_across_numa: false,
    align_by_socket: false,
    distribute_across_cores: false,
    strict_reservation: false,
    prefer_align_by_cache: false,
};

/// Allocates the CPUs of every container in order.
fn admit(policy: &StaticCpus, state: &mut CpuState, pod: &Pod) -> Result<(), CpuError> {
    let mut own = PodCpus::default();
    for container in pod.all_containers() {
        let grant = policy.allocate(state, &own, None, &demand(pod), container)?;
        for edit in &grant.edits {
            state.apply(edit).unwrap();
        }
        own.record(&grant);
    }
    Ok(())
}

fn held(state: &CpuState, pod: &str, container: &str) -> Option<CpuSet> {
    state.container(&pod.into(), &container.into()).cloned()
}

#[test]
fn cpus_of_an_init_container_are_reused_and_those_of_a_sidecar_are_not() {
    let policy = policy(
        even(1, 1, 4, 2),
        CpuOptions::default(),
        "0",
        Fidelity::Sound,
    );
    let mut state = fresh(&policy);
    let init = vec![container("init", "4"), sidecar("side", "2")];
    admit(
        &policy,
        &mut state,
        &pod("p", init, vec![container("app", "2")]),
    )
    .unwrap();
    assert_eq!(held(&state, "p", "init"), Some(cpus("2-5")));
    assert_eq!(held(&state, "p", "side"), Some(cpus("2-3")));
    assert_eq!(held(&state, "p", "app"), Some(cpus("4-5")));
    assert_eq!(state.shared(), &cpus("0-1,6-7"));
}

#[test]
fn cpus_that_a_sibling_still_holds_are_not_released() {
    let policy = policy(
        even(1, 1, 4, 2),
        CpuOptions::default(),
        "0",
        Fidelity::Sound,
    );
    let mut state = fresh(&policy);
    let app = vec![container("app", "2")];
    admit(
        &policy,
        &mut state,
        &pod("p", vec![container("init", "4")], app),
    )
    .unwrap();
    for edit in &policy.remove_container(&state, &"p".into(), &"init".into()) {
        state.apply(edit).unwrap();
    }
    assert_eq!(state.shared(), &cpus("0-1,4-7"));
    for edit in &policy.remove_container(&state, &"p".into(), &"app".into()) {
        state.apply(edit).unwrap();
    }
    assert_eq!(state, fresh(&policy));
}

#[test]
fn cpus_that_another_pod_holds_by_now_are_reused_only_under_exact_fidelity() {
    for (fidelity, expected) in [(Fidelity::Exact, "2-3"), (Fidelity::Sound, "4-5")] {
        let policy = policy(even(1, 1, 4, 2), CpuOptions::default(), "0", fidelity);
        let mut state = fresh(&policy);
        admit(
            &policy,
            &mut state,
            &pod("other", vec![], vec![container("c", "2")]),
        )
        .unwrap();
        assert_eq!(held(&state, "other", "c"), Some(cpus("2-3")));
        let late = pod("late", vec![], vec![container("c", "2")]);
        let own = PodCpus::new(&state, &late.uid, cpus("2-3"));
        let grant = policy.allocate(&state, &own, None, &demand(&late), &late.containers[0]);
        assert_eq!(grant.unwrap().cpus, Some(cpus(expected)));
    }
}

#[test]
fn cpus_come_from_the_affinity_first_and_then_from_other_nodes() {
    let policy = policy(
        even(2, 2, 2, 2),
        CpuOptions::default(),
        "0",
        Fidelity::Sound,
    );
    let state = fresh(&policy);
    let pod = pod("p", vec![], vec![container("c", "5")]);
    let on = |affinity| {
        let grant = policy.allocate(
            &state,
            &PodCpus::default(),
            affinity,
            &demand(&pod),
            &pod.containers[0],
        );
        grant.unwrap().cpus.unwrap()
    };
    assert_eq!(on(Some(nodes(&[1]))), cpus("1,4-7"));
    assert_eq!(on(Some(nodes(&[]))), on(None));
}

#[test]
fn full_pcpus_only_assigns_whole_cores() {
    let machine = || even(1, 1, 4, 2);
    let rejection = |policy: &StaticCpus, cpu| {
        let pod = pod("p", vec![], vec![container("c", cpu)]);
        let state = fresh(policy);
        let grant = policy.allocate(
            &state,
            &PodCpus::default(),
            None,
            &demand(&pod),
            &pod.containers[0],
        );
        grant
            .map(|grant| grant.cpus.unwrap())
            .map_err(|error| error.to_string())
    };
    let sound = policy(machine(), FULL, "0", Fidelity::Sound);
    let odd = "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2";
    assert_eq!(rejection(&sound, "3"), Err(odd.to_owned()));
    let few = "SMT Alignment Error: not enough free physical CPUs: \
               available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2";
    assert_eq!(rejection(&sound, "8"), Err(few.to_owned()));
    assert_eq!(rejection(&sound, "6"), Ok(cpus("2-7")));
}

#[test]
fn a_core_split_by_a_reserved_cpu_is_assigned_only_under_exact_fidelity() {
    // On node 0 both cores have a reserved thread; the whole cores are on node 1.
    for (fidelity, expected) in [(Fidelity::Exact, "1,3"), (Fidelity::Sound, "4-5")] {
        let policy = policy(even(2, 2, 2, 2), FULL, "0,2", fidelity);
        let state = fresh(&policy);
        let pod = pod("p", vec![], vec![container("c", "2")]);
        let affinity = Some(nodes(&[0]));
        let grant = policy.allocate(
            &state,
            &PodCpus::default(),
            affinity,
            &demand(&pod),
            &pod.containers[0],
        );
        assert_eq!(grant.unwrap().cpus, Some(cpus(expected)));
    }
}

#[test]
fn a_container_keeps_its_cpus_when_a_full_machine_restarts() {
    for (fidelity, rejected) in [(Fidelity::Exact, true), (Fidelity::Sound, false)] {
        let policy = policy(even(1, 1, 3, 2), FULL, "0-1", fidelity);
        let mut state = fresh(&policy);
        let pod = pod("p", vec![], vec![container("c", "4")]);
        admit(&policy, &mut state, &pod).unwrap();
        let full = state.clone();
        assert_eq!(admit(&policy, &mut state, &pod).is_err(), rejected);
        assert_eq!(state, full);
    }
}

#[test]
fn hints_are_as_narrow_as_an_empty_machine_allows() {
    let policy = policy(
        even(2, 2, 2, 2),
        CpuOptions::default(),
        "0",
        Fidelity::Sound,
    );
    let state = fresh(&policy);
    let listed = |hints: ProviderHints| match &hints.rows[0].1 {
        ResourceHints::Family(family) => family.list(),
        other => panic!("{other:?}"),
    };
    let pod = pod("p", vec![], vec![container("c", "4")]);
    let hints = policy.container_hints(
        &state,
        &PodCpus::default(),
        &demand(&pod),
        &pod.containers[0],
    );
    let found: Vec<_> = listed(hints)
        .iter()
        .map(|hint| (hint.mask.unwrap(), hint.preferred))
        .collect();
    assert_eq!(found, [(nodes(&[1]), true), (nodes(&[0, 1]), false)]);
}

#[test]
fn cpus_that_the_machine_lacks_count_for_node_0_only_where_the_original_does() {
    for (fidelity, expected) in [
        (
            Fidelity::Exact,
            vec![nodes(&[0]), nodes(&[1]), nodes(&[0, 1])],
        ),
        (Fidelity::Sound, vec![nodes(&[1]), nodes(&[0, 1])]),
    ] {
        // Three CPUs of node 0 are free, four of node 1; the saved pool also contains CPU 99.
        let policy = policy(even(2, 2, 2, 2), CpuOptions::default(), "0", fidelity);
        let state = CpuState::restored(cpus("0-7,99"), BTreeMap::new(), BTreeMap::new());
        let pod = pod("p", vec![], vec![container("c", "4")]);
        let hints = policy.container_hints(
            &state,
            &PodCpus::default(),
            &demand(&pod),
            &pod.containers[0],
        );
        let ResourceHints::Family(family) = &hints.rows[0].1 else {
            panic!("{hints:?}");
        };
        let found: Vec<_> = family.list().iter().filter_map(|hint| hint.mask).collect();
        assert_eq!(found, expected, "{fidelity:?}");
    }
}

#[test]
fn a_pod_without_whole_cpus_runs_in_the_shared_pool() {
    let policy = policy(
        even(1, 1, 2, 2),
        CpuOptions::default(),
        "0",
        Fidelity::Sound,
    );
    let mut state = fresh(&policy);
    let pod = pod("p", vec![], vec![container("c", "1500m")]);
    assert_eq!(
        policy.pod_hints(&state, &PodCpus::default(), &demand(&pod)),
        ProviderHints::none()
    );
    admit(&policy, &mut state, &pod).unwrap();
    assert_eq!(state, fresh(&policy));
}

#[test]
fn a_saved_state_must_match_the_machine() {
    let loose = policy(
        even(1, 1, 2, 2),
        CpuOptions::default(),
        "0",
        Fidelity::Sound,
    );
    let strict = CpuOptions {
        strict_reservation: true,
        ..CpuOptions::default()
    };
    let strict = policy(even(1, 1, 2, 2), strict, "0", Fidelity::Sound);
    let start = |policy: &StaticCpus, shared: &str, held: &str| {
        let mut containers = BTreeMap::new();
        if !held.is_empty() {
            containers.insert("p".into(), BTreeMap::from([("c".into(), cpus(held))]));
        }
        let state = CpuState::restored(cpus(shared), containers, BTreeMap::new());
        policy.start(&state).map_err(|error| error.to_string())
    };
    assert_eq!(start(&loose, "0-1", "2-3").map(|edits| edits.len()), Ok(0));
    assert_eq!(start(&loose, "", "").map(|edits| edits.len()), Ok(1));
    assert_eq!(start(&strict, "1", "2-3").map(|edits| edits.len()), Ok(0));
    for (policy, shared, held, expected) in [
        (&loose, "", "2-3", "default cpuset cannot be empty"),
        (
            &loose,
            "1",
            "2-3",
            "not all reserved cpus: \"0\" are present in defaultCpuSet: \"1\"",
        ),
        (
            &strict,
            "0-1",
            "2-3",
            "some of strictly reserved cpus: \"0\" are present in defaultCpuSet: \"0-1\"",
        ),
        (
            &loose,
            "0-2",
            "2-3",
            "pod: p, container: c cpuset: \"2-3\" overlaps with default cpuset \"0-2\"",
        ),
        (
            &loose,
            "0-1",
            "2",
            "current set of available CPUs \"0-3\" doesn't match with CPUs in state \"0-2\"",
        ),
    ] {
        assert_eq!(start(policy, shared, held), Err(expected.to_owned()));
    }
}

#[test]
fn a_configuration_is_rejected_with_the_kubelets_message() {
    let machine = Arc::new(even(1, 1, 4, 2));
    let rejection = |policy, option: Option<&str>, reserved: Option<i64>, named: &str| {
        let row = |name: &str| (name.to_owned(), "true".to_owned());
        let settings = Settings {
            cpu_policy: policy,
            cpu_options: option.map(row).into_iter().collect(),
            reserved_cpu: reserved.map(Quantity::from),
            reserved_cpus: Some(CpuList::parse(named).unwrap()),
            ..Settings::default()
        };
        CpuManager::new(Arc::clone(&machine), &settings)
            .unwrap_err()
            .to_string()
    };
    for (found, expected) in [
        (
            rejection(CpuManagerPolicy::None, Some("full-pcpus-only"), None, ""),
            "new none policy error: None policy: \
             received unsupported options=map[full-pcpus-only:true]",
        ),
        (
            rejection(CpuManagerPolicy::Static, None, None, ""),
            "[cpumanager] unable to determine reserved CPU resources for static policy",
        ),
        (
            rejection(CpuManagerPolicy::Static, None, Some(0), ""),
            "[cpumanager] the static policy requires \
             systemreserved.cpu + kubereserved.cpu to be greater than zero",
        ),
        (
            rejection(CpuManagerPolicy::Static, Some("bogus"), Some(1), ""),
            "new static policy error: unknown CPU Manager Policy option: \"bogus\"",
        ),
        (
            rejection(CpuManagerPolicy::Static, None, Some(100_000), ""),
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs \
             (size of  did not equal 100000)",
        ),
        (
            rejection(CpuManagerPolicy::Static, None, Some(1), "0-1"),
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs \
             (size of 0-1 did not equal 1)",
        ),
        (
            rejection(CpuManagerPolicy::Static, None, Some(1), "9999"),
            "new static policy error: [cpumanager] unable to build the reserved physical CPUs \
             from the reserved set: unknown CPU ID: 9999",
        ),
        (
            rejection(CpuManagerPolicy::Static, None, Some(1), "99"),
            "new static policy error: [cpumanager] unable to build the reserved physical CPUs \
             from the reserved set: unknown CPU ID: 99",
        ),
    ] {
        assert_eq!(found, expected);
    }
}
