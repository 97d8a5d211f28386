//! The rules one by one.

use super::*;

/// Two nodes with two GPUs each, and one GPU without topology information.
fn two_nodes() -> DevicePool {
    pool_of(
        nodes(&[0, 1]),
        [
            ("a0", device(Some(&[0]))),
            ("a1", device(Some(&[0]))),
            ("b0", device(Some(&[1]))),
            ("b1", device(Some(&[1]))),
            ("x", device(None)),
        ],
    )
}

fn hints_for(pool: &DevicePool, state: &DeviceState, gpus: i64) -> Option<Vec<Hint>> {
    let pod = pod("pod", vec![], vec![container("c", gpus)]);
    let container = &pod.containers[0];
    written_out(&container_hints(
        pool,
        state,
        &pod,
        container,
        &ReusableDevices::default(),
        DeviceMasks::NodesWithDevices,
    ))
}

fn choose(
    pool: &DevicePool,
    state: &DeviceState,
    gpus: i64,
    affinity: Option<NodeSet>,
    left: &str,
    plugin: &mut impl PreferredAllocation,
) -> Result<Option<DeviceSet>, String> {
    let pod = pod("pod", vec![], vec![container("c", gpus)]);
    let request = DeviceRequest {
        pod: &pod,
        container: &pod.containers[0],
        affinity,
        reusable: &ReusableDevices::from(DevicesByResource::from([(gpu(), set(left))])),
    };
    devices_to_allocate(pool, state, request, &gpu(), gpus, plugin)
        .map_err(|error| error.to_string())
}

#[test]
fn devices_without_topology_information_have_no_preference() {
    for numa in [None, Some(&[][..])] {
        let pool = pool_of(nodes(&[0, 1]), [("a", device(numa))]);
        assert_eq!(
            hints_for(&pool, &DeviceState::default(), 1),
            None,
            "{numa:?}"
        );
    }
}

#[test]
fn a_device_on_an_unknown_node_cannot_be_aligned() {
    for id in [-1, 9, 64] {
        let pool = pool_of(nodes(&[0, 1]), [("a", device(Some(&[id])))]);
        let state = DeviceState::default();
        assert_eq!(hints_for(&pool, &state, 1), Some(vec![]), "node {id}");
        let any = hints_for(&pool, &state, 0).expect("its placement matters");
        assert_eq!(any.len(), 3, "a request for none fits anywhere");
    }
}

#[test]
fn masks_are_preferred_by_the_width_on_an_empty_machine() {
    let pool = two_nodes();
    let both = Hint::on(nodes(&[0, 1]), false);
    let mut state = DeviceState::default();
    let (zero, one) = (Hint::on(nodes(&[0]), true), Hint::on(nodes(&[1]), true));
    assert_eq!(hints_for(&pool, &state, 2), Some(vec![zero, one, both]));
    assign(&mut state, "other", "c", "a0 b0");
    assert_eq!(hints_for(&pool, &state, 2), Some(vec![both]));
    assert_eq!(
        hints_for(&pool, &state, 3),
        Some(vec![]),
        "one of three has no node"
    );
    assert_eq!(
        hints_for(&pool, &state, 4),
        Some(vec![]),
        "only three are free"
    );
}

#[test]
fn after_a_restart_the_hints_lead_to_the_same_devices() {
    let pool = two_nodes();
    let mut state = DeviceState::default();
    assign(&mut state, "pod", "c", "a0 b0");
    let both = Hint::on(nodes(&[0, 1]), false);
    assert_eq!(hints_for(&pool, &state, 2), Some(vec![both]));
    assert_eq!(
        hints_for(&pool, &state, 1),
        Some(vec![]),
        "the request has changed"
    );
    let pod = pod("pod", vec![], vec![container("c", 1), container("d", 1)]);
    assert_eq!(
        written_out(&pod_hints(
            &pool,
            &state,
            &pod,
            DeviceMasks::NodesWithDevices
        )),
        Some(vec![both])
    );
}

#[test]
fn a_pod_requests_its_peak() {
    let pool = two_nodes();
    let state = DeviceState::default();
    let both = Hint::on(nodes(&[0, 1]), true);
    let pod = pod(
        "pod",
        vec![container("i", 3)],
        vec![container("c", 1), container("d", 1)],
    );
    assert_eq!(
        written_out(&pod_hints(
            &pool,
            &state,
            &pod,
            DeviceMasks::NodesWithDevices
        )),
        Some(vec![both])
    );
}

