//! Reusable memory of init containers, and when init containers are assigned none any more.

use super::*;

#[test]
fn memory_of_init_containers_is_reused_on_the_same_nodes_only() {
    let init = vec![container("i", 6, None)];
    let requesting = pod(
        "p",
        init,
        vec![container("same", 8, None), container("other", 3, None)],
    );
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        let mut bench = Bench::new(&[10, 10], fidelity);
        bench.on_nodes(&requesting, "i", &[0]).expect("free");
        bench
            .on_nodes(&requesting, "same", &[0])
            .expect("6 left and 4 free");
        assert_eq!(bench.reserved(), [8, 0]);
        assert_eq!((bench.size("p", "i"), bench.size("p", "same")), (0, 8));

        let mut bench = Bench::new(&[10, 10], fidelity);
        bench.on_nodes(&requesting, "i", &[0]).expect("free");
        bench.on_nodes(&requesting, "other", &[1]).expect("free");
        assert_eq!(bench.reserved(), [6, 3]);
        assert_eq!((bench.size("p", "i"), bench.size("p", "other")), (6, 3));
    }
}

#[test]
fn a_sidecar_reuses_memory_but_its_own_is_not_reusable() {
    let mut sidecar = container("s", 4, None);
    sidecar.restartable = true;
    let requesting = pod(
        "p",
        vec![container("i", 6, None), sidecar],
        vec![container("c", 5, None)],
    );
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        let mut bench = Bench::new(&[10], fidelity);
        for name in ["i", "s", "c"] {
            bench.on_nodes(&requesting, name, &[0]).expect("fits");
        }
        // The sidecar reuses 4 of the 6 bytes, the app container the other 2.
        assert_eq!(bench.reserved(), [9]);
        assert_eq!(bench.size("p", "i"), 0);
    }
}

#[test]
fn memory_of_a_removed_init_container_is_not_assigned_without_being_allocated() {
    let requesting = pod(
        "p",
        vec![container("i", 6, None)],
        vec![container("c", 5, None)],
    );
    for (fidelity, expected) in [(Fidelity::Exact, 0), (Fidelity::Sound, 5)] {
        let mut bench = Bench::new(&[10], fidelity);
        bench.on_nodes(&requesting, "i", &[0]).expect("free");
        bench.remove("p", "i");
        bench.on_nodes(&requesting, "c", &[0]).expect("free");
        assert_eq!(bench.reserved(), [expected], "{fidelity:?}");
    }
}

#[test]
fn a_finished_init_container_is_assigned_no_memory_after_a_restart() {
    let requesting = pod(
        "p",
        vec![container("i", 6, None)],
        vec![container("c", 5, None)],
    );
    for (fidelity, expected) in [(Fidelity::Exact, 11), (Fidelity::Sound, 5)] {
        let mut bench = Bench::new(&[20], fidelity);
        bench.on_nodes(&requesting, "i", &[0]).expect("free");
        bench.on_nodes(&requesting, "c", &[0]).expect("free");
        bench.remove("p", "i");
        let edits = bench
            .policy
            .start(&bench.state)
            .expect("a table of its own");
        bench.state.apply(&edits).expect("made for this table");
        for name in ["i", "c"] {
            bench.on_nodes(&requesting, name, &[0]).expect("free");
        }
        assert_eq!(bench.reserved(), [expected], "{fidelity:?}");
    }
}
