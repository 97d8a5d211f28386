//! Discovery on machines that are recorded in this repository.
//!
//! The expectations follow from the arguments with which QEMU emulated the machines. Its kernels keep some memory for
//! themselves, so that a node has up to 60 MiB less than its memory device.

use std::path::Path;

use pinfold_core::cpu_set::CpuSet;
use pinfold_hardware::hardware::CgroupKind;
use pinfold_hardware::pci::PciKind;
use pinfold_hardware::record::Recording;
use pinfold_hardware::{Hardware, NumaId, from_topology_json};

const MIB: u64 = 1 << 20;

/// A NUMA node: its id, its CPUs, the MiB of its memory device, its distances.
type Node = (u32, &'static str, u64, &'static [u32]);

fn recorded(name: &str) -> Hardware {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/machines/recorded")
        .join(format!("{name}.machine"));
    let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert!(bytes.len() < 100_000, "{name} is not a small file");
    let recording = Recording::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let hardware = recording
        .replay()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let json = serde_json::json!({ "hardware": hardware }).to_string();
    let read = from_topology_json(&json).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(read, hardware, "{name}: its JSON is the same machine");
    hardware
}

fn numa(id: u32) -> NumaId {
    NumaId::new(id).expect("a small id")
}

fn set(cpus: &str) -> CpuSet {
    cpus.parse().expect("a list of CPUs")
}

fn sets<'a>(cpus: impl Iterator<Item = &'a CpuSet>) -> Vec<String> {
    cpus.map(ToString::to_string).collect()
}

fn check_nodes(hardware: &Hardware, expected: &[Node]) {
    let ids: Vec<NumaId> = hardware.nodes.iter().map(|node| node.id).collect();
    let expected_ids: Vec<NumaId> = expected.iter().map(|node| numa(node.0)).collect();
    assert_eq!(ids, expected_ids);
    for (node, &(id, cpus, mib, distances)) in hardware.nodes.iter().zip(expected) {
        assert_eq!(node.cpus, set(cpus), "CPUs of node {id}");
        assert_eq!(node.distances, distances, "distances of node {id}");
        let least = mib.saturating_sub(60) * MIB;
        assert!(
            (least..=mib * MIB).contains(&node.memory),
            "node {id} has {} bytes",
            node.memory
        );
    }
    assert!(hardware.kernel_has_nodes);
}

/// Sockets of consecutive CPUs, cores of consecutive threads.
fn check_cores(hardware: &Hardware, sockets: &[&str], cores: &[&str]) {
    assert_eq!(
        sets(hardware.sockets.iter().map(|socket| &socket.cpus)),
        sockets
    );
    assert_eq!(sets(hardware.cores.iter().map(|core| &core.cpus)), cores);
    assert_eq!(hardware.counted_sockets, sockets.len());
}

