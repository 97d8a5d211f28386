//! Publishes a ledger as the counts of a topology object.
//!
//! The counts are those of the exporters that read the kubelet's pod resources API: capacity is the amount of the
//! hardware, allocatable what pods may use, available what no pod holds. A device near several NUMA nodes is counted by
//! each of them. What a prediction needs beyond counts is added as attributes: the managers' policies and options, and
//! the memory groups of NUMA nodes that can only be used together because a pod's memory lies on all of them.

use std::collections::BTreeMap;

use super::attributes::{self, attribute, options_text};
use super::{Attribute, Cost, NodeTopology, Zone, ZoneResource};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::Ledger;
use pinfold_core::machine::{Machine, NumaNode};
use pinfold_core::memory::hugepages_resource;
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeId;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::CpuManagerPolicy;

impl NodeTopology {
    /// The topology object of a node, one zone per NUMA node in machine order.
    #[must_use]
    pub fn of(ledger: &Ledger) -> Self {
        let nodes = ledger.rules().machine().nodes().iter();
        Self {
            topology_policies: Vec::new(),
            attributes: node_attributes(ledger),
            zones: nodes.map(|node| zone(ledger, node)).collect(),
        }
    }
}

/// The name of a NUMA node's zone.
#[must_use]
pub fn zone_name(node: NodeId) -> String {
    format!("node-{node}")
}

fn node_attributes(ledger: &Ledger) -> Vec<Attribute> {
    let (rules, settings) = (ledger.rules(), ledger.rules().settings());
    let mut all = vec![
        attribute(attributes::TOPOLOGY_POLICY, rules.policy().name()),
        attribute(attributes::TOPOLOGY_SCOPE, rules.scope().name()),
        attribute(attributes::CPU_POLICY, settings.cpu_policy.name()),
        attribute(attributes::MEMORY_POLICY, settings.memory_policy.name()),
    ];
    for (name, options) in [
        (attributes::TOPOLOGY_OPTIONS, &settings.topology_options),
        (attributes::CPU_OPTIONS, &settings.cpu_options),
    ] {
        if !options.is_empty() {
            all.push(attribute(name, options_text(options)));
        }
    }
    if settings.pod_level_resources {
        all.push(attribute(attributes::POD_LEVEL, "true"));
    }
    let most = settings.topology_options.get("max-allowable-numa-nodes");
    if let Some(most) = most {
        all.push(attribute(attributes::MAX_NUMA_NODES, most));
    }
    let caches = caches(rules.machine());
    let options = rules.cpu_options();
    if options.is_some_and(|options| options.prefer_align_by_cache) && !caches.is_empty() {
        all.push(attribute(attributes::CACHES, caches.join(";")));
    }
    let wide = devices_near_several_nodes(ledger);
    if !wide.is_empty() {
        all.push(attribute(attributes::WIDE_DEVICES, wide.join(",")));
    }
    all
}

/// The CPUs of every last-level cache that is known, in order of the caches.
fn caches(machine: &Machine) -> Vec<String> {
    let mut caches: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for core in machine.nodes().iter().flat_map(|node| &node.cores) {
        if let Some(cache) = core.l3 {
            caches
                .entry(cache)
                .or_default()
                .extend(core.threads.iter().copied());
        }
    }
    caches.values().map(ToString::to_string).collect()
}

fn devices_near_several_nodes(ledger: &Ledger) -> Vec<&str> {
    let pool = ledger.state().pool();
    let is_wide = |resource: &&ResourceName| {
        let devices = pool.devices(resource).into_iter().flatten();
        devices
            .into_iter()
            .any(|(_, device)| (device.nodes() & pool.nodes()).len() > 1)
    };
    pool.resources()
        .filter(is_wide)
        .map(ResourceName::as_str)
        .collect()
}

fn zone(ledger: &Ledger, node: &NumaNode) -> Zone {
    let mut resources = vec![cpus(ledger, node.id)];
    resources.extend(memory(ledger, node));
    resources.extend(devices(ledger, node.id));
    let machine = ledger.rules().machine();
    let costs = machine.nodes().iter().zip(&node.distances);
    Zone {
        name: zone_name(node.id),
        kind: "Node".to_owned(),
        parent: None,
        costs: costs
            .map(|(other, &distance)| Cost {
                name: zone_name(other.id),
                value: distance.into(),
            })
            .collect(),
        attributes: memory_group(ledger, node.id).into_iter().collect(),
        resources,
    }
}

fn cpus(ledger: &Ledger, node: NodeId) -> ZoneResource {
    let own = ledger.rules().topology().cpus_of_node(node);
    let reserved = ledger.rules().reserved_cpus();
    let count = |cpus: usize| Quantity::from(i64::try_from(cpus).unwrap_or(i64::MAX));
    let allocatable = &own - &reserved;
    let free = match ledger.rules().settings().cpu_policy == CpuManagerPolicy::Static {
        true => allocatable.common_len(ledger.state().cpus().shared()),
        false => allocatable.len(),
    };
    ZoneResource {
        name: ResourceName::from("cpu"),
        capacity: count(own.len()),
        allocatable: count(allocatable.len()),
        available: count(free),
    }
}

fn memory(ledger: &Ledger, node: &NumaNode) -> Vec<ZoneResource> {
    let bytes = |bytes: u64| Quantity::bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
    if let Some(row) = ledger.state().memory().nodes().get(&node.id) {
        let rows = row.memory.iter().map(|(name, amounts)| ZoneResource {
            name: name.clone(),
            capacity: bytes(amounts.total),
            allocatable: bytes(amounts.allocatable),
            available: bytes(amounts.free),
        });
        return rows.collect();
    }
    // The memory manager is off, so all memory is available.
    let plain = |name: ResourceName, amount: u64| ZoneResource {
        name,
        capacity: bytes(amount),
        allocatable: bytes(amount),
        available: bytes(amount),
    };
    let pages = node.hugepages.iter().map(|pages| {
        let size = pages.size_kib.saturating_mul(1024);
        let amount = pages.count.saturating_mul(size);
        plain(hugepages_resource(pages.size_kib), amount)
    });
    let ordinary = plain(ResourceName::from("memory"), node.memory);
    pages.chain([ordinary]).collect()
}

/// The memory group of a zone; `None` if the memory manager is off.
fn memory_group(ledger: &Ledger, node: NodeId) -> Option<Attribute> {
    let row = ledger.state().memory().nodes().get(&node)?;
    let zones: Vec<String> = match row.assignments {
        0 => Vec::new(),
        _ => row.cells.iter().map(zone_name).collect(),
    };
    Some(attribute(attributes::MEMORY_GROUP, zones.join(",")))
}

fn devices(ledger: &Ledger, node: NodeId) -> Vec<ZoneResource> {
    let (pool, held) = (ledger.state().pool(), ledger.state().devices());
    let mut rows = Vec::new();
    for resource in pool.resources() {
        let (mut capacity, mut allocatable, mut available) = (0, 0, 0);
        for (id, device) in pool.devices(resource).into_iter().flatten() {
            if !device.nodes().contains(node) {
                continue;
            }
            capacity += 1;
            if device.healthy {
                allocatable += 1;
                available += i64::from(!held.is_in_use(resource, id));
            }
        }
        if capacity > 0 {
            rows.push(ZoneResource {
                name: resource.clone(),
                capacity: capacity.into(),
                allocatable: allocatable.into(),
                available: available.into(),
            });
        }
    }
    rows
}
