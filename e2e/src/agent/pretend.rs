//! Another machine for one process: the kernel's files about CPUs and NUMA nodes, written from a description.
//!
//! Control groups stay real, so only machines make sense whose CPUs and NUMA nodes this one has.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use serde_json::Value;

/// Shows the files below `$1` to the program that follows, in a mount namespace of its own.
const SCRIPT: &str = "mount --make-rprivate / 2>/dev/null; machine=$1; shift
mount --bind $machine/sys/devices/system/cpu /sys/devices/system/cpu &&
mount --bind $machine/sys/devices/system/node /sys/devices/system/node &&
mount --bind $machine/proc/cpuinfo /proc/cpuinfo && exec \"$@\"";

/// The caches of every core, with their levels.
const CORE_CACHES: [(&str, &str); 3] = [("Data", "1"), ("Instruction", "1"), ("Unified", "2")];

/// A command that sees another machine.
pub(crate) fn command(machine: &Path, program: &Path) -> Command {
    let mut command = Command::new(UNSHARE);
    command.args(arguments(machine, program));
    command
}

/// The program that such a command starts with.
pub(crate) const UNSHARE: &str = "unshare";

/// What follows it.
pub(crate) fn arguments(machine: &Path, program: &Path) -> Vec<String> {
    let mut arguments = ["-m", "sh", "-c", SCRIPT, "sh"].map(str::to_owned).to_vec();
    arguments.extend([machine, program].map(|path| path.display().to_string()));
    arguments
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
                // lscpu lists the CPUs that are here with a vendor.
                let line = format!(
                    "processor\t: {thread}\nvendor_id\t: played\nphysical id\t: {socket}\n\n"
                );
                sockets.push_str(&line);
                file(format!("{topology}/physical_package_id"), socket)?;
                file(
                    format!("{topology}/thread_siblings_list"),
                    threads.to_string(),
                )?;
                // lscpu reads masks.
                file(format!("{topology}/thread_siblings"), mask(&threads))?;
                let with = cores(machine).filter(|other| other["socket"] == core["socket"]);
                file(format!("{topology}/core_siblings"), mask(&threads_of(with)))?;
                if !core["uncore"].is_null() {
                    let cache = format!("{cpu}/cpu{thread}/cache/index3");
                    let with = cores(machine).filter(|other| other["uncore"] == core["uncore"]);
                    let shared = threads_of(with);
                    file(format!("{cache}/level"), "3".to_owned())?;
                    file(format!("{cache}/type"), "Unified".to_owned())?;
                    file(format!("{cache}/id"), core["uncore"].to_string())?;
                    file(format!("{cache}/shared_cpu_list"), shared.to_string())?;
                    file(format!("{cache}/shared_cpu_map"), mask(&shared))?;
                    for (index, (kind, level)) in CORE_CACHES.iter().enumerate() {
                        let cache = format!("{cpu}/cpu{thread}/cache/index{index}");
                        file(format!("{cache}/level"), (*level).to_owned())?;
                        file(format!("{cache}/type"), (*kind).to_owned())?;
                        file(format!("{cache}/shared_cpu_list"), threads.to_string())?;
                        file(format!("{cache}/shared_cpu_map"), mask(&threads))?;
                    }
                }
            }
        }
        let folder = format!("{node}/node{id}");
        file(format!("{folder}/cpulist"), cpus.to_string())?;
        file(format!("{folder}/cpumap"), mask(&cpus))?;
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
        links(&root.join(&folder), &cpus)?;
        all |= &cpus;
    }
    for name in ["online", "present", "possible"] {
        file(format!("{cpu}/{name}"), all.to_string())?;
    }
    file("proc/cpuinfo".to_owned(), sockets)
}

/// What other readers than Pinfold look for in the folder of a NUMA node: links to its CPUs, and a folder for hugepages.
fn links(folder: &Path, cpus: &CpuSet) -> Result<(), String> {
    let pages = folder.join("hugepages");
    fs::create_dir_all(&pages).map_err(|error| format!("{}: {error}", pages.display()))?;
    for cpu in cpus {
        let link = folder.join(format!("cpu{cpu}"));
        if !link.is_symlink() {
            let made = symlink(format!("../../cpu/cpu{cpu}"), &link);
            made.map_err(|error| format!("{}: {error}", link.display()))?;
        }
    }
    Ok(())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The CPUs of these cores.
fn threads_of<'a>(cores: impl Iterator<Item = &'a Value>) -> CpuSet {
    let threads = cores.flat_map(|core| list(&core["threads"]));
    threads.filter_map(cpu_id).collect()
}

/// A set as the kernel writes masks: words of 32 bits, the highest first.
fn mask(cpus: &CpuSet) -> String {
    let words = cpus.last().map_or(0, |cpu| cpu.get() / 32) + 1;
    let word = |word: u32| {
        let bits = cpus.iter().filter(|cpu| cpu.get() / 32 == word);
        let bits = bits.fold(0_u32, |bits, cpu| bits | 1 << (cpu.get() % 32));
        format!("{bits:08x}")
    };
    let words: Vec<String> = (0..words).rev().map(word).collect();
    words.join(",")
}

fn cores(machine: &Value) -> impl Iterator<Item = &Value> {
    list(&machine["nodes"]).flat_map(|node| list(&node["cores"]))
}

fn cpu_id(value: &Value) -> Option<CpuId> {
    CpuId::new(u32::try_from(value.as_u64()?).ok()?)
}
