//! No input makes a reader panic.

use pinfold_hardware::record::Recording;
use pinfold_hardware::{from_hwloc_xml, synthetic};
use proptest::prelude::*;

/// Valid and invalid words of descriptions.
fn word() -> impl Strategy<Value = String> {
    let number = prop_oneof![0_u64..40, Just(4096), Just(u64::MAX)];
    let key = prop::sample::select(vec![
        "mem",
        "l3",
        "gpu",
        "distances",
        "cpuless",
        "cpuless-distances",
        "node-ids",
        "offline",
        "isolated",
        "numbering",
        "hugepages-2Mi",
        "nic",
    ]);
    let level = prop::sample::select(vec![
        "sockets", "numa", "l3", "die", "cores", "pu", "smt", "x",
    ]);
    let value = prop_oneof![
        "[0-9]{1,3}(,[0-9]{1,3}){0,3}",
        "[0-9]-[0-9]{1,2}",
        "split",
        "[0-9]+Gi",
        ".{0,4}"
    ];
    prop_oneof![
        (number.clone(), level.clone()).prop_map(|(count, level)| format!("{count} {level}")),
        (number, level).prop_map(|(count, level)| format!("{level}:{count}")),
        (key.clone(), value.clone()).prop_map(|(key, value)| format!("{key}={value}")),
        (key, 0_u32..2000, value).prop_map(|(key, node, value)| format!("{key}@{node}={value}")),
        ".{0,6}",
    ]
}

/// Kernel files with arbitrary content.
fn file() -> impl Strategy<Value = String> {
    let cpu = "sys/devices/system/cpu";
    let node = "sys/devices/system/node";
    let id = prop_oneof![
        0_u32..5,
        Just(63),
        Just(64),
        Just(1023),
        Just(1024),
        Just(4095),
        Just(4096)
    ];
    let path = (id.clone(), id, 0_usize..22).prop_map(move |(a, b, which)| match which {
        0 => format!("{cpu}/online"),
        1 => format!("{cpu}/possible"),
        2 => format!("{cpu}/cpu{a}/topology/core_id"),
        3 => format!("{cpu}/cpu{a}/topology/physical_package_id"),
        4 => format!("{cpu}/cpu{a}/topology/thread_siblings"),
        5 => format!("{cpu}/cpu{a}/topology/core_cpus_list"),
        6 => format!("{cpu}/cpu{a}/topology/die_id"),
        7 => format!("{cpu}/cpu{a}/cache/index{b}/level"),
        8 => format!("{cpu}/cpu{a}/cache/index{b}/type"),
        9 => format!("{cpu}/cpu{a}/cache/index{b}/shared_cpu_map"),
        10 => format!("{node}/node{a}/cpulist"),
        11 => format!("{node}/node{a}/cpumap"),
        12 => format!("{node}/node{a}/meminfo"),
        13 => format!("{node}/node{a}/distance"),
        14 => format!("{node}/node{a}/access{b}/initiators/node{a}"),
        15 => format!("{node}/node{a}/hugepages/hugepages-{b}kB/nr_hugepages"),
        16 => format!("sys/bus/pci/devices/0000:{a:02x}:00.0/class"),
        17 => format!("sys/bus/pci/devices/0000:{a:02x}:00.0/numa_node"),
        18 => "proc/mounts".to_owned(),
        19 => "proc/self/cgroup".to_owned(),
        20 => format!("{cpu}/cpu{a}/online"),
        _ => format!("{cpu}/cpu{a}"),
    });
    let text = prop_oneof![
        "[0-9]{1,4}",
        "[0-9]-[0-9]{1,4}",
        "[0-9a-f]{1,8}(,[0-9a-f]{1,8}){0,2}",
        "-1",
        "Unified",
        "0x[0-9a-f]{6}",
        "10( [0-9]{2}){0,4}",
        "Node 0 MemTotal: [0-9]{1,20} kB",
        "0::/[a-z/.]{0,8}",
        "cgroup /sys/fs/cgroup cgroup2 rw 0 0",
        "[ -~]{0,12}"
    ];
    (path, text).prop_map(|(path, text)| format!("{path} = {}", text.replace('\\', "")))
}

fn element() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec![
        "Machine", "Package", "NUMANode", "Core", "PU", "L3Cache", "Cache", "MemCache", "PCIDev",
        "Die",
    ]);
    let mask = prop_oneof![
        "0x[0-9a-f]{1,8}",
        "(0x[0-9a-f]{8},){1,200}0x1",
        "[^\"<&]{0,5}"
    ];
    let leaf = (kind, mask.clone(), mask, "[0-9]{1,20}").prop_map(|(kind, cpus, nodes, index)| {
        let ids = format!(
            "os_index=\"{index}\" gp_index=\"{index}\" depth=\"{index}\" local_memory=\"{index}\""
        );
        (
            format!("<object type=\"{kind}\" cpuset=\"{cpus}\" nodeset=\"{nodes}\" {ids}"),
            String::new(),
        )
    });
    let tree = leaf.prop_recursive(4, 24, 4, |inner| {
        (inner.clone(), prop::collection::vec(inner, 0..4)).prop_map(|((open, _), children)| {
            let children = children
                .into_iter()
                .map(|(open, inside)| format!("{open}>{inside}</object>"));
            (open, children.collect())
        })
    });
    tree.prop_map(|(open, inside)| format!("{open}>{inside}</object>"))
}

proptest! {
    #[test]
    fn descriptions(words in prop::collection::vec(word(), 0..8)) {
        if let Ok(hardware) = synthetic::read(&words.join(" ")) {
            let view = hardware.machine_within_reach();
            prop_assert!(hardware.cpus.online.len() <= 4096);
            if let Ok((machine, _)) = view {
                prop_assert_eq!(machine.online(), &hardware.cpus.online);
            }
        }
    }

    #[test]
    fn any_text_as_a_description(text in ".{0,80}") {
        if let Err(error) = synthetic::read(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn recordings(files in prop::collection::vec(file(), 0..40)) {
        let text = format!("pinfold-machine 1\nsys/devices/system/cpu/cpu0\n{}\n", files.join("\n"));
        let recording = Recording::read(text.as_bytes()).expect("the format is kept");
        if let Ok(hardware) = recording.replay() {
            let _ = hardware.machine();
            let _ = hardware.machine_within_reach();
        }
    }

    #[test]
    fn topologies(element in element(), tail in ".{0,40}") {
        let xml = format!("<topology>{element}{tail}</topology>");
        if let Ok(hardware) = from_hwloc_xml(&xml) {
            let _ = hardware.machine_within_reach();
        }
    }
}
