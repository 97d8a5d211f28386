//! Compares every fact of a machine and collects the differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io::Write as _;

use pinfold_core::cpu_set::CpuSet;
use pinfold_hardware::Hardware;
use pinfold_hardware::hardware::HardwareNode;
use pinfold_hardware::pci::PciKind;
use serde_json::Value;

use super::differences::Difference;

/// The compared facts and the differences.
#[derive(Default)]
pub(crate) struct Comparison {
    facts: usize,
    machines: BTreeSet<String>,
    differing: BTreeMap<(String, &'static str), String>,
}

impl Comparison {
    fn fact<T: PartialEq + Debug>(
        &mut self,
        machine: &str,
        fact: &'static str,
        ours: &T,
        theirs: &T,
    ) {
        self.facts += 1;
        self.machines.insert(machine.to_owned());
        if ours != theirs {
            let text = format!("found {ours:?}, expected {theirs:?}");
            self.differing.insert((machine.to_owned(), fact), text);
        }
    }

    /// Compares counts, sets and sizes of the whole machine.
    pub(crate) fn whole_machine(&mut self, name: &str, hardware: &Hardware, hwloc: &Value) {
        let count =
            |key: &str| usize::try_from(hwloc[key].as_u64().expect("a count")).expect("small");
        self.fact(
            name,
            "packages",
            &hardware.sockets.len(),
            &count("packages"),
        );
        self.fact(
            name,
            "numa nodes",
            &hardware.nodes.len(),
            &count("numa_nodes"),
        );
        self.fact(
            name,
            "l3",
            &hardware.caches_of_level(3).count(),
            &count("l3"),
        );
        self.fact(name, "cores", &hardware.cores.len(), &count("cores"));
        self.fact(name, "pus", &hardware.cpus.online.len(), &count("pus"));
        let side_caches = hardware
            .nodes
            .iter()
            .map(|node| node.memory_side_caches.len())
            .sum();
        self.fact(
            name,
            "memory side caches",
            &side_caches,
            &count("memory_side_caches"),
        );
        // hwloc leaves out dies that are whole packages.
        let packages: Vec<&CpuSet> = hardware.sockets.iter().map(|socket| &socket.cpus).collect();
        let dies = hardware
            .dies
            .iter()
            .filter(|die| !packages.contains(&&die.cpus))
            .count();
        self.fact(name, "dies", &dies, &count("dies"));

        let threads: BTreeSet<u64> = hardware
            .cores
            .iter()
            .map(|core| core.cpus.len() as u64)
            .collect();
        let expected = hwloc["threads_per_core"].as_array().expect("a list");
        let expected = expected.iter().filter_map(Value::as_u64).collect();
        self.fact(name, "threads per core", &threads, &expected);

        let packages = hwloc["package_list"].as_array().expect("packages");
        let named = packages.iter().all(|package| package["id"].is_u64());
        if named {
            let sockets = hardware.sockets.iter();
            let sockets = sockets.map(|socket| (u64::from(socket.id), socket.cpus.clone()));
            self.fact(
                name,
                "package cpus",
                &sockets.collect(),
                &sets(&hwloc["package_list"]),
            );
        } else {
            let sockets = hardware.sockets.iter().map(|socket| socket.cpus.clone());
            let expected = packages.iter().map(cpus_of);
            let expected: BTreeSet<CpuSet> = expected.collect();
            self.fact(name, "package cpus", &sockets.collect(), &expected);
        }

        let nodes = hardware.nodes.iter();
        let cpus = nodes.clone().filter(|node| !node.cpus.is_empty());
        let cpus: BTreeMap<u64, CpuSet> = cpus.map(|node| (id(node), node.cpus.clone())).collect();
        let mut expected = sets(&hwloc["nodes"]);
        // For a node without CPUs hwloc gives those it is near to.
        let without_cpus = nodes.clone().filter(|node| node.cpus.is_empty()).map(id);
        for node in without_cpus {
            expected.remove(&node);
        }
        self.fact(name, "node cpus", &cpus, &expected);

        let memory: BTreeMap<u64, u64> = nodes.map(|node| (id(node), node.memory)).collect();
        let expected = hwloc["nodes"].as_array().expect("nodes").iter();
        let expected = expected.map(|node| (number(&node["id"]), number(&node["memory_bytes"])));
        self.fact(name, "memory", &memory, &expected.collect());
    }

