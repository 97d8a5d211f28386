//! CPUs, cores, clusters, dies and sockets: `sys/devices/system/cpu`.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::cpu_set::{CpuId, CpuSet};

use super::{essential, ignore, number};
use crate::error::HardwareError;
use crate::hardware::{CpuStates, Die, Hardware, HardwareCore, Socket};
use crate::kernel_text::{cpu_list, cpu_mask, trim};
use crate::tree::Tree;

pub(super) const CPUS: &str = "sys/devices/system/cpu";

/// The topology files of one CPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CpuLocation {
    package_id: Option<i32>,
    core_id: Option<i32>,
    die_id: Option<u32>,
    siblings: CpuSet,
}

pub(super) fn read(tree: &Tree, hardware: &mut Hardware) -> Result<(), HardwareError> {
    let present: CpuSet = tree
        .numbers(CPUS, "cpu")
        .into_iter()
        .map(|id| {
            CpuId::new(id).ok_or(HardwareError::TooMuch {
                what: "the number of a CPU",
                found: u64::from(id),
                limit: u64::from(CpuId::LIMIT - 1),
            })
        })
        .collect::<Result<_, _>>()?;
    let listed = list(tree, "online")?;
    let online = match &listed {
        Some(listed) => listed & &present,
        None => present
            .iter()
            .filter(|cpu| number::<u8>(tree, &format!("{CPUS}/cpu{cpu}/online")) != Some(0))
            .collect(),
    };
    if online.is_empty() {
        return Err(HardwareError::NoCpus { root: tree.root() });
    }
    hardware.cpus = CpuStates {
        offline: &present - &online,
        possible: optional_list(tree, hardware, "possible").unwrap_or_else(|| present.clone()),
        isolated: optional_list(tree, hardware, "isolated").unwrap_or_default(),
        nohz_full: optional_list(tree, hardware, "nohz_full").unwrap_or_default(),
        online,
    };
    read_locations(tree, hardware);
    // Without the list cAdvisor counts every CPU directory, online or not.
    let counted = if listed.is_some() {
        &hardware.cpus.online
    } else {
        &present
    };
    hardware.counted_sockets = count_sockets(tree, counted);
    Ok(())
}

fn list(tree: &Tree, file: &str) -> Result<Option<CpuSet>, HardwareError> {
    let path = format!("{CPUS}/{file}");
    let Some(text) = tree.read(&path) else {
        return Ok(None);
    };
    essential(
        &path,
        &text,
        "a list of CPUs such as 0-3,8",
        cpu_list(&text),
    )
    .map(Some)
}

fn optional_list(tree: &Tree, hardware: &mut Hardware, file: &str) -> Option<CpuSet> {
    let path = format!("{CPUS}/{file}");
    let text = tree.read(&path)?;
    let set = cpu_list(&text).ok();
    if set.is_none() {
        ignore(hardware, &path, &text);
    }
    set
}

/// Groups the online CPUs into cores, clusters and sockets by their topology files.
fn read_locations(tree: &Tree, hardware: &mut Hardware) {
    let online = hardware.cpus.online.clone();
    let mut cores = BTreeMap::<CpuLocation, CpuSet>::new();
    let mut clusters = BTreeSet::new();
    let mut packages = BTreeMap::<CpuId, CpuSet>::new();
    for cpu in &online {
        let file = |name: &str| format!("{CPUS}/cpu{cpu}/topology/{name}");
        let siblings = shared(tree, hardware, &file, &["core_cpus", "thread_siblings"]);
        let place = CpuLocation {
            package_id: number(tree, &file("physical_package_id")),
            core_id: number(tree, &file("core_id")),
            die_id: number(tree, &file("die_id")),
            siblings: siblings.map_or_else(|| CpuSet::single(cpu), |set| &set & &online),
        };
        if place.package_id.is_none_or(|id| id < 0) {
            let package = shared(tree, hardware, &file, &["package_cpus", "core_siblings"]);
            packages.insert(cpu, package.map_or_else(CpuSet::new, |set| &set & &online));
        }
        if let Some(cluster) = shared(tree, hardware, &file, &["cluster_cpus"]) {
            clusters.insert(&cluster & &online);
        }
        cores.entry(place).or_default().insert(cpu);
    }
    let socket_of = name_sockets(&cores, &packages);
    for (place, cpus) in cores {
        let socket = cpus.first().and_then(|cpu| socket_of.get(&cpu)).copied();
        hardware.cores.push(HardwareCore {
            socket: socket.unwrap_or(0),
            die: place.die_id,
            core_id: place.core_id,
            package_id: place.package_id,
            cpus,
        });
    }
    group_cores(hardware);
    clusters.retain(|cluster| {
        !cluster.is_empty()
            && !hardware.cores.iter().any(|core| core.cpus == *cluster)
            && !hardware
                .sockets
                .iter()
                .any(|socket| socket.cpus == *cluster)
    });
    hardware.clusters = clusters.into_iter().collect();
}

