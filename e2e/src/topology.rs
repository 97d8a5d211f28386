//! Does `pinfold topology` see the machine that QEMU was asked for?

use serde_json::Value;

use crate::emulated::Emulated;
use crate::report::{Report, equal};
use crate::transcript::Transcript;

const MIB: u64 = 1 << 20;

/// Compares the section `topology` with what the machine was built from.
pub(crate) fn check(report: &mut Report, guest: &str, said: &Transcript, machine: &Emulated) {
    let found = match said.json("topology") {
        Ok(found) => found["hardware"].clone(),
        Err(problem) => return report.check(format_args!("{guest}: topology"), Err(problem)),
    };
    let mut check = |what: &str, outcome| report.check(format_args!("{guest}: {what}"), outcome);
    check("all CPUs are online", online(&found, machine));
    check(
        "sockets hold the CPUs they should",
        sockets(&found, machine),
    );
    check(
        "cores are made of the right threads",
        cores(&found, machine),
    );
    check(
        "NUMA nodes have the CPUs they should",
        node_cpus(&found, machine),
    );
    check(
        "NUMA nodes have the memory they should",
        node_memory(&found, machine),
    );
    check("distances are the firmware's", distances(&found, machine));
    if !machine.network_cards.is_empty() {
        check(
            "PCI devices are on their NUMA nodes",
            devices(&found, machine),
        );
    }
    if !machine.attributes.is_empty() {
        check(
            "memory attributes are the firmware's",
            attributes(&found, machine),
        );
    }
}

/// `first` and the `count - 1` CPUs after it, as the kernel writes them.
fn list(first: u32, count: u32) -> String {
    match count {
        1 => first.to_string(),
        _ => format!("{first}-{}", first + count - 1),
    }
}

fn texts(found: &Value, list: &str, field: &str) -> Vec<String> {
    let entries = found[list].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value| entry[field].as_str().unwrap_or_default().to_owned();
    entries.iter().map(text).collect()
}

fn online(found: &Value, machine: &Emulated) -> Result<(), String> {
    let online = found["cpus"]["online"].as_str().unwrap_or_default();
    equal("online CPUs", online, list(0, machine.cpus()).as_str())
}

fn sockets(found: &Value, machine: &Emulated) -> Result<(), String> {
    let (sockets, cores, threads) = machine.shape;
    let each = cores * threads;
    let expected: Vec<String> = (0..sockets)
        .map(|socket| list(socket * each, each))
        .collect();
    equal("sockets", texts(found, "sockets", "cpus"), expected)
}

fn cores(found: &Value, machine: &Emulated) -> Result<(), String> {
    let (sockets, cores, threads) = machine.shape;
    let expected: Vec<String> = (0..sockets * cores)
        .map(|core| list(core * threads, threads))
        .collect();
    equal("cores", texts(found, "cores", "cpus"), expected)
}

fn node_cpus(found: &Value, machine: &Emulated) -> Result<(), String> {
    let expected: Vec<String> = machine
        .nodes
        .iter()
        .map(|node| {
            node.cpus
                .map_or_else(String::new, |(first, count)| list(first, count))
        })
        .collect();
    equal("CPUs of nodes", texts(found, "nodes", "cpus"), expected)
}

/// The kernel keeps a part for itself, most of it on the first node.
fn node_memory(found: &Value, machine: &Emulated) -> Result<(), String> {
    for (id, node) in machine.nodes.iter().enumerate() {
        let bytes = found["nodes"][id]["memory"].as_u64().unwrap_or(u64::MAX);
        let most = u64::from(node.mib) * MIB;
        let least = most / 10 * if id == 0 { 6 } else { 9 };
        if !(least..=most).contains(&bytes) {
            return Err(format!(
                "node {id} has {bytes} bytes, expected {least} to {most}"
            ));
        }
    }
    Ok(())
}

fn distances(found: &Value, machine: &Emulated) -> Result<(), String> {
    for from in 0..machine.nodes.len() {
        let row: Vec<u32> = (0..machine.nodes.len())
            .map(|to| machine.distance(from, to))
            .collect();
        let what = format!("distances of node {from}");
        equal(
            &what,
            &found["nodes"][from]["distances"],
            &serde_json::json!(row),
        )?;
    }
    Ok(())
}

fn devices(found: &Value, machine: &Emulated) -> Result<(), String> {
    let devices = found["devices"].as_array().cloned().unwrap_or_default();
    let mut nodes: Vec<u64> = devices
        .iter()
        .filter(|device| device["kind"] == "nic")
        .filter_map(|device| device["node"].as_u64())
        .collect();
    nodes.sort_unstable();
    let expected: Vec<u64> = machine
        .network_cards
        .iter()
        .map(|&node| node as u64)
        .collect();
    equal("nodes of network cards", nodes, expected)
}

/// The kernel shows how well the best initiators of a memory reach it.
fn attributes(found: &Value, machine: &Emulated) -> Result<(), String> {
    for (id, node) in machine.nodes.iter().enumerate() {
        let Some(initiator) = node.initiator.filter(|_| node.mib > 0) else {
            continue;
        };
        let lane = |&&(from, to, ..): &&(usize, usize, u32, u32)| (from, to) == (initiator, id);
        let Some((_, _, latency, bandwidth)) = machine.attributes.iter().find(lane) else {
            continue;
        };
        let access = &found["nodes"][id]["accesses"][0];
        let what = |name: &str| format!("{name} of node {id} in {}", found["nodes"][id]);
        equal(
            &what("read latency"),
            access["read_latency"].as_u64(),
            Some(u64::from(*latency)),
        )?;
        equal(
            &what("read bandwidth"),
            access["read_bandwidth"].as_u64(),
            Some(u64::from(*bandwidth)),
        )?;
        let initiators = access["initiators"].as_array().cloned().unwrap_or_default();
        if !initiators.contains(&serde_json::json!(initiator)) {
            return Err(format!(
                "node {id} has initiators {initiators:?}, expected {initiator}"
            ));
        }
    }
    Ok(())
}
