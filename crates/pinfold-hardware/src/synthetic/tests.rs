use super::*;
use crate::numa_id::NumaId;
use crate::pci::PciKind;

fn machine(description: &str) -> Hardware {
    read(description).unwrap_or_else(|error| panic!("{error}"))
}

/// Sockets, nodes, L3 caches, cores, CPUs.
fn counts(hardware: &Hardware) -> [usize; 5] {
    [
        hardware.sockets.len(),
        hardware.nodes.len(),
        hardware.caches_of_level(3).count(),
        hardware.cores.len(),
        hardware.cpus.online.len(),
    ]
}

fn cpus_of_nodes(hardware: &Hardware) -> Vec<String> {
    let nodes = hardware.nodes.iter();
    nodes.map(|node| node.cpus.to_string()).collect()
}

#[test]
fn every_level_counts_per_part_of_the_enclosing_level() {
    for (description, expected) in [
        ("2 sockets, 2 numa, 16 cores, smt2", [2, 4, 2, 64, 128]),
        ("pack:2 numa:2 core:16 pu:2", [2, 4, 2, 64, 128]),
        ("2 sockets 2 numa 16 cores 2 threads", [2, 4, 2, 64, 128]),
        ("2sockets, 2numa, 16cores, smt2", [2, 4, 2, 64, 128]),
        ("8 cores", [1, 1, 1, 8, 8]),
        ("2 sockets", [2, 2, 2, 2, 2]),
        ("smt4", [1, 1, 1, 1, 4]),
        ("2 sockets, 4 numa, 2 l3, 8 cores", [2, 8, 16, 128, 128]),
        ("2 sockets, 4 numa, 8 cores, l3=2", [2, 8, 16, 64, 64]),
        ("2 sockets, 2 l3, 2 numa, 8 cores", [2, 8, 4, 64, 64]),
        ("2 sockets, 4 l3, 8 cores", [2, 2, 8, 64, 64]),
        ("2 sockets, 8 cores, l3=0", [2, 2, 0, 16, 16]),
        ("2 sockets, 2 dies, 1 numa, 4 cores", [2, 4, 2, 16, 16]),
        ("8 cores, smt2, l3=2", [1, 1, 2, 8, 16]),
        (
            "2 SOCKETS, 4 Cores # a comment, 7 cores\n, smt2\n",
            [2, 2, 2, 8, 16],
        ),
    ] {
        assert_eq!(counts(&machine(description)), expected, "{description}");
    }
}

#[test]
fn two_sockets_of_eight_cores_have_threads_in_pairs_and_32_gib_each() {
    let hardware = machine("2 sockets, 8 cores, smt2, mem=32Gi, numbering=adjacent");
    assert_eq!(counts(&hardware), [2, 2, 2, 16, 32]);
    assert_eq!(cpus_of_nodes(&hardware), ["0-15", "16-31"]);
    for (k, core) in hardware.cores.iter().enumerate() {
        assert_eq!(core.cpus.to_string(), format!("{}-{}", 2 * k, 2 * k + 1));
    }
    assert!(hardware.nodes.iter().all(|node| node.memory == 32 << 30));
}

#[test]
fn sixty_cores_and_256_gib_are_one_machine() {
    let hardware = machine("2 sockets, 30 cores, mem=128Gi");
    assert_eq!((hardware.cores.len(), hardware.memory), (60, 256 << 30));
}

#[test]
fn cpus_are_numbered_as_requested() {
    for (numbering, nodes, first_core) in [
        ("", ["0-1,4-5", "2-3,6-7"], "0,4"),
        ("numbering=split", ["0-1,4-5", "2-3,6-7"], "0,4"),
        ("numbering=intel", ["0-1,4-5", "2-3,6-7"], "0,4"),
        ("numbering=amd", ["0-1,4-5", "2-3,6-7"], "0,4"),
        ("numbering=adjacent", ["0-3", "4-7"], "0-1"),
        ("numbering=interleaved", ["0,2,4,6", "1,3,5,7"], "0,4"),
    ] {
        let hardware = machine(&format!("2 sockets, 2 cores, smt2 {numbering}"));
        assert_eq!(cpus_of_nodes(&hardware), nodes, "{numbering}");
        assert_eq!(
            hardware.cores[0].cpus.to_string(),
            first_core,
            "{numbering}"
        );
    }
}

