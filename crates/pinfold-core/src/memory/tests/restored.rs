//! Restored tables, and the edits that made them.

use super::*;

#[test]
fn the_hints_of_a_restarted_container_are_the_nodes_it_has() {
    let requesting = pod("p", vec![], vec![container("c", 12, None)]);
    let mut bench = Bench::new(&[10, 10], Fidelity::Sound);
    bench.allocate(&requesting, "c", FREE_CHOICE).expect("free");
    let hints = |pod: &Pod| super::hints(&bench.policy, &bench.state, pod, &pod.containers[0]);
    assert_eq!(masks(&hints(&requesting)), [(vec![0, 1], true)]);
    let resized = pod("p", vec![], vec![container("c", 13, None)]);
    assert_eq!(hints(&resized).basis, MemoryBasis::HeldDiffers);
}

#[test]
fn a_table_that_contradicts_the_machine_is_rejected() {
    let mut bench = Bench::new(&[10, 10], Fidelity::Sound);
    bench.fill("p", 12, &[0, 1]);
    let says = |memory: &[u64]| {
        let other = Bench::new(memory, Fidelity::Sound).policy;
        other.start(&bench.state).map_err(|error| error.to_string())
    };
    let gone = "[memorymanager] (pod: p, container: c) the memory assignment uses the NUMA that does not exist";
    let differs = "[memorymanager] the expected machine state is different from the real one";
    assert_eq!(says(&[10, 10]), Ok(Vec::new()));
    assert_eq!(says(&[10]), Err(gone.to_owned()));
    assert_eq!(says(&[10, 11]), Err(differs.to_owned()));
    assert_eq!(says(&[10, 10, 10]), Err(differs.to_owned()));

    let homeless = MemoryState::new(
        BTreeMap::new(),
        bench.state.assignments().clone(),
        BTreeMap::new(),
    );
    assert_eq!(
        bench.policy.start(&homeless),
        Err(MemoryStartError::NoTable)
    );
    let empty = MemoryState::default();
    let mut fresh = empty.clone();
    fresh
        .apply(&bench.policy.start(&empty).expect("nothing to check"))
        .expect("made for it");
    assert_eq!(fresh, bench.policy.initial_state());
}

#[test]
fn a_stale_edit_is_rejected() {
    let mut bench = Bench::new(&[10, 10], Fidelity::Sound);
    let requesting = pod("p", vec![], vec![container("c", 3, None)]);
    let container = &requesting.containers[0];
    let grant = allocate(
        &bench.policy,
        &bench.state,
        FREE_CHOICE,
        &requesting,
        container,
    )
    .expect("free");
    bench.fill("faster", 1, &[0]);
    let before = bench.state.clone();
    let stale = bench
        .state
        .apply(&grant.edits)
        .expect_err("node 0 changed meanwhile");
    assert_eq!(stale.entry, "NUMA node 0");
    assert_eq!(bench.state, before);
}

#[test]
fn edits_and_tables_survive_serialization() {
    let mut bench = Bench::new(&[10, 10], Fidelity::Exact);
    let requesting = pod("p", vec![container("i", 3, None)], vec![]);
    let container = &requesting.init_containers[0];
    let grant = allocate(
        &bench.policy,
        &bench.state,
        FREE_CHOICE,
        &requesting,
        container,
    )
    .expect("free");
    let text = serde_json::to_string(&grant.edits).expect("plain data");
    let read: Vec<MemoryEdit> = serde_json::from_str(&text).expect("just written");
    assert_eq!(read, grant.edits);
    bench.state.apply(&read).expect("made for this table");
    let text = serde_json::to_string(&bench.state).expect("plain data");
    assert_eq!(
        serde_json::from_str::<MemoryState>(&text).expect("just written"),
        bench.state
    );
}