#[test]
fn devices_are_sorted_by_the_chosen_nodes() {
    let pool = pool_of(
        nodes(&[0, 1]),
        [
            ("empty", device(Some(&[]))),
            ("near", device(Some(&[0]))),
            ("far", device(Some(&[1]))),
            ("gone", device(Some(&[9]))),
            ("none", device(None)),
            ("nowhere", device(Some(&[-1]))),
            ("nowhere-far", device(Some(&[-1, 1]))),
            ("wide", device(Some(&[0, 1]))),
        ],
    );
    let state = DeviceState::default();
    let all: Vec<_> = pool.free(&state, &gpu()).collect();
    let sorted = ByAffinity::sort(&pool, &gpu(), &all, Some(nodes(&[0])));
    let names = |ids: &[&DeviceId]| {
        ids.iter()
            .map(|id| id.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(names(&sorted.aligned), "near wide");
    assert_eq!(names(&sorted.unaligned), "far gone nowhere-far");
    assert_eq!(names(&sorted.no_affinity), "empty none nowhere");
    let unsorted = ByAffinity::sort(&pool, &gpu(), &all, None);
    assert_eq!(unsorted.no_affinity.len(), all.len());
}

#[test]
fn devices_are_taken_from_near_to_far() {
    let pool = two_nodes();
    let state = DeviceState::default();
    let on_one = Some(nodes(&[1]));
    for (gpus, left, expected) in [
        (1, "", "b0"),
        (2, "", "b0 b1"),
        (3, "", "a0 b0 b1"),
        (5, "", "a0 a1 b0 b1 x"),
        (1, "a1", "a1"),
        (2, "a1", "a1 b0"),
    ] {
        let found = choose(&pool, &state, gpus, on_one, left, &mut NoPreference);
        assert_eq!(found, Ok(Some(set(expected))), "{gpus} with {left:?} left");
    }
    assert_eq!(
        choose(&pool, &state, 0, on_one, "a1", &mut NoPreference),
        Ok(None)
    );
}

#[test]
fn the_plugin_chooses_only_among_equal_devices() {
    let pool = two_nodes();
    let state = DeviceState::default();
    let mut queries = Vec::new();
    let mut plugin = |query: PreferredAllocationQuery<'_>| {
        queries.push((
            query.available.clone(),
            query.must_include.clone(),
            query.size,
        ));
        Ok(Some(set("a1 b1 unheard-of")))
    };
    let on_one = Some(nodes(&[1]));
    let found = choose(&pool, &state, 1, on_one, "", &mut plugin);
    assert_eq!(
        found,
        Ok(Some(set("b1"))),
        "preferred devices that are not aligned are ignored"
    );
    let found = choose(&pool, &state, 2, on_one, "", &mut plugin);
    assert_eq!(
        found,
        Ok(Some(set("b0 b1"))),
        "all aligned devices: no choice"
    );
    let found = choose(&pool, &state, 3, on_one, "", &mut plugin);
    assert_eq!(found, Ok(Some(set("a1 b0 b1"))));
    let found = choose(&pool, &state, 4, on_one, "", &mut plugin);
    assert_eq!(
        found,
        Ok(Some(set("a0 a1 b0 b1"))),
        "too few preferred devices are filled up"
    );
    let all = set("a0 a1 b0 b1 x");
    assert_eq!(
        queries,
        [
            (set("b0 b1"), set(""), 1),
            (all.clone(), set("b0 b1"), 3),
            (all, set("b0 b1"), 4),
        ]
    );
}

#[test]
fn a_plugin_that_prefers_pairs_is_followed() {
    let ids = ["g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7"];
    let pool = pool_of(nodes(&[0]), ids.map(|id| (id, device(Some(&[0])))));
    let pairs = ["g0 g3", "g1 g2", "g4 g7", "g5 g6"];
    let mut plugin = |query: PreferredAllocationQuery<'_>| {
        let mut whole = pairs.iter().map(|pair| set(pair));
        Ok(whole.find(|pair| pair.is_subset(query.available)))
    };
    let mut state = DeviceState::default();
    let here = Some(nodes(&[0]));
    let pair = |state: &DeviceState, plugin: &mut _| choose(&pool, state, 2, here, "", plugin);
    assert_eq!(pair(&state, &mut plugin), Ok(Some(set("g0 g3"))));
    assign(&mut state, "other", "c", "g0 g2");
    assert_eq!(pair(&state, &mut plugin), Ok(Some(set("g4 g7"))));
}