/// The CPUs that share a core, cluster or package with this one, from the first file that exists.
fn shared(
    tree: &Tree,
    hardware: &mut Hardware,
    file: &impl Fn(&str) -> String,
    names: &[&str],
) -> Option<CpuSet> {
    for name in names {
        let (list, mask) = (file(&format!("{name}_list")), file(name));
        let (path, text, set) = if let Some(text) = tree.read(&list) {
            let set = cpu_list(&text);
            (list, text, set)
        } else if let Some(text) = tree.read(&mask) {
            let set = cpu_mask(&text);
            (mask, text, set)
        } else {
            continue;
        };
        match set {
            Ok(set) => return Some(set),
            Err(_) => ignore(hardware, &path, &text),
        }
    }
    None
}

/// Assigns socket ids: the package id or, where the kernel does not know it (-1 on POWER), a running number for each
/// set of siblings.
fn name_sockets(
    cores: &BTreeMap<CpuLocation, CpuSet>,
    packages: &BTreeMap<CpuId, CpuSet>,
) -> BTreeMap<CpuId, u32> {
    let named = |place: &CpuLocation| place.package_id.and_then(|id| u32::try_from(id).ok());
    let highest = cores.keys().filter_map(named).max();
    let mut next = highest.map_or(0, |id| id.saturating_add(1));
    let mut numbers = BTreeMap::<&CpuSet, u32>::new();
    for set in packages.values() {
        numbers.entry(set).or_insert_with(|| {
            let number = next;
            next = next.saturating_add(1);
            number
        });
    }
    let mut sockets = BTreeMap::new();
    for (place, cpus) in cores {
        for cpu in cpus {
            let unnamed = || packages.get(&cpu).and_then(|set| numbers.get(set)).copied();
            sockets.extend(named(place).or_else(unnamed).map(|socket| (cpu, socket)));
        }
    }
    sockets
}

/// Builds sockets and dies from the cores.
fn group_cores(hardware: &mut Hardware) {
    let mut sockets = BTreeMap::<u32, CpuSet>::new();
    let mut dies = BTreeMap::<(u32, u32), CpuSet>::new();
    for core in &hardware.cores {
        *sockets.entry(core.socket).or_default() |= &core.cpus;
        if let Some(die) = core.die {
            *dies.entry((core.socket, die)).or_default() |= &core.cpus;
        }
    }
    hardware.sockets = sockets
        .into_iter()
        .map(|(id, cpus)| Socket { id, cpus })
        .collect();
    hardware.dies = dies
        .into_iter()
        .map(|((socket, id), cpus)| Die { socket, id, cpus })
        .collect();
}

/// Mirrors cAdvisor's `GetSockets`: the number of distinct `physical id` lines of `/proc/cpuinfo`, or else of distinct
/// package ids of the CPUs, where an unreadable one counts as 0.
fn count_sockets(tree: &Tree, cpus: &CpuSet) -> usize {
    let lines = tree
        .read_lines("proc/cpuinfo", |line| line.starts_with("physical id"))
        .unwrap_or_default();
    let ids: BTreeSet<&str> = lines
        .lines()
        .filter_map(|line| {
            let value = line.strip_prefix("physical id")?.trim_start();
            let digits = value.strip_prefix(':')?.trim_start();
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then_some(line)
        })
        .collect();
    if !ids.is_empty() {
        return ids.len();
    }
    let ids: BTreeSet<String> = cpus
        .iter()
        .map(|cpu| {
            let path = format!("{CPUS}/cpu{cpu}/topology/physical_package_id");
            tree.read(&path)
                .map_or_else(|| "0".to_owned(), |text| trim(&text).to_owned())
        })
        .collect();
    ids.len()
}
