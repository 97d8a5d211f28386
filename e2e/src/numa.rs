//! The suite of emulated NUMA machines, each with a real kernel.

use std::path::Path;

use pinfold_core::cpu_set::CpuSet;

use crate::emulated::{Emulated, Node};
use crate::guest::{Guest, Load};
use crate::placement::{self, in_place, nodes_of};
use crate::programs;
use crate::report::{Report, equal, say};
use crate::runs::Listing;
use crate::transcript::Transcript;
use crate::{control_groups, crashes, topology};

const COMMON: &str = include_str!("../scripts/common.sh");
const TOPOLOGY: &str = "section topology\npinfold topology -o json\n";
const PLACEMENT: &str = include_str!("../scripts/placement.sh");
const SHARED: &str = include_str!("../scripts/shared.sh");
const CRASHES: &str = include_str!("../scripts/crashes.sh");
/// Before the script that takes control groups away.
const CONTROL_GROUPS: &str = "section 'control groups'\ncontrol_groups --offline\n";
const PARTITION: &str = include_str!("../scripts/partition.sh");
const AFFINITY: &str = include_str!("../scripts/affinity.sh");

/// Runs every guest.
pub(crate) fn run(report: &mut Report) {
    let pinfold =
        programs::install_emulator().and_then(|()| programs::stripped_program(programs::PINFOLD));
    let pinfold = match pinfold {
        Ok(pinfold) => pinfold,
        Err(problem) => return report.check("programs for the guests", Err(problem)),
    };
    four_nodes(report, &pinfold);
    eight_nodes(report, &pinfold);
    memory_tiers(report, &pinfold);
    bare_node(report, &pinfold);
    fake_nodes(report, &pinfold);
}

fn boot(
    report: &mut Report,
    pinfold: &Path,
    guest: &Guest,
    scripts: &[&str],
) -> Option<Transcript> {
    boot_with(report, &[("pinfold", pinfold)], guest, scripts)
}

fn boot_with(
    report: &mut Report,
    programs: &[(&str, &Path)],
    guest: &Guest,
    scripts: &[&str],
) -> Option<Transcript> {
    say(format_args!("booting {}", guest.name));
    let script = format!("T=/tmp\n{COMMON}\n{}", scripts.join("\n"));
    match Load::of(programs).and_then(|load| guest.run(&load, &script)) {
        Ok(said) => Some(said),
        Err(problem) => {
            report.check(guest.name, Err(problem));
            None
        }
    }
}

fn every_cpu(machine: &Emulated) -> CpuSet {
    let list = format!("0-{}", machine.cpus() - 1);
    list.parse().expect("a list of CPUs")
}

/// Nodes of the same size, CPUs in order.
fn even_nodes(count: u32, cpus: u32, mib: u32) -> Vec<Node> {
    let node = |id| Node {
        cpus: Some((id * cpus, cpus)),
        mib,
        initiator: None,
    };
    (0..count).map(node).collect()
}

/// Two sockets with two nodes each, hardware threads, network cards.
pub(crate) fn four_node_machine(mib: u32) -> Emulated {
    Emulated {
        shape: (2, 4, 2),
        nodes: even_nodes(4, 4, mib),
        distances: vec![
            (0, 1, 12),
            (0, 2, 21),
            (0, 3, 25),
            (1, 2, 25),
            (1, 3, 21),
            (2, 3, 12),
        ],
        network_cards: vec![1, 3],
        attributes: Vec::new(),
    }
}

/// Everything that can happen to runs.
fn four_nodes(report: &mut Report, pinfold: &Path) {
    let guest = Guest {
        name: "4 nodes",
        hardware: four_node_machine(640),
        kernel: None,
        kernel_options: "",
    };
    let settings = "export DATA=4\nOWN=2\nALL=14\n";
    let scripts = [
        settings,
        TOPOLOGY,
        PLACEMENT,
        SHARED,
        CRASHES,
        PARTITION,
        CONTROL_GROUPS,
        AFFINITY,
    ];
    let control_groups = match control_groups::program() {
        Ok(program) => program,
        Err(problem) => return report.check("programs for the guests", Err(problem)),
    };
    let programs = [("pinfold", pinfold), ("control_groups", &control_groups)];
    let Some(said) = boot_with(report, &programs, &guest, &scripts) else {
        return;
    };
    let (machine, all, nodes) = (&guest.hardware, every_cpu(&guest.hardware), "0-3");
    topology::check(report, guest.name, &said, machine);
    placement::check(report, guest.name, &said, machine, &all, nodes);
    crashes::check(report, guest.name, &said, &all, nodes);
    report.check(
        "4 nodes: no other process runs in a partition",
        placement::partition(&said, &all, nodes),
    );
    let checked = said.section("control groups").unwrap_or_default();
    control_groups::check(report, guest.name, "cgroup v2", checked);
    report.check(
        "4 nodes: without control groups affinity and memory policy do the same",
        placement::affinity(&said, &all, nodes),
    );
}

