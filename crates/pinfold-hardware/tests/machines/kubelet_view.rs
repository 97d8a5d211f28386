//! cAdvisor's rules one by one, on machines written as recordings.

use std::fmt::Write as _;

use pinfold_hardware::Hardware;
use pinfold_hardware::kubelet_view::ViewError;
use pinfold_hardware::record::Recording;

/// One CPU: id, core id, package id, siblings.
type Cpu = (u32, i32, i32, &'static str);

#[derive(Default)]
struct Kernel(String);

impl Kernel {
    fn new(cpus: &[Cpu]) -> Self {
        let mut kernel = Self("pinfold-machine 1\n".to_owned());
        for (id, core, package, siblings) in cpus {
            let topology = format!("cpu/cpu{id}/topology");
            kernel.file(&format!("{topology}/core_id"), &core.to_string());
            kernel.file(
                &format!("{topology}/physical_package_id"),
                &package.to_string(),
            );
            kernel.file(&format!("{topology}/core_cpus_list"), siblings);
        }
        kernel
    }

    fn file(&mut self, path: &str, text: &str) -> &mut Self {
        writeln!(self.0, "sys/devices/system/{path} = {text}\\n").expect("a String");
        self
    }

    fn cache(&mut self, cpu: u32, index: u32, level: u8, id: &str, map: &str) -> &mut Self {
        let folder = format!("cpu/cpu{cpu}/cache/index{index}");
        if !id.is_empty() {
            self.file(&format!("{folder}/id"), id);
        }
        self.file(&format!("{folder}/size"), "1024K");
        self.file(&format!("{folder}/type"), "Unified");
        self.file(&format!("{folder}/level"), &level.to_string());
        self.file(&format!("{folder}/shared_cpu_map"), map)
    }

    fn node(&mut self, id: u32, cpus: &str) -> &mut Self {
        self.file(&format!("node/node{id}/cpulist"), cpus);
        self.file(
            &format!("node/node{id}/meminfo"),
            &format!("Node {id} MemTotal: 1024 kB"),
        )
    }

    fn hardware(&self) -> Hardware {
        let recording = Recording::read(self.0.as_bytes()).expect("a recording");
        recording.replay().unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Core id, socket, L3 and threads of every core.
fn cores(hardware: &Hardware) -> Vec<(u32, u32, Option<u32>, Vec<u32>)> {
    let machine = hardware.machine().unwrap_or_else(|error| panic!("{error}"));
    let cores = machine.nodes().iter().flat_map(|node| node.cores.clone());
    let threads =
        |core: &pinfold_core::machine::Core| core.threads.iter().map(|cpu| cpu.get()).collect();
    cores
        .map(|core| (core.id, core.socket, core.l3, threads(&core)))
        .collect()
}

#[test]
fn a_cache_of_the_whole_node_is_not_an_uncore_cache() {
    let mut kernel = Kernel::new(&[(0, 0, 0, "0"), (1, 1, 0, "1")]);
    kernel
        .cache(0, 3, 3, "7", "3")
        .cache(1, 3, 3, "7", "3")
        .node(0, "0-1");
    assert_eq!(
        cores(&kernel.hardware()),
        [(0, 0, None, vec![0]), (1, 0, None, vec![1])]
    );
}

#[test]
fn a_cache_smaller_or_larger_than_the_node_is_an_uncore_cache() {
    let cpus = ["0", "1", "2", "3", "4", "5"];
    let cpus: Vec<Cpu> = (0_u32..6)
        .zip(cpus)
        .map(|(id, alone)| (id, id.cast_signed(), 0, alone))
        .collect();
    let mut kernel = Kernel::new(&cpus);
    kernel.node(0, "0-1").node(1, "2-3").node(2, "4-5");
    for cpu in 0..4 {
        kernel.cache(cpu, 3, 3, "4", "f");
    }
    kernel.cache(4, 3, 3, "5", "10").cache(5, 3, 3, "6", "20");
    let l3: Vec<Option<u32>> = cores(&kernel.hardware())
        .into_iter()
        .map(|core| core.2)
        .collect();
    assert_eq!(l3, [Some(4), Some(4), Some(4), Some(4), Some(5), Some(6)]);
}

#[test]
fn the_size_of_a_node_is_computed_from_the_current_core() {
    // Two threads, one thread: 2 cores × 2 = 4 for the first, 2 cores × 1 = 2 for the second.
    let mut kernel = Kernel::new(&[(0, 0, 0, "0-1"), (1, 0, 0, "0-1"), (2, 1, 0, "2")]);
    for cpu in 0..3 {
        kernel.cache(cpu, 3, 3, "9", "7");
    }
    kernel.node(0, "0-2");
    let l3: Vec<Option<u32>> = cores(&kernel.hardware())
        .into_iter()
        .map(|core| core.2)
        .collect();
    assert_eq!(
        l3,
        [Some(9), Some(9)],
        "3 CPUs share it, which is neither 4 nor 2"
    );
}

#[test]
fn the_first_core_without_cache_ids_ends_the_search_in_its_node() {
    // By name cpu10 precedes cpu9, so the search ends before CPU 9.
    let cpus: Vec<Cpu> = vec![
        (8, 8, 0, "8"),
        (9, 9, 0, "9"),
        (10, 10, 0, "10"),
        (11, 11, 0, "11"),
    ];
    let mut kernel = Kernel::new(&cpus);
    kernel.cache(8, 3, 3, "1", "100").cache(9, 3, 3, "2", "200");
    kernel
        .cache(10, 3, 3, "3", "400")
        .cache(11, 3, 3, "", "800");
    kernel.node(0, "8-11");
    let found: Vec<(u32, Option<u32>)> = cores(&kernel.hardware())
        .into_iter()
        .map(|core| (core.0, core.2))
        .collect();
    assert_eq!(found, [(8, None), (9, None), (10, Some(3)), (11, None)]);
}

#[test]
fn cpus_with_one_core_id_and_package_are_one_core_even_if_not_siblings() {
    let mut kernel = Kernel::new(&[(0, 0, 0, "0"), (1, 0, 0, "1"), (2, 0, 1, "2")]);
    kernel.node(0, "0-2");
    let hardware = kernel.hardware();
    assert_eq!(hardware.cores.len(), 3);
    assert_eq!(
        cores(&hardware),
        [(0, 0, None, vec![0, 1]), (0, 1, None, vec![2])]
    );
}

#[test]
fn a_core_that_spans_two_nodes_is_a_core_in_each() {
    let mut kernel = Kernel::new(&[(0, 0, 0, "0-1"), (1, 0, 0, "0-1")]);
    kernel.node(0, "0").node(1, "1");
    assert_eq!(
        cores(&kernel.hardware()),
        [(0, 0, None, vec![0]), (0, 0, None, vec![1])]
    );
}

#[test]
fn a_cpu_without_ids_is_not_reported() {
    let mut kernel = Kernel::new(&[(0, 0, 0, "0"), (1, 1, 0, "1")]);
    kernel.file("cpu/cpu2/online", "1").node(0, "0-2");
    let hardware = kernel.hardware();
    assert_eq!(hardware.cpus.online.to_string(), "0-2");
    let machine = hardware.machine().expect("a machine");
    assert_eq!(
        (
            machine.online().to_string().as_str(),
            machine.parts().num_cpus
        ),
        ("0-1", 2)
    );
}

#[test]
fn offline_cpus_are_read_and_not_reported() {
    let mut kernel = Kernel::new(&[(0, 0, 0, "0-1"), (1, 0, 0, "0-1"), (2, 1, 0, "2")]);
    kernel.file("cpu/online", "0,2").node(0, "0-2");
    let machine = kernel.hardware().machine().expect("a machine");
    assert_eq!(machine.online().to_string(), "0,2");
    assert_eq!(machine.offline().to_string(), "1");
    assert_eq!(machine.parts().num_cpus, 2);
}

#[test]
fn without_numa_every_package_is_a_node_without_memory() {
    let mut kernel = Kernel::new(&[(0, 0, 3, "0"), (1, 1, 3, "1")]);
    kernel
        .file("cpu/online", "0-1")
        .file("cpu/cpu2/online", "0");
    let hardware = kernel.hardware();
    assert!(!hardware.kernel_has_nodes);
    assert_eq!(hardware.nodes.len(), 1, "one node that holds everything");
    let machine = hardware.machine().expect("a machine");
    let nodes: Vec<_> = machine
        .nodes()
        .iter()
        .map(|node| (node.id.get(), node.memory))
        .collect();
    assert_eq!(nodes, [(3, 0)]);
    assert_eq!(
        machine.parts().num_cpus,
        3,
        "cAdvisor counts the directories"
    );
}

#[test]
fn an_unknown_package_is_one_socket_for_the_kubelet() {
    let mut kernel = Kernel::new(&[(0, 0, -1, "0"), (1, 1, -1, "1")]);
    kernel.file("cpu/cpu0/topology/core_siblings_list", "0");
    kernel
        .file("cpu/cpu1/topology/core_siblings_list", "1")
        .node(0, "0-1");
    let hardware = kernel.hardware();
    assert_eq!(
        hardware.sockets.len(),
        2,
        "the kernel says they are not in one package"
    );
    assert_eq!(
        hardware.machine().expect("a machine").parts().num_sockets,
        1
    );
    assert_eq!(
        cores(&hardware),
        [(0, 0, None, vec![0]), (1, 0, None, vec![1])]
    );
}

#[test]
fn nodes_beyond_every_mask_are_rejected_or_left_out() {
    let mut kernel = Kernel::new(&[(0, 0, 0, "0")]);
    kernel.node(0, "0").node(250, "");
    kernel
        .file("node/node0/distance", "10 80")
        .file("node/node250/distance", "80 10");
    let hardware = kernel.hardware();
    assert_eq!(
        hardware.machine(),
        Err(ViewError::NodeOutOfReach { node: 250 })
    );
    let (machine, left_out) = hardware
        .machine_within_reach()
        .expect("node 0 is a machine");
    assert_eq!(machine.nodes()[0].distances, [10]);
    assert_eq!(
        left_out.iter().map(|node| node.get()).collect::<Vec<_>>(),
        [250]
    );

    let mut kernel = Kernel::new(&[(0, 0, 0, "0")]);
    kernel.node(64, "0");
    let rejected = kernel.hardware().machine_within_reach();
    assert_eq!(rejected, Err(ViewError::NodeOutOfReach { node: 64 }));
}
