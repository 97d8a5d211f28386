//! Reservations and the table of the empty machine.

use super::*;
use crate::settings::{MemoryManagerPolicy, Settings};

#[test]
fn more_reserved_than_total_leaves_nothing_allocatable() {
    let machine = machine(&[(0, 0, None), (1, 10, None)]);
    for (fidelity, expected) in [(Fidelity::Exact, u64::MAX), (Fidelity::Sound, 0)] {
        let bench = Bench::on(&machine, PodLevel::Ignored, fidelity);
        assert_eq!(bench.state.free(set(&[0]), &memory_resource()), expected);
    }
}

#[test]
fn reservations_must_name_known_nodes_and_add_up() {
    let machine = machine(&[(0, 8 << 30, Some(1)), (5, 8 << 30, Some(1))]);
    let list = |rows: &[(&str, &str)]| -> ResourceList {
        let row = |&(name, text): &(&str, &str)| {
            (ResourceName::from(name), text.parse().expect("a quantity"))
        };
        rows.iter().map(row).collect()
    };
    let on = |numa_node, rows| MemoryReservation {
        numa_node,
        limits: list(rows),
    };
    let says = |node: &[(&str, &str)], rows: &[MemoryReservation]| {
        let settings = Settings {
            memory_policy: MemoryManagerPolicy::Static,
            node_reservation: list(node),
            reserved_memory: rows.to_vec(),
            ..Settings::default()
        };
        let made = MemoryPolicy::new(&machine, &settings);
        made.map(|_| ()).map_err(|error| error.to_string())
    };
    let half = [("memory", "512Mi")];
    assert_eq!(
        says(
            &[("memory", "1Gi"), ("cpu", "2")],
            &[on(0, &half), on(5, &half)]
        ),
        Ok(())
    );
    type Rows<'a> = &'a [(&'a str, &'a str)];
    let rejections: [(Rows<'_>, &[MemoryReservation], &str); 6] = [
        (
            &[],
            &[on(1, &half)],
            "the reserved memory configuration references a NUMA node 1 that does not exist on this machine",
        ),
        (
            &[],
            &[on(-1, &half)],
            "the reserved memory configuration references a NUMA node -1 that does not exist on this machine",
        ),
        (
            &[("memory", "1Gi")],
            &[on(0, &half)],
            "the total amount \"512Mi\" of type \"memory\" is not equal to the value \"1Gi\" determined by Node Allocatable feature",
        ),
        (
            &[("hugepages-1Ki", "1Ki"), ("memory", "512Mi")],
            &[on(0, &half)],
            "the total amount \"0\" of type \"hugepages-1Ki\" is not equal to the value \"1Ki\" determined by Node Allocatable feature",
        ),
        (
            &[("memory", "500m")],
            &[on(0, &[("memory", "500m")])],
            "could not covert a variable of type Quantity to int64",
        ),
        (
            &[],
            &[],
            "[memorymanager] you should specify the system reserved memory",
        ),
    ];
    for (node, rows, expected) in rejections {
        assert_eq!(says(node, rows), Err(expected.to_owned()));
    }
}

#[test]
fn huge_pages_are_named_by_their_size_and_are_not_memory_any_more() {
    let names = [
        (4, "hugepages-4Ki"),
        (2048, "hugepages-2Mi"),
        (1 << 20, "hugepages-1Gi"),
    ];
    for (size_kib, expected) in names {
        assert_eq!(hugepages_resource(size_kib).as_str(), expected);
    }
    let bench = Bench::on(
        &machine(&[(0, 5000, Some(3))]),
        PodLevel::Ignored,
        Fidelity::Sound,
    );
    assert_eq!(bench.state.free(set(&[0]), &hugepages_resource(1)), 3072);
    assert_eq!(
        bench.state.free(set(&[0]), &memory_resource()),
        5000 - 3072 - 1
    );
}