/// As many nodes as the kubelet takes at most, four to a socket.
fn eight_nodes(report: &mut Report, pinfold: &Path) {
    let guest = Guest {
        name: "8 nodes",
        hardware: Emulated {
            shape: (2, 16, 2),
            nodes: even_nodes(8, 8, 192),
            distances: (0..8)
                .flat_map(|from| (from + 1..8).map(move |to| (from, to)))
                .map(|(from, to)| (from, to, if from / 4 == to / 4 { 12 } else { 32 }))
                .collect(),
            ..Emulated::default()
        },
        kernel: None,
        kernel_options: "",
    };
    let script = "start a --policy single-numa-node --cpus 7 --memory 64Mi\n\
        start b --policy restricted --cpus 12 --memory 200Mi\n\
        section 'wide ps'\npinfold ps -o json\nlook wide a b\nstop a b\n";
    let Some(said) = boot(report, pinfold, &guest, &[TOPOLOGY, script]) else {
        return;
    };
    topology::check(report, guest.name, &said, &guest.hardware);
    let wide = in_place(&said, "wide", &["a", "b"], "0-7").and_then(|listing| {
        let b = listing.run("b")?;
        let nodes = nodes_of(b, &guest.hardware);
        equal("nodes of run b", nodes.len(), 2)?;
        equal("sockets of run b", nodes[0] / 4, nodes[1] / 4)?;
        equal(
            "nodes of run a",
            nodes_of(listing.run("a")?, &guest.hardware).len(),
            1,
        )
    });
    report.check("8 nodes: runs are placed on the nearest nodes", wide);
}

/// A node with memory only beside two ordinary ones, and firmware that reports the speed of each memory.
fn memory_tiers(report: &mut Report, pinfold: &Path) {
    let node = |cpus, mib, initiator| Node {
        cpus,
        mib,
        initiator: Some(initiator),
    };
    let hardware = Emulated {
        shape: (2, 4, 1),
        nodes: vec![
            node(Some((0, 4)), 384, 0),
            node(Some((4, 4)), 256, 1),
            node(None, 512, 1),
        ],
        distances: vec![(0, 1, 21), (0, 2, 28), (1, 2, 14)],
        attributes: vec![
            (0, 0, 10, 20480),
            (1, 0, 30, 10240),
            (0, 1, 30, 10240),
            (1, 1, 10, 20480),
            (0, 2, 60, 2048),
            (1, 2, 40, 4096),
        ],
        ..Emulated::default()
    };
    let b = "start b --cpus 2 --memory 400Mi";
    small_guest(report, pinfold, "memory tiers", hardware, b, "0-2");
}

/// CPUs without memory: theirs is on the other node.
fn bare_node(report: &mut Report, pinfold: &Path) {
    let hardware = Emulated {
        shape: (2, 2, 1),
        nodes: vec![
            Node {
                cpus: Some((0, 2)),
                mib: 512,
                initiator: None,
            },
            Node {
                cpus: Some((2, 2)),
                ..Node::default()
            },
        ],
        distances: vec![(0, 1, 17)],
        ..Emulated::default()
    };
    let b = "start b --cpus 1 --memory 100Mi";
    small_guest(report, pinfold, "a node without memory", hardware, b, "0");
}

/// A machine that is looked at, and two runs on it: one without memory, and `b`.
fn small_guest(
    report: &mut Report,
    pinfold: &Path,
    name: &'static str,
    hardware: Emulated,
    b: &str,
    nodes: &str,
) {
    let guest = Guest {
        name,
        hardware,
        kernel: None,
        kernel_options: "",
    };
    let script = format!(
        "start a --cpus 1\n{b}\nsection 'small ps'\npinfold ps -o json\nlook small a b\nstop a b\n"
    );
    let Some(said) = boot(report, pinfold, &guest, &[TOPOLOGY, &script]) else {
        return;
    };
    topology::check(report, name, &said, &guest.hardware);
    let placed = in_place(&said, "small", &["a", "b"], nodes).map(drop);
    report.check(
        format_args!("{name}: runs are exactly where they were placed"),
        placed,
    );
}

/// One node that the kernel cuts in four: each has memory of its own, and all have the same CPUs.
fn fake_nodes(report: &mut Report, pinfold: &Path) {
    let guest = Guest {
        name: "fake nodes",
        hardware: Emulated {
            shape: (1, 4, 1),
            nodes: even_nodes(1, 4, 1024),
            ..Emulated::default()
        },
        kernel: None,
        kernel_options: "numa=fake=4U",
    };
    let script = "start a --cpus 2 --memory 64Mi\nstart b\n\
        section 'fake ps'\npinfold ps -o json\nlook fake a b\nstop a b\n";
    let Some(said) = boot(report, pinfold, &guest, &[TOPOLOGY, script]) else {
        return;
    };
    let halves = said.json("topology").and_then(|found| {
        let found = &found["hardware"];
        let nodes = found["nodes"].as_array().cloned().unwrap_or_default();
        equal("nodes", nodes.len(), 4)?;
        for node in &nodes {
            equal("CPUs of a node", node["cpus"].as_str(), Some("0-3"))?;
            let mib = node["memory"].as_u64().unwrap_or(0) >> 20;
            if !(150..=256).contains(&mib) {
                return Err(format!("a node has {mib} MiB, expected 150 to 256"));
            }
        }
        let odd = found["inconsistencies"].to_string();
        match odd.contains("shared-cpu") {
            true => Ok(()),
            false => Err(format!("CPUs in several nodes are not reported: {odd}")),
        }
    });
    report.check(
        "fake nodes: four nodes with the same CPUs are seen as such",
        halves,
    );
    let placed = in_place(&said, "fake", &["a", "b"], "0-3")
        .and_then(|listing: Listing| equal("CPUs of run a", listing.run("a")?.cpus.len(), 2));
    report.check(
        "fake nodes: runs are exactly where they were placed",
        placed,
    );
}
