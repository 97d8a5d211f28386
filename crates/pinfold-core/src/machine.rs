//! [`Machine`]: an immutable description of the hardware.
//!
//! ```text
//! Machine
//! ├── socket 0
//! │   ├── NUMA node 0 ── memory, hugepages, distances to every node
//! │   │   └── L3 cache 0 ── core 0 (CPU 0, CPU 8) ── core 1 (CPU 1, CPU 9)
//! │   └── NUMA node 1 ...
//! └── NUMA node 4: memory only, no socket
//! ```
//!
//! The shape is the one that cAdvisor reports to the kubelet: NUMA nodes in machine order, each with its cores, each
//! with its threads. [`cpus::CpuTopology`] is what the CPU manager derives from it.

use serde::{Deserialize, Serialize};

use crate::cpu_set::{CpuId, CpuSet};
use crate::node_set::{NodeId, NodeSet};

pub(crate) mod cpu_levels;
pub mod cpus;

/// An immutable description of one machine. [`Machine::new`] validates it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "MachineParts", into = "MachineParts")]
pub struct Machine {
    parts: MachineParts,
    node_ids: NodeSet,
    online: CpuSet,
}

/// The fields of a [`Machine`] before they are validated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineParts {
    /// NUMA nodes in the order in which the kernel (and cAdvisor) lists them.
    pub nodes: Vec<NumaNode>,
    /// The reported number of CPUs. The kubelet uses this number for its quotients even when it differs from the
    /// threads listed.
    pub num_cpus: usize,
    /// The reported number of sockets.
    pub num_sockets: usize,
    /// CPUs that exist but are offline; they belong to no core here.
    #[serde(default)]
    pub offline: CpuSet,
}

/// One NUMA node: CPUs, memory, both, or (for some accelerators) neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The kernel's ID; IDs may have gaps.
    pub id: NodeId,
    /// Memory in bytes.
    pub memory: u64,
    /// Preallocated huge pages, one entry per page size.
    #[serde(default)]
    pub hugepages: Vec<HugePages>,
    /// Firmware distances, one per node **in machine order** (index, not ID). Empty if unknown.
    #[serde(default)]
    pub distances: Vec<u32>,
    /// Cores in the order cAdvisor lists them.
    #[serde(default)]
    pub cores: Vec<Core>,
}

/// Huge pages of one size on one NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Size of one page in KiB.
    pub size_kib: u64,
    /// The number of pages.
    pub count: u64,
}

/// One physical core and its hardware threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// The kernel's core ID, unique only inside its socket.
    pub id: u32,
    /// The socket (physical package).
    pub socket: u32,
    /// The die inside the socket, if the kernel reports it.
    #[serde(default)]
    pub die: Option<u32>,
    /// The last-level (L3, "uncore") cache, if the kernel reports it.
    #[serde(default)]
    pub l3: Option<u32>,
    /// Online hardware threads.
    pub threads: Vec<CpuId>,
}

/// The shape of a machine of equal parts, for [`Machine::uniform`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniformMachine {
    /// Sockets.
    pub sockets: u32,
    /// NUMA nodes of each socket.
    pub nodes_per_socket: u32,
    /// Cores of each NUMA node.
    pub cores_per_node: u32,
    /// Hardware threads of each core.
    pub threads_per_core: u32,
    /// Bytes of memory of each NUMA node.
    pub memory_per_node: u64,
}

/// Why a description of a machine is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// No CPUs.
    #[error("could not detect number of cpus")]
    NoCpus,
    /// More CPUs or NUMA nodes than can be numbered.
    #[error("a machine of {0:?} has too many CPUs or NUMA nodes")]
    TooLarge(UniformMachine),
    /// Two NUMA nodes with the same ID.
    #[error("NUMA node {0} is listed twice")]
    DuplicateNode(NodeId),
    /// A core without threads.
    #[error("core {core} of NUMA node {node} has no CPU")]
    EmptyCore {
        /// The NUMA node of the core.
        node: NodeId,
        /// Its kernel ID.
        core: u32,
    },
    /// A core that lists one CPU twice.
    #[error("core {core} of NUMA node {node} lists CPU {cpu} twice")]
    DuplicateCpu {
        /// The NUMA node of the core.
        node: NodeId,
        /// Its kernel ID.
        core: u32,
        /// The CPU.
        cpu: CpuId,
    },
    /// A distance row of the wrong length.
    #[error("NUMA node {node} has {found} distances, expected {expected} (one per node) or none")]
    Distances {
        /// The NUMA node of the row.
        node: NodeId,
        /// Its length.
        found: usize,
        /// The number of nodes.
        expected: usize,
    },
}

