//! How full a node is, and how scattered what is left: utilisation and fragmentation.

use std::collections::BTreeMap;

use pinfold_core::decision::ResourceManager;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::name::ResourceName;
use pinfold_core::occupancy::DeviceUse;
use pinfold_render::amount;
use pinfold_render::table::{Align, Table};
use serde::Serialize;

/// One resource of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Usage {
    /// Its name.
    pub(crate) resource: ResourceName,
    /// Who hands it out.
    #[serde(skip)]
    manager: ResourceManager,
    /// What pods could get of an empty node: CPUs, bytes or devices.
    pub(crate) total: u64,
    /// What is left.
    pub(crate) free: u64,
    /// The largest request that one NUMA node could still serve.
    pub(crate) largest: u64,
    /// What one NUMA node could serve if all that is left were together.
    pub(crate) possible: u64,
}

impl Usage {
    /// Per cent of the total that is in use.
    pub(crate) fn used_percent(&self) -> u64 {
        percent(self.total - self.free.min(self.total), self.total)
    }

    /// Per cent of the possible that does not fit because it is scattered.
    pub(crate) fn fragmentation_percent(&self) -> u64 {
        percent(self.possible.saturating_sub(self.largest), self.possible)
    }

    fn words(&self, amount: u64) -> String {
        match self.manager {
            ResourceManager::Memory => amount::bytes(amount),
            ResourceManager::Cpu | ResourceManager::Device => amount.to_string(),
        }
    }
}

fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// Every resource that is managed, CPUs first.
pub(crate) fn of(ledger: &Ledger) -> Vec<Usage> {
    let mut usages = Vec::new();
    usages.extend(cpus(ledger));
    let occupancy = ledger.occupancy();
    let mut memory: BTreeMap<&ResourceName, Vec<(u64, u64)>> = BTreeMap::new();
    if ledger.rules().settings().memory_policy == "Static" {
        for row in &occupancy.memory {
            let rows = memory.entry(&row.resource).or_default();
            rows.push((row.allocatable, row.free));
        }
    }
    for (resource, rows) in memory {
        let total = rows.iter().map(|row| row.0).fold(0, u64::saturating_add);
        let free = rows.iter().map(|row| row.1).fold(0, u64::saturating_add);
        let rows = rows.into_iter();
        usages.push(usage(
            resource.clone(),
            ResourceManager::Memory,
            total,
            free,
            rows,
        ));
    }
    let mut devices: BTreeMap<&ResourceName, Vec<&DeviceUse>> = BTreeMap::new();
    for device in occupancy.devices.iter().filter(|device| device.healthy) {
        devices.entry(&device.resource).or_default().push(device);
    }
    for (resource, devices) in devices {
        let free = |devices: &[&DeviceUse]| {
            let left = devices.iter().filter(|device| device.holder.is_none());
            left.count() as u64
        };
        let nodes = ledger.rules().machine().node_ids().iter().map(|node| {
            let is_near =
                |device: &&DeviceUse| device.nodes.is_empty() || device.nodes.contains(node);
            let near: Vec<&DeviceUse> = devices.iter().copied().filter(is_near).collect();
            (near.len() as u64, free(&near))
        });
        let (total, left) = (devices.len() as u64, free(&devices));
        usages.push(usage(
            resource.clone(),
            ResourceManager::Device,
            total,
            left,
            nodes,
        ));
    }
    usages.retain(|usage| usage.total > 0);
    usages
}

fn usage(
    resource: ResourceName,
    manager: ResourceManager,
    total: u64,
    free: u64,
    nodes: impl Iterator<Item = (u64, u64)>,
) -> Usage {
    let (mut biggest, mut largest) = (0, 0);
    for (total, free) in nodes {
        biggest = biggest.max(total);
        largest = largest.max(free);
    }
    Usage {
        resource,
        manager,
        total,
        free,
        largest,
        possible: biggest.min(free),
    }
}

/// CPUs, if they are handed out. With `full-pcpus-only` only whole cores count.
fn cpus(ledger: &Ledger) -> Option<Usage> {
    let rules: &Rules = ledger.rules();
    if rules.settings().cpu_policy != "static" {
        return None;
    }
    let topology = rules.topology();
    let mut pool = topology.all().clone();
    let mut free = ledger.state().cpus().shared().clone();
    let whole = rules.settings().cpu_options.get("full-pcpus-only");
    for cpu in &rules.reserved_cpus() {
        pool.remove(cpu);
        free.remove(cpu);
    }
    if whole.is_some_and(|value| value == "true") {
        for core in topology.cores() {
            if !core.cpus.is_subset(&free) {
                free = &free - &core.cpus;
            }
        }
    }
    let nodes = topology.nodes().iter().map(|node| {
        let (all, left) = (node.cpus.common_len(&pool), node.cpus.common_len(&free));
        (all as u64, left as u64)
    });
    let (total, left) = (pool.len() as u64, free.len() as u64);
    Some(usage(
        "cpu".into(),
        ResourceManager::Cpu,
        total,
        left,
        nodes,
    ))
}

/// The table of all resources.
pub(crate) fn table(usages: &[Usage]) -> String {
    let mut table = Table::new([
        ("resource", Align::Left),
        ("used", Align::Right),
        ("free", Align::Right),
        ("of", Align::Right),
        ("fits one node", Align::Right),
        ("fragmented", Align::Right),
    ]);
    for usage in usages {
        table.row([
            usage.resource.to_string(),
            format!("{}%", usage.used_percent()),
            usage.words(usage.free),
            usage.words(usage.total),
            usage.words(usage.largest),
            format!("{}%", usage.fragmentation_percent()),
        ]);
    }
    table.draw()
}
