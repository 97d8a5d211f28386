//! Pods with pod-level resources.

use super::*;

/// A pod of 10 bytes as a whole: a sidecar of 2, an app container of 3, and one of each kind in the shared pool.
fn pod_level_pod() -> Pod {
    let sharing = |name: &str| Container {
        requests: ResourceList::new(),
        limits: ResourceList::new(),
        ..container(name, 0, None)
    };
    let mut sidecar = container("sidecar", 2, None);
    sidecar.restartable = true;
    let init = vec![sidecar, sharing("init")];
    let mut pod = pod(
        "p",
        init,
        vec![container("own", 3, None), sharing("shared")],
    );
    pod.pod_requests = Some(amounts(10, None));
    pod.pod_limits = Some(amounts(10, None));
    pod
}

#[test]
fn pod_level_memory_is_divided_and_released_with_the_last_container() {
    let machine = machine(&[(0, 21, None)]);
    let mut bench = Bench::on(&machine, PodLevel::Managed, Fidelity::Sound);
    let pod = pod_level_pod();
    let grant = bench
        .policy
        .allocate_pod(&bench.state, Hint::ANY, &demand(&bench.policy, &pod))
        .expect("fits");
    bench
        .state
        .apply(&grant.edits)
        .expect("made for this table");
    assert_eq!(bench.reserved(), [10]);
    let names = ["sidecar", "init", "own", "shared"];
    assert_eq!(names.map(|name| bench.size("p", name)), [2, 8, 3, 5]);
    assert_eq!(bench.policy.start(&bench.state), Ok(Vec::new()));
    for (name, left) in [("init", 10), ("own", 10), ("sidecar", 10), ("shared", 0)] {
        bench.remove("p", name);
        assert_eq!(bench.reserved(), [left]);
    }
    assert_eq!(bench.state, bench.policy.initial_state());
}

#[test]
fn pod_level_memory_is_allocated_once() {
    let machine = machine(&[(0, 41, None)]);
    for (fidelity, expected) in [(Fidelity::Exact, 20), (Fidelity::Sound, 10)] {
        let mut bench = Bench::on(&machine, PodLevel::Managed, fidelity);
        for _ in 0..2 {
            let grant = bench.policy.allocate_pod(
                &bench.state,
                Hint::ANY,
                &demand(&bench.policy, &pod_level_pod()),
            );
            bench
                .state
                .apply(&grant.expect("fits").edits)
                .expect("made for this table");
        }
        assert_eq!(bench.reserved(), [expected], "{fidelity:?}");
    }
}

#[test]
fn hugepages_that_only_a_container_requests_are_allocated_too() {
    let machine = machine(&[(0, 21 + 2048, Some(2))]);
    let mut pod = pod_level_pod();
    pod.containers[0] = container("own", 3, Some(1024));
    for (fidelity, allocated, shared) in [
        (Fidelity::Exact, 0, 0_u64.wrapping_sub(1024)),
        (Fidelity::Sound, 1024, 0),
    ] {
        let mut bench = Bench::on(&machine, PodLevel::Managed, fidelity);
        let grant = bench
            .policy
            .allocate_pod(&bench.state, Hint::ANY, &demand(&bench.policy, &pod))
            .expect("fits");
        bench
            .state
            .apply(&grant.edits)
            .expect("made for this table");
        let pages = bench
            .state
            .sum(set(&[0]), &hugepages_resource(1), |amounts| {
                amounts.reserved
            });
        assert_eq!(pages, allocated, "{fidelity:?}");
        let blocks = bench
            .state
            .blocks(&pod.uid, &"shared".into())
            .expect("divided");
        let of_pages = blocks
            .iter()
            .filter(|block| block.resource == hugepages_resource(1));
        assert_eq!(
            of_pages.map(|block| block.size).sum::<u64>(),
            shared,
            "{fidelity:?}"
        );
    }
}

#[test]
fn the_shared_pool_of_a_pod_must_not_be_empty() {
    let machine = machine(&[(0, 41, None)]);
    let bench = Bench::on(&machine, PodLevel::Managed, Fidelity::Sound);
    let rejected = |pod: &Pod| {
        let hints = bench
            .policy
            .pod_hints(&bench.state, &demand(&bench.policy, pod));
        let cannot = (memory_resource(), ResourceHints::Unsatisfiable);
        assert_eq!(hints.hints.rows.as_slice(), [cannot]);
        let grant = bench
            .policy
            .allocate_pod(&bench.state, Hint::ANY, &demand(&bench.policy, pod));
        grant.expect_err("rejected").to_string()
    };
    let mut app = pod_level_pod();
    app.containers[0] = container("own", 8, None);
    assert_eq!(
        rejected(&app),
        "pod rejected, sum of exclusive container memory requests equals pod budget, leaving no memory for shared containers"
    );
    let mut init = pod_level_pod();
    init.init_containers[0] = Container {
        restartable: true,
        ..container("sidecar", 10, None)
    };
    assert_eq!(
        rejected(&init),
        "pod rejected, pod has shared init containers but no memory available for them"
    );
}

#[test]
fn a_container_without_memory_of_its_own_is_never_a_reason_to_reject() {
    let machine = machine(&[(0, 21, None), (1, 20, None)]);
    let pod = pod_level_pod();
    for (fidelity, fits) in [(Fidelity::Exact, false), (Fidelity::Sound, true)] {
        let mut bench = Bench::on(&machine, PodLevel::Managed, fidelity);
        bench.fill("other", 1, &[0]);
        for affinity in [FREE_CHOICE, Hint::on(set(&[0, 1]), true)] {
            let placed = bench.allocate(&pod, "shared", affinity);
            assert_eq!(placed.is_ok(), fits, "{fidelity:?} {affinity:?}");
        }
    }
}

#[test]
fn assignments_are_kept_when_the_scope_changes() {
    let machine = machine(&[(0, 41, None)]);
    let pod = pod_level_pod();
    let by_container = |bench: &mut Bench| {
        for name in ["sidecar", "own"] {
            bench.allocate(&pod, name, FREE_CHOICE).expect("fits");
        }
    };
    let as_a_whole = |bench: &mut Bench| {
        let grant =
            bench
                .policy
                .allocate_pod(&bench.state, FREE_CHOICE, &demand(&bench.policy, &pod));
        let edits = grant.expect("fits").edits;
        bench.state.apply(&edits).expect("made for this table");
    };
    let mut bench = Bench::on(&machine, PodLevel::Managed, Fidelity::Sound);
    by_container(&mut bench);
    as_a_whole(&mut bench);
    assert_eq!(bench.reserved(), [5]);

    let mut bench = Bench::on(&machine, PodLevel::Managed, Fidelity::Sound);
    as_a_whole(&mut bench);
    bench.remove("p", "own");
    by_container(&mut bench);
    assert_eq!(bench.reserved(), [10]);
}