    /// Compares what the kernel's files contain, whatever hwloc derives from them.
    pub(crate) fn sysfs_facts(&mut self, name: &str, hardware: &Hardware, sysfs: &Value) {
        let ids: Vec<u64> = hardware.nodes.iter().map(id).collect();
        self.fact(
            name,
            "node directories",
            &ids,
            &numbers(&sysfs["node_dirs"]),
        );
        let without_cpus = hardware.nodes.iter().filter(|node| node.cpus.is_empty());
        let without_cpus: Vec<u64> = without_cpus.map(id).collect();
        self.fact(
            name,
            "nodes without cpus",
            &without_cpus,
            &numbers(&sysfs["cpuless_nodes"]),
        );
        for (fact, key, ours) in [
            ("online cpus", "online_cpus", &hardware.cpus.online),
            ("possible cpus", "possible_cpus", &hardware.cpus.possible),
        ] {
            if let Some(list) = sysfs[key].as_str() {
                self.fact(name, fact, ours, &set(list));
            }
        }
        let distances = hardware
            .nodes
            .iter()
            .filter(|node| !node.distances.is_empty());
        let distances: BTreeMap<String, Vec<u64>> = distances
            .map(|node| {
                (
                    node.id.to_string(),
                    node.distances.iter().map(|&d| u64::from(d)).collect(),
                )
            })
            .collect();
        let expected = sysfs["distances"].as_object().expect("rows");
        let expected = expected.iter().map(|(id, row)| (id.clone(), numbers(row)));
        self.fact(name, "distances", &distances, &expected.collect());
        let located = hardware.devices.iter();
        let located: BTreeMap<String, u64> = located
            .filter_map(|device| Some((device.address.to_string(), u64::from(device.node?.get()))))
            .collect();
        let expected = sysfs["pci_with_numa_node"].as_object().expect("devices");
        let expected = expected
            .iter()
            .map(|(address, node)| (address.clone(), number(node)));
        self.fact(name, "pci locality", &located, &expected.collect());
    }

    /// Compares the CPUs and nodes that the control group of the dumping process allowed.
    pub(crate) fn allowed(&mut self, name: &str, hardware: &Hardware, hwloc: &Value) {
        let online = &hardware.cpus.online;
        let nodes: Vec<u64> = hardware.nodes.iter().map(id).collect();
        let (cpus, allowed_nodes) = match &hardware.allowed {
            None => (online.clone(), nodes),
            Some(allowed) => {
                let nodes = nodes.into_iter().filter(|&node| {
                    allowed
                        .nodes
                        .iter()
                        .any(|allowed| u64::from(allowed.get()) == node)
                });
                (&allowed.cpus & online, nodes.collect())
            }
        };
        let Some(pus) = hwloc["pus"].as_u64() else {
            self.fact(name, "allowed cpus", &cpus, online);
            return;
        };
        self.fact(name, "allowed cpus", &(cpus.len() as u64), &pus);
        let expected = hwloc["nodes"].as_array().expect("nodes").iter();
        let expected: Vec<u64> = expected.map(|node| number(&node["id"])).collect();
        self.fact(name, "allowed nodes", &allowed_nodes, &expected);
    }

    /// Compares what only the XML has: devices, whose node follows from their position in the file, and distances.
    pub(crate) fn xml_facts(&mut self, name: &str, hardware: &Hardware, hwloc: &Value, xml: &str) {
        let bridges = hardware
            .devices_of_kind(PciKind::Bridge)
            .filter(|device| device.class == 0x06_0400);
        let devices = hardware.devices.len() - bridges.count();
        self.fact(
            name,
            "pci devices",
            &(devices as u64),
            &number(&hwloc["pci_devices"]),
        );
        let rows = hardware
            .nodes
            .iter()
            .filter(|node| node.distances.len() == hardware.nodes.len());
        let expected = if xml.contains("NUMALatency") {
            hardware.nodes.len()
        } else {
            0
        };
        self.fact(name, "distances", &rows.count(), &expected);
    }

    /// Every difference must be explained, and every explanation must be needed.
    pub(crate) fn judge(&self, kind: &str, explained: &[Difference]) {
        let mut wrong = Vec::new();
        for ((machine, fact), text) in &self.differing {
            if !explained
                .iter()
                .any(|known| known.machine == machine && known.fact == *fact)
            {
                wrong.push(format!("{machine}, {fact}: {text}"));
            }
        }
        for Difference { machine, fact, why } in explained {
            if !self.differing.contains_key(&((*machine).to_owned(), *fact)) {
                wrong.push(format!(
                    "{machine}, {fact}: does not differ, though listed because {why}"
                ));
            }
        }
        let (machines, facts) = (self.machines.len(), self.facts);
        let known = explained.len();
        let counts = format!("{kind}: {machines} machines, {facts} facts, {known} explained");
        let _ = writeln!(std::io::stderr(), "{counts}");
        assert!(wrong.is_empty(), "{kind}:\n{}", wrong.join("\n"));
    }
}

fn id(node: &HardwareNode) -> u64 {
    u64::from(node.id.get())
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn numbers(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}

fn set(list: &str) -> CpuSet {
    let list = list.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    CpuSet::parse(list).expect("a list of CPUs")
}

fn cpus_of(item: &Value) -> CpuSet {
    set(item["cpus"].as_str().expect("CPUs"))
}

fn sets(list: &Value) -> BTreeMap<u64, CpuSet> {
    let list = list.as_array().expect("a list").iter();
    list.map(|item| (number(&item["id"]), cpus_of(item)))
        .collect()
}