#[test]
fn two_nodes_with_an_offline_cpu_huge_pages_and_a_network_card() {
    let hardware = recorded("two-nodes");
    check_nodes(
        &hardware,
        &[(0, "0-3", 256, &[10, 21]), (1, "4,6-7", 256, &[21, 10])],
    );
    check_cores(&hardware, &["0-3", "4,6-7"], &["0-1", "2-3", "4", "6-7"]);
    assert_eq!(hardware.cpus.online, set("0-4,6-7"));
    assert_eq!(hardware.cpus.offline, set("5"));
    assert_eq!(hardware.cpus.possible, set("0-7"));
    let l3 = sets(hardware.caches_of_level(3).map(|cache| &cache.cpus));
    assert_eq!(l3, ["0-3", "4,6-7"]);
    let pages = |node: usize| {
        let pools = hardware.nodes[node].hugepages.iter();
        pools
            .map(|pool| (pool.size_kib, pool.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(pages(0), [(1 << 20, 0), (2048, 0)]);
    assert_eq!(pages(1), [(1 << 20, 0), (2048, 4)]);
    let cards: Vec<_> = hardware
        .devices_of_kind(PciKind::Nic)
        .map(|card| (card.address.to_string(), card.node))
        .collect();
    assert_eq!(cards, [("0000:41:00.0".to_owned(), Some(numa(1)))]);
    let limits = hardware.allowed.expect("the root control group");
    assert_eq!(limits.cpus, set("0-4,6-7"));
    assert_eq!(limits.nodes, [numa(0), numa(1)]);
    assert_eq!(hardware.inconsistencies, []);
}

#[test]
fn four_nodes_on_two_sockets_with_four_distances() {
    let hardware = recorded("four-nodes");
    check_nodes(
        &hardware,
        &[
            (0, "0-3", 192, &[10, 12, 21, 25]),
            (1, "4-7", 192, &[12, 10, 25, 21]),
            (2, "8-11", 192, &[21, 25, 10, 12]),
            (3, "12-15", 192, &[25, 21, 12, 10]),
        ],
    );
    let cores = ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"];
    check_cores(&hardware, &["0-7", "8-15"], &cores);
    assert_eq!(hardware.inconsistencies, []);
}

#[test]
fn eight_nodes_on_two_sockets() {
    let hardware = recorded("eight-nodes");
    let near = [10, 12, 12, 12, 32, 32, 32, 32];
    for (index, node) in hardware.nodes.iter().enumerate() {
        let mut row = near;
        if index >= 4 {
            row.rotate_right(4);
        }
        row.swap(index / 4 * 4, index);
        assert_eq!(node.distances, row, "distances of node {index}");
        assert_eq!(node.cpus, set(&format!("{}-{}", 2 * index, 2 * index + 1)));
        assert!(node.memory > 60 * MIB && node.memory <= 128 * MIB);
    }
    assert_eq!(hardware.nodes.len(), 8);
    let cores: Vec<String> = (0..16).map(|cpu| cpu.to_string()).collect();
    let cores: Vec<&str> = cores.iter().map(String::as_str).collect();
    check_cores(&hardware, &["0-7", "8-15"], &cores);
    assert_eq!(hardware.inconsistencies, []);
}

#[test]
fn a_node_with_memory_only_and_the_firmwares_bandwidth_and_latency() {
    let hardware = recorded("memory-tier");
    check_nodes(
        &hardware,
        &[
            (0, "0-1", 256, &[10, 21, 28]),
            (1, "2-3", 192, &[21, 10, 14]),
            (2, "", 192, &[28, 14, 10]),
        ],
    );
    check_cores(&hardware, &["0-1", "2-3"], &["0", "1", "2", "3"]);
    for (node, best, bandwidth, latency) in [(0, 0, 20480, 10), (1, 1, 20480, 10), (2, 1, 4096, 40)]
    {
        let accesses = &hardware.nodes[node].accesses;
        assert_eq!(accesses.len(), 2, "access classes of node {node}");
        for access in accesses {
            assert_eq!(access.initiators, [numa(best)]);
            assert_eq!(access.read_bandwidth, Some(bandwidth));
            assert_eq!(access.write_bandwidth, Some(bandwidth));
            assert_eq!(access.read_latency, Some(latency));
            assert_eq!(access.write_latency, Some(latency));
        }
    }
    assert_eq!(hardware.inconsistencies, []);
}

#[test]
fn a_node_with_cpus_only_has_no_memory() {
    let hardware = recorded("node-without-memory");
    check_nodes(
        &hardware,
        &[(0, "0-1", 512, &[10, 17]), (1, "2-3", 0, &[17, 10])],
    );
    check_cores(&hardware, &["0-1", "2-3"], &["0", "1", "2", "3"]);
    assert_eq!(hardware.inconsistencies, []);
}

#[test]
fn nodes_that_share_their_cpus_are_an_inconsistency() {
    let hardware = recorded("fake-nodes");
    let node = |id| (id, "0-3", 192, &[10, 10, 10, 10][..]);
    check_nodes(&hardware, &[node(0), node(1), node(2), node(3)]);
    check_cores(&hardware, &["0-3"], &["0", "1", "2", "3"]);
    let found: Vec<String> = hardware
        .inconsistencies
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(found, ["CPU 0 is in more than one NUMA node"]);
}

#[test]
fn cpusets_of_cgroup_v1_are_found_beside_a_cgroup_v2_without_controllers() {
    let hardware = recorded("one-node");
    assert_eq!(hardware.cpus.online, set("0-1"));
    check_cores(&hardware, &["0-1"], &["0", "1"]);
    let ids: Vec<NumaId> = hardware.nodes.iter().map(|node| node.id).collect();
    assert_eq!(ids, [numa(0)]);
    assert_eq!(hardware.nodes[0].memory, 24_684_100 * 1024);
    assert_eq!(hardware.nodes[0].distances, [10]);
    let l3 = sets(hardware.caches_of_level(3).map(|cache| &cache.cpus));
    assert_eq!(l3, ["0-1"]);
    let limits = hardware.allowed.expect("the root of the cpuset hierarchy");
    assert_eq!(limits.by, CgroupKind::V1);
    assert_eq!(limits.cpus, set("0-1"));
    assert_eq!(limits.nodes, [numa(0)]);
    assert_eq!(hardware.inconsistencies, []);
}
