//! The [`Machine`] that cAdvisor reports to the kubelet.
//!
//! Mirrors `GetNodesInfo`, `getCoresInfo`, `addCacheInfo` and `getCPUTopology` of cAdvisor 0.56:
//!
//! - a core is the set of all online CPUs of one node with the same core id and package id, even if they are not
//!   siblings; a CPU without either id is not reported;
//! - a cache beyond level 2 is the core's "uncore" cache unless it is shared by exactly as many CPUs as the node has,
//!   which is computed as cores × threads of this core; the cache of the first thread *by name* ("cpu10" before "cpu9")
//!   counts;
//! - the first core with a cache that has no id or no size ends the search for caches in its node;
//! - the machine's CPUs are those that the nodes list; a kernel without nodes has one node per package, numbered by
//!   package id, without memory, and counts every CPU directory.
//!
//! cAdvisor lists nodes and cores by name; here they ascend by number. No decision of the kubelet depends on that
//! order, and distances are looked up by number.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::machine::{self, HugePages, Machine, MachineError, MachineParts};
use pinfold_core::node_set::NodeId;

use crate::hardware::{Hardware, HardwareCore, HardwareNode};
use crate::numa_id::NumaId;

/// Errors of building the kubelet's view of a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// A node's id does not fit into a node mask.
    #[error(
        "NUMA node {node} cannot be managed: hints name nodes 0 to 63; \
         nodes beyond that can be left out if they have no CPUs"
    )]
    NodeOutOfReach {
        /// The node.
        node: u32,
    },
    /// The parts are not a valid machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl Hardware {
    /// The machine exactly as cAdvisor reports it to the kubelet.
    ///
    /// # Errors
    /// If a node's id is above 63, or no CPU is left.
    pub fn machine(&self) -> Result<Machine, ViewError> {
        self.machine_with(|_| true)
    }

    /// The machine without the nodes that have no CPUs and an id above 63 (GPU memory on POWER9), and the ids of those
    /// nodes.
    ///
    /// # Errors
    /// If a node *with* CPUs has an id above 63, or no CPU is left.
    pub fn machine_within_reach(&self) -> Result<(Machine, Vec<NumaId>), ViewError> {
        let is_kept = |node: &HardwareNode| node.id.node_id().is_some() || !node.cpus.is_empty();
        let left_out = self
            .nodes
            .iter()
            .filter(|node| !is_kept(node))
            .map(|node| node.id);
        Ok((self.machine_with(is_kept)?, left_out.collect()))
    }

    fn machine_with(&self, is_kept: impl Fn(&HardwareNode) -> bool) -> Result<Machine, ViewError> {
        let view = CoreIndex::of(self);
        let nodes = if self.kernel_has_nodes {
            let kept: Vec<bool> = self.nodes.iter().map(is_kept).collect();
            let mut nodes = Vec::new();
            for (node, _) in self.nodes.iter().zip(&kept).filter(|&(_, &kept)| kept) {
                nodes.push(view.node(node, &kept)?);
            }
            nodes
        } else {
            view.packages_as_nodes()?
        };
        let threads = |node: &machine::NumaNode| -> usize {
            node.cores.iter().map(|core| core.threads.len()).sum()
        };
        let num_cpus = if self.kernel_has_nodes {
            nodes.iter().map(threads).sum()
        } else {
            self.cpus.online.len() + self.cpus.offline.len()
        };
        Ok(Machine::new(MachineParts {
            nodes,
            num_cpus,
            num_sockets: self.counted_sockets,
            offline: self.cpus.offline.clone(),
        })?)
    }
}

/// The cores of a machine, indexed by CPU.
struct CoreIndex<'a> {
    hardware: &'a Hardware,
    core_of: BTreeMap<CpuId, &'a HardwareCore>,
}

/// One core as cAdvisor reports it.
struct CadvisorCore<'a> {
    core: &'a HardwareCore,
    /// Its threads, in the order of their names.
    threads: Vec<CpuId>,
    l3: Option<u32>,
}

