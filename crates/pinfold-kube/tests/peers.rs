//! Objects as koordlet, koord-scheduler, NFD and Pinfold's agent wrote them beside each other (`tests/peers`), and what
//! their readers make of the objects that Pinfold publishes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_cluster::koordinator::cpu_topology::KoordinatorTopology;
use pinfold_cluster::node_topology::replica::{DeviceTotals, Replica, RulesCache};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity::{self, Exact, Sound};
use pinfold_core::machine::{Machine, MachineParts, UniformMachine};
use pinfold_core::occupancy::Occupancy;
use pinfold_core::settings::Settings;
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::node_resource_topology::{self, NodeResourceTopology};
use pinfold_kube::objects::{self, ClusterObjects};
use pinfold_kube::volcano;
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers")
}

fn read(path: &Path) -> ClusterObjects {
    let name = path.file_name().unwrap().to_str().unwrap();
    let read = objects::read(name, &fs::read(path).unwrap()).unwrap();
    assert_eq!(read.warnings, [], "{name}");
    read.value
}

fn fixture(name: &str) -> ClusterObjects {
    read(&folder().join(name))
}

fn topology(name: &str) -> NodeResourceTopology {
    fixture(name).topologies.remove(0)
}

/// The files of all peers.
fn files() -> Vec<PathBuf> {
    let folders = fs::read_dir(folder()).unwrap();
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_object_of_a_peer_is_read_and_written_without_loss() {
    let (mut reports, mut pods) = (0, 0);
    for file in files() {
        let found = read(&file);
        pods += found.pods.len();
        let reported = found.topologies.iter().map(NodeResourceTopology::content);
        let reported = reported.chain(
            found
                .numatopologies
                .iter()
                .map(volcano::Numatopology::content),
        );
        for content in reported {
            reports += 1;
            let again = objects::read("again", content.to_json().as_bytes())
                .unwrap()
                .value;
            let again = (again.topologies.iter().map(NodeResourceTopology::content)).chain(
                again
                    .numatopologies
                    .iter()
                    .map(volcano::Numatopology::content),
            );
            assert_eq!(
                again.map(|one| one.to_json()).collect::<Vec<_>>(),
                [content.to_json()]
            );
            let original: Result<Value, _> = serde_json::from_slice(&fs::read(&file).unwrap());
            if let Ok(original) = original.as_ref().map(|all| match all["items"].as_array() {
                Some(items) => items[1].clone(),
                None => all.clone(),
            }) {
                let written: Value = serde_json::from_str(&content.to_json()).unwrap();
                if file.ends_with("score-error-state.json") {
                    continue;
                }
                assert_eq!(written, original, "{}", file.display());
            }
        }
    }
    assert!((reports, pods) >= (25, 5), "{reports} reports, {pods} pods");
}

/// The CPU amounts of the zones, in thousandths, as koord-scheduler counts them.
fn zone_cpus(topology: &NodeResourceTopology, fidelity: Fidelity) -> Vec<i64> {
    let report = ReportAnnotations::report(topology, fidelity).unwrap().value;
    let zones = report.zones().iter();
    zones.map(|zone| zone.amounts.get("cpu")).collect()
}

#[test]
fn reserved_cpus_that_a_zone_already_excludes_are_subtracted_once_in_sound_mode() {
    let host = topology("koordinator/double-reservation-host-state.json");
    // koord-scheduler refused the pod of one CPU for this.
    assert_eq!(zone_cpus(&host, Exact), [0]);
    assert_eq!(zone_cpus(&host, Sound), [1000]);
    let made = topology("koordinator/pinfold-made-2x4x2-read-by-koord-scheduler.yaml");
    assert_eq!(
        zone_cpus(&made, Exact)[0],
        zone_cpus(&made, Sound)[0] - 2000
    );
}

/// Two sockets of four cores with two threads; the kernel numbers the cores of each socket from 0.
fn two_sockets() -> Machine {
    let machine = Machine::uniform(UniformMachine {
        sockets: 2,
        nodes_per_socket: 1,
        cores_per_node: 4,
        threads_per_core: 2,
        memory_per_node: 1 << 30,
    });
    let MachineParts {
        mut nodes,
        num_cpus,
        num_sockets,
        offline,
    } = machine.unwrap().parts().clone();
    for node in &mut nodes {
        for core in &mut node.cores {
            core.id %= 4;
        }
    }
    Machine::new(MachineParts {
        nodes,
        num_cpus,
        num_sockets,
        offline,
    })
    .unwrap()
}

fn cpus(text: &str) -> CpuSet {
    CpuSet::parse(text).unwrap()
}

fn reserved(text: &str) -> Occupancy {
    Occupancy {
        shared: cpus("0-15"),
        reserved: cpus(text),
        ..Occupancy::default()
    }
}

#[test]
fn koord_scheduler_reads_a_published_report_without_subtracting_reserved_cpus_twice() {
    let (machine, settings) = (two_sockets(), Settings::default());
    let plain = node_resource_topology::publish("n", &machine, &reserved("0,8"), &settings);
    let facts = ReportAnnotations::of(&machine, &settings, cpus("0,8"));
    let object = koordinator::publish(&plain, &facts);
    for fidelity in [Exact, Sound] {
        assert_eq!(zone_cpus(&object, fidelity), [6000, 8000], "{fidelity:?}");
    }
    let amounts = |object: &NodeResourceTopology| {
        let cpu = object.zones[0].resources[0].clone();
        [cpu.capacity, cpu.allocatable, cpu.available].map(|amount| amount.quantity().value())
    };
    assert_eq!(amounts(&object), [8, 8, 6], "as koordlet writes it");
    assert_eq!(amounts(&plain), [8, 6, 6], "as the API defines it");
    let mut all = ClusterObjects::default();
    all.topologies.push(object);
    assert_eq!(all.add_reported_nodes(), ["n"]);
    let cpu = all.nodes[0].allocatable["cpu"];
    assert_eq!(
        cpu.value(),
        14,
        "a node without a Node object offers no reserved CPU"
    );
}

#[test]
fn koordlet_s_zones_have_all_cpus_allocatable_and_numbers_cores_by_their_first_cpu() {
    for name in ["s1", "s2", "s3", "s4", "host", "host-static"] {
        let object = topology(&format!("koordinator/koordlet-{name}.v1alpha1.yaml"));
        for zone in &object.zones {
            let cpu = zone.resources.iter().find(|row| row.name == "cpu").unwrap();
            assert_eq!(
                cpu.allocatable.quantity(),
                cpu.capacity.quantity(),
                "{name}"
            );
        }
        let facts = ReportAnnotations::read(&object, Exact).unwrap().value;
        let mut seen = Vec::new();
        for row in &facts.cpus {
            match seen.contains(&row.core) {
                true => {}
                false => {
                    assert_eq!(row.core, i64::try_from(seen.len()).unwrap(), "{name}");
                    seen.push(row.core);
                }
            }
        }
    }
}

#[test]
fn core_numbers_of_published_objects_are_unique_in_the_machine() {
    let (machine, settings) = (two_sockets(), Settings::default());
    let facts = ReportAnnotations::of(&machine, &settings, CpuSet::new());
    let rows: Vec<(u32, i64)> = (facts.cpus.iter())
        .map(|row| (row.cpu.get(), row.core))
        .collect();
    let expected: Vec<(u32, i64)> = (0..16).map(|cpu| (cpu, i64::from(cpu % 8))).collect();
    assert_eq!(rows, expected);
    let topology: KoordinatorTopology = facts.topology(Exact);
    assert!(topology.is_valid());
    let object = volcano::publish("n", &machine, &reserved(""), &settings, Vec::new());
    let numa = object.node(Exact).unwrap().value.numa.unwrap();
    assert_eq!(
        numa.cpus.cores().len(),
        8,
        "Volcano takes equal numbers for one core"
    );
}

#[test]
fn a_published_numatopology_leaves_reserved_cpus_out_instead_of_counting_them() {
    let before =
        &fixture("volcano/pinfold-agent-numatopology-reservedSystemCPUs-1.json").numatopologies[0];
    assert_eq!(
        before.resources["cpu"].allocatable, "0-1",
        "Volcano bound pods to CPU 1"
    );
    let settings = Settings {
        reserved_cpu: Some(2.into()),
        ..Settings::default()
    };
    let object = volcano::publish("n", &two_sockets(), &reserved("1,9"), &settings, Vec::new());
    assert_eq!(object.resources["cpu"].allocatable, "0,2-8,10-15");
    assert!(object.reserved.is_empty());
    let numa = object.node(Exact).unwrap().value.numa.unwrap();
    assert_eq!(numa.free, Some(cpus("0,2-8,10-15")));
}

#[test]
fn a_report_without_allocatable_cpus_is_that_of_a_kubelet_without_a_cpu_manager() {
    let table = [
        ("nfd/nfd-nrt-real-kubelet-cpu-manager-none.json", "none"),
        ("nfd/nfd-nrt-real-kubelet.json", "static"),
        ("nfd/nrt-cpu-manager-none-host-e.json", "none"),
    ];
    for (name, policy) in table {
        let core = topology(name).to_core();
        let replica = Replica::of(
            &core,
            &DeviceTotals::new(),
            None,
            Exact,
            &mut RulesCache::default(),
        )
        .unwrap();
        assert_eq!(
            replica.ledger().rules().settings().cpu_policy.name(),
            policy,
            "{name}"
        );
    }
}

#[test]
fn the_numa_policy_none_is_read_with_a_warning() {
    let label = "apiVersion: v1\nkind: Node\nmetadata:\n  name: node-1\n  labels: \
                 {node.koordinator.sh/numa-topology-policy: None}\nstatus: {capacity: {}, allocatable: {}}\n";
    let node = objects::read("node.yaml", label.as_bytes())
        .unwrap()
        .value
        .nodes
        .remove(0);
    let annotation = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod-1\n  annotations:\n    \
                      scheduling.koordinator.sh/numa-topology-spec: '{\"numaTopologyPolicy\": \"None\"}'\n\
                      spec: {containers: [{name: c}]}\n";
    let pod = objects::read("pod.yaml", annotation.as_bytes())
        .unwrap()
        .value
        .pods
        .remove(0);
    for fidelity in [Exact, Sound] {
        let of_node = koordinator::node(&node, None, fidelity).unwrap().warnings;
        let of_pod = koordinator::demand(&pod, fidelity).unwrap().warnings;
        for warnings in [of_node, of_pod] {
            assert!(
                warnings[0].to_string().contains("nil pointer"),
                "{warnings:?}"
            );
        }
    }
}
