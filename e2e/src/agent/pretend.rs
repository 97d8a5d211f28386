//! Another machine for one process: the kernel's files about CPUs and NUMA nodes, written from a description.
//!
//! Control groups stay real, so only machines make sense whose CPUs and NUMA nodes this one has.

use std::fs;
use std::path::Path;
use std::process::Command;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use serde_json::Value;

/// Shows the files below `$1` to the program that follows, in a mount namespace of its own.
const SCRIPT: &str = "mount --make-rprivate / 2>/dev/null; machine=$1; shift
mount --bind $machine/sys/devices/system/cpu /sys/devices/system/cpu &&
mount --bind $machine/sys/devices/system/node /sys/devices/system/node &&
mount --bind $machine/proc/cpuinfo /proc/cpuinfo && exec \"$@\"";

/// A command that sees another machine.
pub(crate) fn command(machine: &Path, program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", SCRIPT, "sh"])
        .arg(machine)
        .arg(program);
    command
}

/// Writes the files of a machine as vectors describe it.
pub(crate) fn write(root: &Path, machine: &Value) -> Result<(), String> {
    let file = |path: String, content: String| {
        let path = root.join(path);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&path, content + "\n").map_err(failed)
    };
    let (cpu, node) = ("sys/devices/system/cpu", "sys/devices/system/node");
    let mut all = CpuSet::new();
    let mut sockets = String::new();
    for (position, here) in list(&machine["nodes"]).enumerate() {
        let id = &here["id"];
        let mut cpus = CpuSet::new();
        for core in list(&here["cores"]) {
            let threads: CpuSet = list(&core["threads"]).filter_map(cpu_id).collect();
            cpus |= &threads;
            for thread in &threads {
                let topology = format!("{cpu}/cpu{thread}/topology");
                file(format!("{topology}/core_id"), core["core"].to_string())?;
                let socket = core["socket"].to_string();
                sockets.push_str(&format!("physical id\t: {socket}\n\n"));
                file(format!("{topology}/physical_package_id"), socket)?;
                file(
                    format!("{topology}/thread_siblings_list"),
                    threads.to_string(),
                )?;
                if !core["uncore"].is_null() {
                    let cache = format!("{cpu}/cpu{thread}/cache/index3");
                    let with = cores(machine).filter(|other| other["uncore"] == core["uncore"]);
                    let shared: CpuSet = with
                        .flat_map(|core| list(&core["threads"]))
                        .filter_map(cpu_id)
                        .collect();
                    file(format!("{cache}/level"), "3".to_owned())?;
                    file(format!("{cache}/type"), "Unified".to_owned())?;
                    file(format!("{cache}/id"), core["uncore"].to_string())?;
                    file(format!("{cache}/shared_cpu_list"), shared.to_string())?;
                }
            }
        }
        let folder = format!("{node}/node{id}");
        file(format!("{folder}/cpulist"), cpus.to_string())?;
        let kib = here["memory"].as_u64().unwrap_or(0) / 1024;
        let memory = format!("Node {id} MemTotal: {kib} kB\nNode {id} MemFree: {kib} kB");
        file(format!("{folder}/meminfo"), memory)?;
        let count = list(&machine["nodes"]).count();
        let given: Vec<String> = list(&here["distances"]).map(Value::to_string).collect();
        let distance = |other: usize| if other == position { "10" } else { "20" };
        let distances = match given.is_empty() {
            true => (0..count).map(|other| distance(other).to_owned()).collect(),
            false => given,
        };
        file(format!("{folder}/distance"), distances.join(" "))?;
        for pages in list(&here["hugepages"]) {
            let folder = format!("{folder}/hugepages/hugepages-{}kB", pages["size_kib"]);
            file(format!("{folder}/nr_hugepages"), pages["count"].to_string())?;
            file(
                format!("{folder}/free_hugepages"),
                pages["count"].to_string(),
            )?;
        }
        all |= &cpus;
    }
    for name in ["online", "present", "possible"] {
        file(format!("{cpu}/{name}"), all.to_string())?;
    }
    file("proc/cpuinfo".to_owned(), sockets)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn cores(machine: &Value) -> impl Iterator<Item = &Value> {
    list(&machine["nodes"]).flat_map(|node| list(&node["cores"]))
}

fn cpu_id(value: &Value) -> Option<CpuId> {
    CpuId::new(u32::try_from(value.as_u64()?).ok()?)
}
