//! Collects the parts of a machine from hwloc's tree of objects.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::cpu_set::{CpuId, CpuSet};

use super::element::XmlElement;
use crate::error::{HardwareError, excerpt};
use crate::hardware::{
    CacheKind, CgroupKind, CgroupLimits, CpuCache, CpuStates, Die, Hardware, HardwareCore,
    HardwareNode, HugePagePool, Socket,
};
use crate::kernel_text::{cpu_mask, node_mask};
use crate::numa_id::NumaId;
use crate::pci::{PciAddress, PciDevice, PciKind};

/// Limit of caches: 4096 CPUs with a dozen each.
const MOST_CACHES: usize = 1 << 16;

/// The package, die and nodes that enclose an object.
#[derive(Clone, Default)]
struct EnclosingObjects {
    package: Option<u32>,
    die: Option<u32>,
    /// The nodes of the nearest enclosing object with CPUs: the local nodes of devices below it.
    nodes: Vec<NumaId>,
}

/// The parts of the machine collected so far.
#[derive(Default)]
pub(super) struct HwlocObjects {
    root: Option<XmlElement>,
    online: CpuSet,
    packages: BTreeMap<u32, CpuSet>,
    dies: BTreeMap<(u32, u32), CpuSet>,
    clusters: Vec<CpuSet>,
    cores: Vec<HardwareCore>,
    caches: BTreeSet<CpuCache>,
    cache_ids: BTreeMap<(u8, CacheKind), u32>,
    nodes: Vec<HwlocNode>,
    devices: Vec<PciDevice>,
}

struct HwlocNode {
    locality: CpuSet,
    gp_index: Option<u64>,
    node: HardwareNode,
}

/// A machine and the indexes by which the rest of the file refers to its nodes.
pub(super) struct IndexedHardware {
    pub(super) hardware: Hardware,
    /// The node ids by hwloc's `gp_index`.
    pub(super) gp_indexes: BTreeMap<u64, NumaId>,
    /// The node ids in the order of the file.
    pub(super) in_order: Vec<NumaId>,
}

impl HwlocObjects {
    /// Collects an object and everything below it. The parser limits the depth of the tree.
    pub(super) fn visit(&mut self, root: &XmlElement) {
        let infos = root.children.iter().filter(|child| child.name == "info");
        self.root = Some(XmlElement {
            attributes: root.attributes.clone(),
            children: infos.cloned().collect(),
            ..XmlElement::default()
        });
        self.walk(root, &EnclosingObjects::default());
    }

    fn walk(&mut self, object: &XmlElement, enclosing: &EnclosingObjects) {
        let mut enclosing = enclosing.clone();
        let cpus = object.get("cpuset").and_then(|mask| cpu_mask(mask).ok());
        if cpus.is_some() {
            let nodes = object.get("nodeset").and_then(|mask| node_mask(mask).ok());
            enclosing.nodes = nodes.unwrap_or(enclosing.nodes);
        }
        let cpus = cpus.unwrap_or_default();
        let kind = object.get("type").unwrap_or_default();
        match kind {
            "PU" => {
                self.online |= &cpus;
            }
            "Package" | "Socket" => {
                let id = object
                    .number("os_index")
                    .unwrap_or_else(|| self.next_package());
                *self.packages.entry(id).or_default() |= &cpus;
                enclosing.package = Some(id);
            }
            "Die" => {
                let socket = enclosing.package.unwrap_or(0);
                let id = object.number("os_index").unwrap_or(0);
                *self.dies.entry((socket, id)).or_default() |= &cpus;
                enclosing.die = Some(id);
            }
            "Core" => self.core(object, cpus, &enclosing),
            "NUMANode" | "Node" => self.node(object, cpus),
            "Group" if object.get("subtype") == Some("Cluster") => self.clusters.push(cpus),
            "MemCache" => {}
            "PCIDev" | "Bridge" => self.device(object, &enclosing),
            _ => self.cache(object, kind, cpus),
        }
        for child in object
            .children
            .iter()
            .filter(|child| child.name == "object")
        {
            self.walk(child, &enclosing);
        }
        if kind == "MemCache" {
            self.memory_side_cache(object);
        }
    }

    fn next_package(&self) -> u32 {
        self.packages
            .keys()
            .next_back()
            .map_or(0, |id| id.saturating_add(1))
    }

    fn core(&mut self, object: &XmlElement, cpus: CpuSet, enclosing: &EnclosingObjects) {
        let id = object
            .number("os_index")
            .or_else(|| i32::try_from(self.cores.len()).ok());
        let socket = enclosing.package.unwrap_or(0);
        self.cores.push(HardwareCore {
            socket,
            die: enclosing.die,
            core_id: id,
            package_id: i32::try_from(socket).ok(),
            cpus,
        });
    }