#[test]
fn core_ids_restart_in_every_socket() {
    let hardware = machine("2 sockets, 2 dies, 2 cores");
    let cores = hardware.cores.iter();
    let ids: Vec<_> = cores
        .map(|core| (core.socket, core.die, core.core_id))
        .collect();
    let expected = [0, 1].map(|socket| {
        [(0, 0), (0, 1), (1, 2), (1, 3)].map(|(die, core)| (socket, Some(die), Some(core)))
    });
    assert_eq!(ids, expected.concat());
    assert_eq!(hardware.dies.len(), 4);
}

#[test]
fn distances_follow_the_sockets_or_the_matrix() {
    let rows = |description: &str| -> Vec<Vec<u32>> {
        let nodes = machine(description).nodes.into_iter();
        nodes.map(|node| node.distances).collect()
    };
    assert_eq!(rows("1 core"), [[10]]);
    assert_eq!(rows("2 sockets distances=10,40"), [[10, 40], [40, 10]]);
    assert_eq!(
        rows("2 sockets distances=10,21/31,10"),
        [[10, 21], [31, 10]]
    );
    assert_eq!(
        rows("2 sockets, 2 numa, distances=10,12,32")[0],
        [10, 12, 32, 32]
    );
    let near_and_far =
        "2 sockets cpuless@0=2 cpuless@1=3 cpuless-distances=14,24,26 distances=10,21";
    assert_eq!(
        rows(near_and_far),
        [
            [10, 21, 14, 24],
            [21, 10, 24, 14],
            [14, 24, 10, 26],
            [24, 14, 26, 10]
        ]
    );
    assert_eq!(rows("2 sockets cpuless=9")[2], [20, 20, 10]);
}

#[test]
fn options_with_at_override_those_without_in_any_order() {
    let hardware = machine(
        "mem@1=96Gi, gpu@0=2, 2 sockets, mem=64Gi, cpuless=5, mem@5=1Ti, hugepages-2Mi=512, \
         hugepages-1Gi@0=4, nic=1, nic@1=0, nvme@5=1",
    );
    let memory: Vec<u64> = hardware
        .nodes
        .iter()
        .map(|node| node.memory >> 30)
        .collect();
    assert_eq!(memory, [64, 96, 1024]);
    assert_eq!(hardware.memory >> 30, 64 + 96 + 1024);
    let pages: Vec<Vec<(u64, u64)>> = hardware
        .nodes
        .iter()
        .map(|node| {
            node.hugepages
                .iter()
                .map(|pool| (pool.size_kib, pool.count))
                .collect()
        })
        .collect();
    assert_eq!(
        pages,
        [vec![(1 << 20, 4), (2048, 512)], vec![(2048, 512)], vec![]]
    );
    let located = |kind| -> Vec<Option<u32>> {
        let devices = hardware.devices_of_kind(kind);
        devices.map(|device| device.node.map(NumaId::get)).collect()
    };
    assert_eq!(located(PciKind::Gpu), [Some(0), Some(0)]);
    assert_eq!(located(PciKind::Nic), [Some(0)]);
    assert_eq!(located(PciKind::Nvme), [Some(5)]);
    let mut addresses: Vec<_> = hardware
        .devices
        .iter()
        .map(|device| device.address)
        .collect();
    addresses.dedup();
    assert_eq!(addresses.len(), 4, "every device has an address of its own");
}

#[test]
fn nodes_may_have_any_ids() {
    let hardware = machine("2 sockets, 2 cores, node-ids=0,8 cpuless@8=250-252 mem@250=16Gi");
    let ids: Vec<u32> = hardware.nodes.iter().map(|node| node.id.get()).collect();
    assert_eq!(ids, [0, 8, 250, 251, 252]);
    assert_eq!(cpus_of_nodes(&hardware), ["0-1", "2-3", "", "", ""]);
    let near = &hardware.nodes[2].accesses[0].initiators;
    assert_eq!(near.iter().map(|id| id.get()).collect::<Vec<_>>(), [8]);
    assert!(hardware.machine().is_err());
    let (machine, left_out) = hardware
        .machine_within_reach()
        .expect("the rest is a machine");
    assert_eq!(machine.nodes().len(), 2);
    assert_eq!(left_out.len(), 3);
}