#[test]
fn rejections_have_the_kubelets_messages() {
    let pool = two_nodes();
    let mut state = DeviceState::default();
    assign(&mut state, "other", "c", "a0 a1 b0");
    let rejection = |pool: &DevicePool, state: &DeviceState, gpus, left| {
        choose(pool, state, gpus, None, left, &mut NoPreference).expect_err("rejected")
    };
    assert_eq!(
        rejection(&pool, &state, 4, "a0"),
        "requested number of devices unavailable for example.com/gpu. Requested: 3, Available: 2"
    );
    let ill = Device {
        healthy: false,
        ..device(Some(&[0]))
    };
    assert_eq!(
        rejection(&pool_of(nodes(&[0]), [("a0", ill.clone())]), &state, 1, ""),
        "no healthy devices present; cannot allocate unhealthy devices example.com/gpu"
    );
    assert_eq!(
        rejection(&DevicePool::new(nodes(&[0])), &state, 1, ""),
        "cannot allocate unregistered device example.com/gpu"
    );
    let mut own = DeviceState::default();
    assign(&mut own, "pod", "c", "a0");
    assert_eq!(
        rejection(&pool, &own, 2, ""),
        "pod \"pod\" container \"c\" changed request for resource \"example.com/gpu\" from 1 to 2"
    );
    let mended = pool_of(nodes(&[0]), [("a0", ill), ("a1", device(None))]);
    assert_eq!(
        rejection(&mended, &own, 1, ""),
        "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.com/gpu"
    );
    let mut silent = |_: PreferredAllocationQuery<'_>| Err("deadline exceeded".to_owned());
    assert_eq!(
        choose(&pool, &DeviceState::default(), 1, None, "", &mut silent),
        Err(
            "device plugin GetPreferredAllocation rpc failed with err: deadline exceeded"
                .to_owned()
        )
    );
}

#[test]
fn later_containers_reuse_devices_of_init_containers() {
    let pool = two_nodes();
    let mut state = DeviceState::default();
    let sidecar = Container {
        restartable: true,
        ..container("s", 1)
    };
    let pod = pod(
        "pod",
        vec![container("i", 2), sidecar, container("j", 1)],
        vec![container("c", 1), container("d", 1)],
    );
    admit(&pool, &mut state, &pod, Some(nodes(&[1]))).expect("enough devices");
    let held = |name: &str| {
        let name: ContainerName = name.into();
        state
            .held(&PodUid::from("pod"), &name, &gpu())
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(held("i"), set("b0 b1"));
    assert_eq!(held("s"), set("b0"), "a sidecar keeps reused devices");
    assert_eq!(held("j"), set("b1"));
    assert_eq!(held("c"), set("b1"));
    assert_eq!(held("d"), set("a0"), "nothing is left to reuse");
}

#[test]
fn a_resource_that_is_held_stays_a_device_without_its_plugin() {
    let pool = DevicePool::new(nodes(&[0]));
    let mut state = DeviceState::default();
    assert!(!pool.is_device(&state, &gpu()));
    assert_eq!(hints_for(&pool, &state, 1), None);
    assign(&mut state, "other", "c", "a0");
    assert!(pool.is_device(&state, &gpu()));
}

#[test]
fn a_stale_edit_changes_nothing() {
    let mut state = DeviceState::default();
    assign(&mut state, "pod", "c", "a0");
    let before = state.clone();
    let edit = DeviceEdit {
        pod: "pod".into(),
        container: "c".into(),
        resource: gpu(),
        before: None,
        after: Some(set("a1")),
    };
    assert!(state.apply(&edit).is_err());
    assert!(state.edit(&edit, Direction::Revert).is_err());
    assert_eq!(state, before);
    let json = serde_json::to_string(&edit).expect("text");
    assert_eq!(
        serde_json::from_str::<DeviceEdit>(&json).expect("an edit"),
        edit
    );
}