    /// Collects a cache: `Cache` with a depth in version 1, `L3Cache` or `L1iCache` in version 2.
    fn cache(&mut self, object: &XmlElement, kind: &str, cpus: CpuSet) {
        let level = match kind {
            "Cache" => object.number("depth"),
            _ => kind
                .strip_prefix('L')
                .and_then(|rest| rest.strip_suffix("Cache"))
                .and_then(|level| level.trim_end_matches('i').parse().ok()),
        };
        let Some(level) = level.filter(|_| self.caches.len() < MOST_CACHES) else {
            return;
        };
        let kind = match object.get("cache_type") {
            Some("1") => CacheKind::Data,
            Some("2") => CacheKind::Instruction,
            _ => CacheKind::Unified,
        };
        let id = self.cache_ids.entry((level, kind)).or_default();
        self.caches.insert(CpuCache {
            level,
            kind,
            cpus,
            id: Some(*id),
            size: Some(object.number("cache_size").unwrap_or(0)),
        });
        *id = id.saturating_add(1);
    }

    fn node(&mut self, object: &XmlElement, locality: CpuSet) {
        let next = self
            .nodes
            .last()
            .map_or(0, |node| node.node.id.get().saturating_add(1));
        let Some(id) = NumaId::new(object.number("os_index").unwrap_or(next)) else {
            return;
        };
        if self.nodes.iter().any(|node| node.node.id == id) {
            return;
        }
        self.nodes.push(HwlocNode {
            locality,
            gp_index: object.number("gp_index"),
            node: HardwareNode {
                id,
                cpus: CpuSet::new(),
                memory: object.number("local_memory").unwrap_or(0),
                free: None,
                hugepages: hugepages(object),
                distances: Vec::new(),
                accesses: Vec::new(),
                memory_side_caches: Vec::new(),
            },
        });
    }

    /// Collects a memory-side cache, whose element contains the node it belongs to.
    fn memory_side_cache(&mut self, object: &XmlElement) {
        let inside =
            |element: &&XmlElement| matches!(element.get("type"), Some("NUMANode" | "MemCache"));
        let size = object.number("cache_size").unwrap_or(0);
        let mut ids = Vec::new();
        let mut stack: Vec<&XmlElement> = object.children.iter().filter(inside).collect();
        while let Some(element) = stack.pop() {
            ids.extend(
                element
                    .number::<u32>("os_index")
                    .filter(|_| element.get("type") == Some("NUMANode")),
            );
            stack.extend(element.children.iter().filter(inside));
        }
        for node in self
            .nodes
            .iter_mut()
            .filter(|node| ids.contains(&node.node.id.get()))
        {
            node.node.memory_side_caches.push(size);
        }
    }

    fn device(&mut self, object: &XmlElement, enclosing: &EnclosingObjects) {
        let device = || {
            let address: PciAddress = object.get("pci_busid")?.parse().ok()?;
            // "0302 [10de:1db8] [10de:131d] a1"
            let (class, rest) = object.get("pci_type")?.split_once(" [")?;
            let (ids, _) = rest.split_once(']')?;
            let (vendor, device) = ids.split_once(':')?;
            let class = u32::from(u16::from_str_radix(class, 16).ok()?) << 8;
            let vendor = u16::from_str_radix(vendor, 16).ok()?;
            Some(PciDevice {
                address,
                kind: PciKind::of(class, vendor),
                class,
                vendor,
                device: u16::from_str_radix(device, 16).ok()?,
                node: match enclosing.nodes.as_slice() {
                    [one] => Some(*one),
                    _ => None,
                },
                sriov: None,
            })
        };
        self.devices.extend(device());
    }

    /// Builds the machine from the collected parts.
    pub(super) fn into_hardware(mut self) -> Result<IndexedHardware, HardwareError> {
        let root = self.root.take().unwrap_or_default();
        if self.online.is_empty() {
            return Err(HardwareError::Xml {
                position: 0,
                problem: "no object of type PU, so no CPU".to_owned(),
            });
        }
        self.add_omitted_levels();
        let in_order: Vec<NumaId> = self.nodes.iter().map(|node| node.node.id).collect();
        let by_gp_index = |node: &HwlocNode| node.gp_index.map(|index| (index, node.node.id));
        let gp_indexes = self.nodes.iter().filter_map(by_gp_index).collect();
        let kernel_has_nodes = !self.nodes.is_empty();
        let memory = root.number("local_memory").unwrap_or(0);
        let mut nodes = self.assign_cpus_to_nodes(memory);
        nodes.sort_by_key(|node| node.id);
        let mask = |key: &str| root.get(key).and_then(|mask| cpu_mask(mask).ok());
        let complete = mask("complete_cpuset").unwrap_or_else(|| self.online.clone());
        let hardware = Hardware {
            name: product(&root),
            allowed: allowed(&root, &self.online, &nodes),
            cpus: CpuStates {
                offline: &complete - &self.online,
                possible: &complete | &self.online,
                online: self.online,
                ..CpuStates::default()
            },
            counted_sockets: self.packages.len(),
            sockets: self
                .packages
                .into_iter()
                .map(|(id, cpus)| Socket { id, cpus })
                .collect(),
            dies: self
                .dies
                .into_iter()
                .map(|((socket, id), cpus)| Die { socket, id, cpus })
                .collect(),
            clusters: self.clusters,
            cores: self.cores,
            caches: self.caches.into_iter().collect(),
            memory: nodes
                .iter()
                .fold(0, |sum: u64, node| sum.saturating_add(node.memory)),
            nodes,
            kernel_has_nodes,
            devices: self.devices,
            ..Hardware::default()
        };
        Ok(IndexedHardware {
            hardware,
            gp_indexes,
            in_order,
        })
    }