#[test]
fn offline_cpus_are_in_no_set() {
    let hardware = machine("2 sockets, 2 cores, smt2, offline=1-3,6, isolated=4");
    assert_eq!(hardware.cpus.online.to_string(), "0,4-5,7");
    assert_eq!(hardware.cpus.offline.to_string(), "1-3,6");
    assert_eq!(hardware.cpus.isolated.to_string(), "4");
    assert_eq!(cpus_of_nodes(&hardware), ["0,4-5", "7"]);
    assert_eq!(hardware.cores.len(), 3);
}

#[test]
fn an_error_has_its_position_and_a_suggestion() {
    for (description, column, length, says) in [
        ("", 1, 0, "the description is empty"),
        ("2 sokets, 8 cores", 3, 6, "did you mean \"sockets\"?"),
        ("8 cores mems=4Gi", 9, 8, "did you mean \"mem\"?"),
        (
            "2 sockets, 0 cores",
            12,
            7,
            "\"0\" is not a number from 1 to 4096",
        ),
        ("4097 cores", 1, 10, "not a number from 1 to 4096"),
        (
            "99999999999999999999 cores",
            1,
            26,
            "not a number from 1 to 4096",
        ),
        ("cores:x", 1, 7, "\"x\" is not a number"),
        ("2 sockets cores", 11, 5, "how many? write \"4 cores\""),
        ("2 sockets 8", 11, 1, "8 of what?"),
        ("8 cores, 2 sockets", 10, 9, "write sockets before cores"),
        ("2 sockets, 8 cores, 4 cores", 21, 7, "cores is given twice"),
        ("4 l3, 8 cores, l3=4", 1, 19, "l3 is given twice"),
        (
            "8 cores numbering=inter",
            9,
            15,
            "numbering takes split, adjacent or interleaved",
        ),
        (
            "8 cores mem=64Gb",
            9,
            8,
            "mem takes a size such as 64Gi, not \"64Gb\"",
        ),
        (
            "8 cores mem@7=1Gi",
            9,
            9,
            "the machine has no NUMA node 7; it has 0",
        ),
        ("8 cores mem@x=1Gi", 9, 9, "mem takes a list of NUMA ids"),
        (
            "8 cores numbering@0=split",
            9,
            17,
            "is for the whole machine",
        ),
        (
            "8 cores distances=10",
            9,
            12,
            "distances takes two or three numbers",
        ),
        (
            "8 cores distances=10,21/21,10",
            9,
            21,
            "2 rows for 1 NUMA nodes",
        ),
        ("8 cores distances=10,256", 9, 16, "up to 255"),
        ("2 sockets node-ids=1", 11, 10, "1 ids for 2 NUMA nodes"),
        ("8 cores cpuless=0", 9, 9, "two NUMA nodes have the id 0"),
        ("8 cores cpuless@3=2", 9, 11, "no NUMA node 3"),
        ("8 cores cpuless@0-1=2", 9, 13, "one NUMA id after"),
        (
            "8 cores offline=9",
            9,
            9,
            "offline names CPU 9; the machine has CPUs 0 to 7",
        ),
        ("8 cores offline=0-7", 9, 11, "leaves no CPU online"),
        (
            "64 sockets, 64 cores, smt2",
            1,
            26,
            "8192 CPUs, and at most 4096",
        ),
        ("2048 sockets", 1, 0, "2048 NUMA nodes, and at most 1024"),
        (
            "64 sockets gpu=256",
            1,
            0,
            "16384 PCI devices, and at most 4096",
        ),
        (
            "8 cores offline=1 offline=2",
            19,
            9,
            "offline is given twice",
        ),
        ("2 sockets,8 cores", 3, 9, "\"sockets,8\" is not a level"),
    ] {
        let error = read(description).expect_err(description);
        let text = error.to_string();
        assert!(text.contains(says), "{description}: {text}");
        assert_eq!(
            (error.column, error.length),
            (column, length),
            "{description}: {text}"
        );
    }
}

#[test]
fn the_message_points_at_the_word() {
    let error = read("2 sockets,\n8 corse, smt2").expect_err("a slip");
    assert_eq!(
        error.to_string(),
        "cannot read the description of the machine, line 2, column 3: \"corse\" is not a level; \
         expected socket, die, numa, l3, core or thread; did you mean \"core\"?\n  \
         8 corse, smt2\n    ^^^^^"
    );
}