impl Machine {
    /// Validates the parts and derives the ID sets.
    ///
    /// # Errors
    /// If the parts contradict each other; see [`MachineError`].
    pub fn new(parts: MachineParts) -> Result<Self, MachineError> {
        if parts.num_cpus == 0 {
            return Err(MachineError::NoCpus);
        }
        let mut node_ids = NodeSet::EMPTY;
        let mut online = CpuSet::new();
        for node in &parts.nodes {
            if node_ids.contains(node.id) {
                return Err(MachineError::DuplicateNode(node.id));
            }
            node_ids.insert(node.id);
            let (found, expected) = (node.distances.len(), parts.nodes.len());
            if found != 0 && found != expected {
                return Err(MachineError::Distances {
                    node: node.id,
                    found,
                    expected,
                });
            }
            for core in &node.cores {
                let (node, id) = (node.id, core.id);
                if core.threads.is_empty() {
                    return Err(MachineError::EmptyCore { node, core: id });
                }
                let mut threads = CpuSet::new();
                for &cpu in &core.threads {
                    if !threads.insert(cpu) {
                        return Err(MachineError::DuplicateCpu {
                            node,
                            core: id,
                            cpu,
                        });
                    }
                }
                online |= &threads;
            }
        }
        Ok(Self {
            parts,
            node_ids,
            online,
        })
    }

    /// A machine of equal parts. CPUs are numbered as Linux does: the first threads of all cores, then the second ones.
    ///
    /// # Errors
    /// If it has no CPU, or more CPUs or NUMA nodes than can be numbered.
    pub fn uniform(shape: UniformMachine) -> Result<Self, MachineError> {
        let UniformMachine {
            sockets,
            nodes_per_socket,
            cores_per_node,
            threads_per_core,
            memory_per_node,
        } = shape;
        let too_large = || MachineError::TooLarge(shape);
        let nodes = sockets.checked_mul(nodes_per_socket);
        let nodes = nodes.ok_or_else(too_large)?;
        let cores = nodes.checked_mul(cores_per_node).ok_or_else(too_large)?;
        let cpus = cores.checked_mul(threads_per_core);
        let cpus = cpus
            .filter(|&cpus| cpus <= CpuId::LIMIT)
            .ok_or_else(too_large)?;
        let core = |socket: u32, core: u32| Core {
            id: core,
            socket,
            die: None,
            l3: None,
            threads: (0..threads_per_core)
                .filter_map(|thread| CpuId::new(thread * cores + core))
                .collect(),
        };
        let node = |node: u32| {
            let first = node * cores_per_node;
            Ok(NumaNode {
                id: NodeId::new(i64::from(node)).map_err(|_| too_large())?,
                memory: memory_per_node,
                hugepages: Vec::new(),
                distances: Vec::new(),
                cores: (first..first + cores_per_node)
                    .map(|id| core(node / nodes_per_socket, id))
                    .collect(),
            })
        };
        Machine::new(MachineParts {
            nodes: (0..nodes).map(node).collect::<Result<_, _>>()?,
            num_cpus: cpus as usize,
            num_sockets: sockets as usize,
            offline: CpuSet::new(),
        })
    }

    /// NUMA nodes in machine order.
    #[must_use]
    pub fn nodes(&self) -> &[NumaNode] {
        &self.parts.nodes
    }

    /// The node with this ID.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NumaNode> {
        self.parts.nodes.iter().find(|node| node.id == id)
    }

    /// All NUMA node IDs, with or without CPUs or memory.
    #[must_use]
    pub fn node_ids(&self) -> NodeSet {
        self.node_ids
    }

    /// All online CPUs.
    #[must_use]
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// CPUs that exist but are offline.
    #[must_use]
    pub fn offline(&self) -> &CpuSet {
        &self.parts.offline
    }

    /// The parts it was made of, for deriving another machine from it.
    #[must_use]
    pub fn parts(&self) -> &MachineParts {
        &self.parts
    }
}

impl TryFrom<MachineParts> for Machine {
    type Error = MachineError;

    fn try_from(parts: MachineParts) -> Result<Self, Self::Error> {
        Machine::new(parts)
    }
}

impl From<Machine> for MachineParts {
    fn from(machine: Machine) -> Self {
        machine.parts
    }
}
