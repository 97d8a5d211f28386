//! Every preset is the machine that its name says.

use pinfold_hardware::open;
use pinfold_hardware::pci::PciKind;
use pinfold_hardware::presets::PRESETS;

/// Name, then sockets, nodes, nodes with CPUs, L3 caches, cores, CPUs, GiB of memory.
const EXPECTED: [(&str, [usize; 7]); 11] = [
    ("ampere-altra", [2, 2, 2, 0, 160, 160, 512]),
    ("cxl-expander", [2, 4, 2, 2, 104, 208, 320]),
    ("dgx-h100", [2, 2, 2, 2, 112, 224, 2048]),
    ("epyc-9654-l3-as-numa", [2, 24, 24, 24, 192, 384, 1536]),
    ("epyc-9654-nps1", [2, 2, 2, 24, 192, 384, 1536]),
    ("epyc-9654-nps4", [2, 8, 8, 24, 192, 384, 1536]),
    ("gb200-nvl4", [2, 34, 2, 2, 144, 144, 1586]),
    ("grace-superchip", [2, 2, 2, 2, 144, 144, 223]),
    ("xeon-8480-snc-off", [2, 2, 2, 2, 112, 224, 1024]),
    ("xeon-8480-snc2", [2, 4, 4, 2, 112, 224, 1024]),
    ("xeon-8480-snc4", [2, 8, 8, 2, 112, 224, 1024]),
];

#[test]
fn every_preset_has_the_parts_of_its_machine() {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    assert_eq!(
        names,
        EXPECTED.map(|(name, _)| name),
        "every preset is expected, in order"
    );
    for (name, expected) in EXPECTED {
        let hardware = open(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let with_cpus = hardware.nodes.iter().filter(|node| !node.cpus.is_empty());
        let found = [
            hardware.sockets.len(),
            hardware.nodes.len(),
            with_cpus.count(),
            hardware.caches_of_level(3).count(),
            hardware.cores.len(),
            hardware.cpus.online.len(),
            usize::try_from(hardware.memory >> 30).expect("fits"),
        ];
        assert_eq!(found, expected, "{name}");
        assert!(
            hardware.inconsistencies.is_empty(),
            "{name}: {:?}",
            hardware.inconsistencies
        );
        let machine = hardware
            .machine()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(machine.online(), &hardware.cpus.online, "{name}");
        assert_eq!(machine.parts().num_sockets, 2, "{name}");
    }
}

#[test]
fn every_preset_names_its_machine_and_its_sources() {
    for preset in PRESETS {
        assert!(preset.title().len() > 10, "{}", preset.name);
        assert!(
            preset
                .text
                .lines()
                .filter(|line| line.starts_with('#'))
                .count()
                > 2,
            "{}",
            preset.name
        );
    }
}

#[test]
fn the_kubelet_sees_uncore_caches_only_where_they_differ_from_nodes() {
    for (name, sees) in [
        ("xeon-8480-snc-off", false),
        ("xeon-8480-snc2", true),
        ("epyc-9654-nps1", true),
        ("epyc-9654-nps4", true),
        ("epyc-9654-l3-as-numa", false),
        ("ampere-altra", false),
    ] {
        let machine = open(name).expect(name).machine().expect(name);
        let mut cores = machine.nodes().iter().flat_map(|node| &node.cores);
        assert!(cores.all(|core| core.l3.is_some() == sees), "{name}");
    }
}

#[test]
fn devices_and_memory_of_the_gb200_are_on_the_right_nodes() {
    let hardware = open("gb200-nvl4").expect("a preset");
    let gpus = hardware.devices_of_kind(PciKind::Gpu);
    let gpus: Vec<u32> = gpus.filter_map(|gpu| Some(gpu.node?.get())).collect();
    assert_eq!(gpus, [0, 0, 1, 1]);
    let nodes = hardware
        .nodes
        .iter()
        .filter(|node| node.cpus.is_empty() && node.memory > 0);
    assert_eq!(
        nodes.map(|node| node.id.get()).collect::<Vec<_>>(),
        [2, 10, 18, 26]
    );
}
