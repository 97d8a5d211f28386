//! [`ResourceUsage`]: how much of a node's resources is used, and how fragmented the rest is.

use std::collections::BTreeMap;

use pinfold_core::decision::ResourceManager;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::name::ResourceName;
use pinfold_core::occupancy::DeviceUse;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_render::amount;
use pinfold_render::table::{Align, Table};
use serde::Serialize;

/// The usage of one resource of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ResourceUsage {
    /// Its name.
    pub(crate) resource: ResourceName,
    /// The manager that assigns it.
    #[serde(skip)]
    manager: ResourceManager,
    /// CPUs, bytes or devices that pods can get on an empty node.
    pub(crate) total: u64,
    /// CPUs, bytes or devices that are free.
    pub(crate) free: u64,
    /// The largest request that one NUMA node can still serve.
    pub(crate) largest: u64,
    /// The largest request that one NUMA node could serve if all that is free were on one node.
    pub(crate) possible: u64,
}

impl ResourceUsage {
    /// Per cent of the total that is in use.
    pub(crate) fn used_percent(&self) -> u64 {
        percent(self.total - self.free.min(self.total), self.total)
    }

    /// Per cent of the possible request that does not fit because the free resources are on several NUMA nodes.
    pub(crate) fn fragmentation_percent(&self) -> u64 {
        percent(self.possible.saturating_sub(self.largest), self.possible)
    }

    fn text(&self, amount: u64) -> String {
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
pub(crate) fn of(ledger: &Ledger) -> Vec<ResourceUsage> {
    let mut usages = Vec::new();
    usages.extend(cpus(ledger));
    let occupancy = ledger.occupancy();
    let mut memory: BTreeMap<&ResourceName, Vec<(u64, u64)>> = BTreeMap::new();
    if ledger.rules().assigns_memory() {
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
) -> ResourceUsage {
    let (mut biggest, mut largest) = (0, 0);
    for (total, free) in nodes {
        biggest = biggest.max(total);
        largest = largest.max(free);
    }
    ResourceUsage {
        resource,
        manager,
        total,
        free,
        largest,
        possible: biggest.min(free),
    }
}

/// The usage of CPUs under the static policy. With `full-pcpus-only` only whole cores count as free.
fn cpus(ledger: &Ledger) -> Option<ResourceUsage> {
    let rules: &Rules = ledger.rules();
    if rules.settings().cpu_policy != CpuManagerPolicy::Static {
        return None;
    }
    let topology = rules.topology();
    let mut pool = topology.all().clone();
    let mut free = ledger.state().cpus().shared().clone();
    for cpu in &rules.reserved_cpus() {
        pool.remove(cpu);
        free.remove(cpu);
    }
    if (rules.cpu_options()).is_some_and(|options| options.full_pcpus_only) {
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

/// A table with a row for each resource.
pub(crate) fn table(usages: &[ResourceUsage]) -> String {
    let mut table = Table::new([
        ("resource", Align::Left),
        ("used", Align::Right),
        ("free", Align::Right),
        ("total", Align::Right),
        ("largest fit", Align::Right),
        ("fragmented", Align::Right),
    ]);
    for usage in usages {
        table.row([
            usage.resource.to_string(),
            format!("{}%", usage.used_percent()),
            usage.text(usage.free),
            usage.text(usage.total),
            usage.text(usage.largest),
            format!("{}%", usage.fragmentation_percent()),
        ]);
    }
    table.draw()
}