impl<'a> CoreIndex<'a> {
    fn of(hardware: &'a Hardware) -> Self {
        let cores = hardware.cores.iter();
        let core_of = cores.flat_map(|core| core.cpus.iter().map(move |cpu| (cpu, core)));
        Self {
            hardware,
            core_of: core_of.collect(),
        }
    }

    fn node(&self, node: &HardwareNode, kept: &[bool]) -> Result<machine::NumaNode, ViewError> {
        let out_of_reach = ViewError::NodeOutOfReach {
            node: node.id.get(),
        };
        let columns = node.distances.iter().zip(kept);
        Ok(machine::NumaNode {
            id: node.id.node_id().ok_or(out_of_reach)?,
            memory: node.memory,
            hugepages: node
                .hugepages
                .iter()
                .map(|pool| HugePages {
                    size_kib: pool.size_kib,
                    count: pool.count,
                })
                .collect(),
            distances: columns
                .filter(|&(_, &kept)| kept)
                .map(|(&d, _)| d)
                .collect(),
            cores: self.cores(&node.cpus),
        })
    }

    fn packages_as_nodes(&self) -> Result<Vec<machine::NumaNode>, ViewError> {
        let mut packages = BTreeMap::<u32, CpuSet>::new();
        for core in &self.hardware.cores {
            if let Some(id) = core.package_id {
                *packages.entry(socket_id(id)).or_default() |= &core.cpus;
            }
        }
        packages
            .into_iter()
            .map(|(package, cpus)| {
                let out_of_reach = ViewError::NodeOutOfReach { node: package };
                Ok(machine::NumaNode {
                    id: NodeId::new(i64::from(package)).map_err(|_| out_of_reach)?,
                    memory: 0,
                    hugepages: Vec::new(),
                    distances: Vec::new(),
                    cores: self.cores(&cpus),
                })
            })
            .collect()
    }

    fn cores(&self, cpus: &CpuSet) -> Vec<machine::Core> {
        let mut by_name: Vec<CpuId> = cpus.iter().collect();
        by_name.sort_by_key(ToString::to_string);
        let mut seen = Vec::<CadvisorCore<'_>>::new();
        let mut positions = BTreeMap::new();
        for cpu in by_name {
            let Some(&core) = self.core_of.get(&cpu) else {
                continue;
            };
            let (Some(core_id), Some(package_id)) = (core.core_id, core.package_id) else {
                continue;
            };
            let at = *positions.entry((core_id, package_id)).or_insert_with(|| {
                seen.push(CadvisorCore {
                    core,
                    threads: Vec::new(),
                    l3: None,
                });
                seen.len() - 1
            });
            seen[at].threads.push(cpu);
        }
        self.find_uncore_caches(&mut seen);
        let mut cores: Vec<machine::Core> = seen.into_iter().map(CadvisorCore::into_core).collect();
        cores.sort_by(|a, b| a.threads.cmp(&b.threads));
        cores
    }

    fn find_uncore_caches(&self, cores: &mut [CadvisorCore<'_>]) {
        let num_cores = cores.len();
        for seen in cores {
            let Some(&asked) = seen.threads.first() else {
                continue;
            };
            let all = || {
                let caches = self.hardware.caches.iter();
                caches.filter(|cache| cache.cpus.contains(asked))
            };
            let complete = all().all(|cache| cache.id.is_some() && cache.size.is_some());
            if !complete || all().next().is_none() {
                return;
            }
            let whole_node = num_cores * seen.threads.len();
            let mut uncore =
                all().filter(|cache| cache.level > 2 && cache.cpus.len() != whole_node);
            seen.l3 = uncore.next().and_then(|cache| cache.id);
        }
    }
}

impl CadvisorCore<'_> {
    fn into_core(mut self) -> machine::Core {
        self.threads.sort_unstable();
        machine::Core {
            id: socket_id(self.core.core_id.unwrap_or(0)),
            socket: socket_id(self.core.package_id.unwrap_or(0)),
            die: self.core.die,
            l3: self.l3,
            threads: self.threads,
        }
    }
}

/// The socket's id as an unsigned number. A kernel that does not know package ids prints -1 for all: one socket.
fn socket_id(id: i32) -> u32 {
    u32::try_from(id).unwrap_or(0)
}
