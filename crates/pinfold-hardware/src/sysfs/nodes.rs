//! NUMA nodes: `sys/devices/system/node`.

use pinfold_core::cpu_set::{CpuId, CpuSet};

use super::{essential, number};
use crate::error::HardwareError;
use crate::hardware::{Hardware, HardwareNode, HugePagePool, Inconsistency, MemoryAccess};
use crate::kernel_text::{cpu_list, cpu_mask, kib_field};
use crate::numa_id::NumaId;
use crate::tree::Tree;

const NODES: &str = "sys/devices/system/node";

pub(super) fn read(tree: &Tree, hardware: &mut Hardware) -> Result<(), HardwareError> {
    let meminfo = tree.read_lines("proc/meminfo", wanted_of_meminfo);
    let total = meminfo
        .as_deref()
        .and_then(|text| kib_field(text, "MemTotal"));
    let free = meminfo
        .as_deref()
        .and_then(|text| kib_field(text, "MemFree"));
    let ids = node_ids(tree)?;
    if ids.is_empty() {
        hardware.memory = total.unwrap_or(0);
        hardware.nodes = NumaId::new(0)
            .map(|id| HardwareNode {
                id,
                cpus: hardware.cpus.online.clone(),
                memory: hardware.memory,
                free,
                hugepages: hugepages(tree, "sys/kernel/mm/hugepages"),
                distances: Vec::new(),
                accesses: Vec::new(),
                memory_side_caches: Vec::new(),
            })
            .into_iter()
            .collect();
        return Ok(());
    }
    hardware.kernel_has_nodes = true;
    for &id in &ids {
        let folder = format!("{NODES}/node{id}");
        let meminfo = tree.read_lines(&format!("{folder}/meminfo"), wanted_of_meminfo);
        let meminfo = meminfo.unwrap_or_default();
        let node = HardwareNode {
            id,
            cpus: &cpus(tree, &folder)? & &hardware.cpus.online,
            memory: kib_field(&meminfo, "MemTotal").unwrap_or(0),
            free: kib_field(&meminfo, "MemFree"),
            hugepages: hugepages(tree, &format!("{folder}/hugepages")),
            distances: distances(tree, hardware, id, &ids),
            accesses: accesses(tree, &folder),
            memory_side_caches: memory_side_caches(tree, &folder),
        };
        hardware.nodes.push(node);
    }
    let sum = || {
        hardware
            .nodes
            .iter()
            .fold(0, |sum: u64, node| sum.saturating_add(node.memory))
    };
    hardware.memory = total.unwrap_or_else(sum);
    Ok(())
}

fn wanted_of_meminfo(line: &str) -> bool {
    line.contains("MemTotal:") || line.contains("MemFree:")
}

fn node_ids(tree: &Tree) -> Result<Vec<NumaId>, HardwareError> {
    tree.numbers(NODES, "node")
        .into_iter()
        .map(|id| {
            NumaId::new(id).ok_or(HardwareError::TooMuch {
                what: "the number of a NUMA node",
                found: u64::from(id),
                limit: u64::from(NumaId::LIMIT - 1),
            })
        })
        .collect()
}

/// The CPUs of a node, from the list, the mask of old kernels, or the links that cAdvisor follows.
fn cpus(tree: &Tree, folder: &str) -> Result<CpuSet, HardwareError> {
    let path = format!("{folder}/cpulist");
    if let Some(text) = tree.read(&path) {
        return essential(
            &path,
            &text,
            "a list of CPUs such as 0-3,8",
            cpu_list(&text),
        );
    }
    let path = format!("{folder}/cpumap");
    if let Some(text) = tree.read(&path) {
        return essential(
            &path,
            &text,
            "a mask of CPUs such as 0000ffff",
            cpu_mask(&text),
        );
    }
    Ok(tree
        .numbers(folder, "cpu")
        .into_iter()
        .filter_map(CpuId::new)
        .collect())
}

fn hugepages(tree: &Tree, folder: &str) -> Vec<HugePagePool> {
    let size = |name: &str| {
        let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
        size.parse::<u64>().ok()
    };
    tree.names(folder, |name| size(name).is_some())
        .iter()
        .filter_map(|name| {
            Some(HugePagePool {
                size_kib: size(name)?,
                count: number(tree, &format!("{folder}/{name}/nr_hugepages"))?,
                free: number(tree, &format!("{folder}/{name}/free_hugepages")),
            })
        })
        .collect()
}

/// The distances of a node, one per node. A row with more columns than nodes (a node was removed) is read as one column
/// per id; any other mismatch is left out.
fn distances(tree: &Tree, hardware: &mut Hardware, node: NumaId, ids: &[NumaId]) -> Vec<u32> {
    let text = tree
        .read(&format!("{NODES}/node{node}/distance"))
        .unwrap_or_default();
    let row: Result<Vec<u32>, _> = text
        .split([' ', '\n', '\0', '\t'])
        .filter(|word| !word.is_empty())
        .map(str::parse)
        .collect();
    let row = row.unwrap_or_default();
    let (found, expected) = (row.len(), ids.len());
    if found == expected || found == 0 {
        return row;
    }
    let by_id: Option<Vec<u32>> = ids
        .iter()
        .map(|id| row.get(id.get() as usize).copied())
        .collect();
    let (row, oddity) = match by_id {
        Some(row) if found > expected => (
            row,
            Inconsistency::WideDistanceRow {
                node,
                found,
                expected,
            },
        ),
        _ => (
            Vec::new(),
            Inconsistency::DistanceRow {
                node,
                found,
                expected,
            },
        ),
    };
    hardware.inconsistencies.push(oddity);
    row
}

/// The memory attributes of a node. The kernel prints 0 for a value that the firmware does not report.
fn accesses(tree: &Tree, folder: &str) -> Vec<MemoryAccess> {
    let classes = tree.numbers(folder, "access");
    let read = |class: u32| {
        let initiators = format!("{folder}/access{class}/initiators");
        let reported =
            |name: &str| number(tree, &format!("{initiators}/{name}")).filter(|&value| value != 0);
        MemoryAccess {
            class,
            initiators: tree
                .numbers(&initiators, "node")
                .into_iter()
                .filter_map(NumaId::new)
                .collect(),
            read_bandwidth: reported("read_bandwidth"),
            write_bandwidth: reported("write_bandwidth"),
            read_latency: reported("read_latency"),
            write_latency: reported("write_latency"),
        }
    };
    classes.into_iter().map(read).collect()
}

fn memory_side_caches(tree: &Tree, folder: &str) -> Vec<u64> {
    let folder = format!("{folder}/memory_side_cache");
    tree.numbers(&folder, "index")
        .into_iter()
        .filter_map(|index| number(tree, &format!("{folder}/index{index}/size")))
        .collect()
}