    /// Adds the levels that hwloc omits: a CPU without a core is a core, CPUs without a package are in package 0.
    fn add_omitted_levels(&mut self) {
        let in_cores = self
            .cores
            .iter()
            .fold(CpuSet::new(), |all, core| &all | &core.cpus);
        for cpu in &(&self.online - &in_cores) {
            self.cores.push(HardwareCore {
                socket: 0,
                die: None,
                core_id: i32::try_from(cpu.get()).ok(),
                package_id: Some(0),
                cpus: CpuSet::single(cpu),
            });
        }
        let in_packages = self
            .packages
            .values()
            .fold(CpuSet::new(), |all, cpus| &all | cpus);
        let rest = &self.online - &in_packages;
        if !rest.is_empty() {
            *self.packages.entry(0).or_default() |= &rest;
        }
    }

    fn assign_cpus_to_nodes(&mut self, memory: u64) -> Vec<HardwareNode> {
        let mut nodes = std::mem::take(&mut self.nodes);
        if nodes.is_empty() {
            let id = NumaId::new(0).into_iter();
            return id
                .map(|id| HardwareNode {
                    id,
                    cpus: self.online.clone(),
                    memory,
                    free: None,
                    hugepages: Vec::new(),
                    distances: Vec::new(),
                    accesses: Vec::new(),
                    memory_side_caches: Vec::new(),
                })
                .collect();
        }
        let home = |nodes: &[HwlocNode], cpu: CpuId| {
            let near = nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| node.locality.contains(cpu));
            near.min_by_key(|(_, node)| (node.locality.len(), node.node.id))
                .map(|(at, _)| at)
        };
        for cpu in &self.online {
            if let Some(at) = home(&nodes, cpu) {
                nodes[at].node.cpus.insert(cpu);
            }
        }
        nodes.into_iter().map(|node| node.node).collect()
    }
}

/// The pools of all page sizes but the smallest, in the order of the kernel's directory names.
fn hugepages(node: &XmlElement) -> Vec<HugePagePool> {
    let pages = node
        .children
        .iter()
        .filter(|child| child.name == "page_type");
    let mut pages: Vec<(u64, u64)> = pages
        .filter_map(|page| Some((page.number("size")?, page.number("count")?)))
        .collect();
    pages.sort_unstable();
    let mut pools: Vec<HugePagePool> = pages
        .into_iter()
        .skip(1)
        .map(|(size, count)| HugePagePool {
            size_kib: size / 1024,
            count,
            free: None,
        })
        .collect();
    pools.sort_by_key(|pool| pool.size_kib.to_string());
    pools
}

fn allowed(root: &XmlElement, online: &CpuSet, nodes: &[HardwareNode]) -> Option<CgroupLimits> {
    let cpus = cpu_mask(root.get("allowed_cpuset")?).ok()?;
    let allowed_nodes = node_mask(root.get("allowed_nodeset")?).ok()?;
    let all_cpus = online.is_subset(&cpus);
    let all_nodes = nodes.iter().all(|node| allowed_nodes.contains(&node.id));
    (!all_cpus || !all_nodes).then_some(CgroupLimits {
        by: CgroupKind::Reported,
        cpus: &cpus & online,
        nodes: allowed_nodes,
    })
}

/// The product name of the machine.
fn product(root: &XmlElement) -> String {
    let info = |name: &str| {
        let found = root
            .children
            .iter()
            .find(|info| info.get("name") == Some(name));
        found
            .and_then(|info| info.get("value"))
            .map(str::trim)
            .filter(|value| !value.is_empty())
    };
    let words = [
        info("DMISysVendor"),
        info("DMIProductName").or_else(|| info("PlatformModel")),
    ];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    excerpt(&words.join(" "))
}
