//! Caches: `sys/devices/system/cpu/cpu*/cache/index*`.

use std::collections::BTreeSet;

use pinfold_core::cpu_set::CpuSet;

use super::cpus::CPUS;
use super::{ignore, number};
use crate::hardware::{CacheKind, CpuCache, Hardware};
use crate::kernel_text::{cache_size, cpu_list, cpu_mask, trim};
use crate::tree::Tree;

/// Limit of caches of one CPU.
const MOST_INDEXES: usize = 16;

pub(super) fn read(tree: &Tree, hardware: &mut Hardware) {
    let online = hardware.cpus.online.clone();
    let mut caches = BTreeSet::new();
    for cpu in &online {
        let folder = format!("{CPUS}/cpu{cpu}/cache");
        for index in tree
            .numbers(&folder, "index")
            .into_iter()
            .take(MOST_INDEXES)
        {
            let file = |name: &str| format!("{folder}/index{index}/{name}");
            let (Some(level), Some(kind)) =
                (number(tree, &file("level")), kind(tree, &file("type")))
            else {
                continue;
            };
            let shared = shared(tree, hardware, &file);
            caches.insert(CpuCache {
                level,
                kind,
                cpus: shared.map_or_else(|| CpuSet::single(cpu), |set| &set & &online),
                id: number(tree, &file("id")),
                size: tree.read(&file("size")).and_then(|text| cache_size(&text)),
            });
        }
    }
    hardware.caches = caches.into_iter().collect();
}

fn kind(tree: &Tree, path: &str) -> Option<CacheKind> {
    match trim(&tree.read(path)?) {
        "Data" => Some(CacheKind::Data),
        "Instruction" => Some(CacheKind::Instruction),
        "Unified" => Some(CacheKind::Unified),
        _ => None,
    }
}

/// The CPUs that share the cache. The mask has precedence over the list, as cAdvisor counts its bits.
fn shared(tree: &Tree, hardware: &mut Hardware, file: &impl Fn(&str) -> String) -> Option<CpuSet> {
    let path = file("shared_cpu_map");
    let Some(text) = tree.read(&path) else {
        return cpu_list(&tree.read(&file("shared_cpu_list"))?).ok();
    };
    let set = cpu_mask(&text).ok();
    if set.is_none() {
        ignore(hardware, &path, &text);
    }
    set
}
