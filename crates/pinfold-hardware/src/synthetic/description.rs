//! [`MachineDescription`]: a parsed description.

use std::ops::Range;

use pinfold_core::cpu_set::CpuSet;

use crate::numa_id::NumaId;
use crate::pci::PciKind;

/// The levels of a machine, from the largest to the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TopologyLevel {
    Socket,
    Die,
    Numa,
    L3,
    Core,
    Thread,
}

impl TopologyLevel {
    /// The words for each level; the first of each is its name.
    pub(super) const WORDS: [(&'static str, TopologyLevel); 18] = [
        ("sockets", TopologyLevel::Socket),
        ("socket", TopologyLevel::Socket),
        ("package", TopologyLevel::Socket),
        ("packages", TopologyLevel::Socket),
        ("pack", TopologyLevel::Socket),
        ("dies", TopologyLevel::Die),
        ("die", TopologyLevel::Die),
        ("numa", TopologyLevel::Numa),
        ("node", TopologyLevel::Numa),
        ("nodes", TopologyLevel::Numa),
        ("l3", TopologyLevel::L3),
        ("cache", TopologyLevel::L3),
        ("caches", TopologyLevel::L3),
        ("cores", TopologyLevel::Core),
        ("core", TopologyLevel::Core),
        ("threads", TopologyLevel::Thread),
        ("thread", TopologyLevel::Thread),
        ("pu", TopologyLevel::Thread),
    ];

    /// The level of a word.
    pub(super) fn of(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|&(_, level)| level)
    }

    /// Its name in messages.
    pub(super) fn name(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, level)| *level == self);
        found.map_or("level", |&(name, _)| name)
    }

    /// The nesting rank; levels of the same rank may nest either way.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Socket => 0,
            Self::Die | Self::Numa | Self::L3 => 1,
            Self::Core => 2,
            Self::Thread => 3,
        }
    }
}

/// How CPUs are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Numbering {
    #[default]
    Split,
    Adjacent,
    Interleaved,
}

/// Distances between the nodes with CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeDistances {
    /// To itself, within the socket, to another socket.
    Rule([u32; 3]),
    /// The full matrix.
    Matrix(Vec<Vec<u32>>),
}

/// The value of a per-node option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeOption {
    /// Memory in bytes.
    Memory(u64),
    /// Huge pages of a size in KiB, and their number.
    HugePages { size_kib: u64, count: u64 },
    /// PCI devices of a kind, and their number.
    Devices { kind: PciKind, count: u32 },
}

/// A value and its position in the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spanned<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// A per-node option and its nodes (`None`: every node with CPUs).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PerNodeOption {
    pub(super) option: NodeOption,
    pub(super) nodes: Option<Vec<NumaId>>,
}

/// Nodes without CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpuless {
    pub(super) nodes: Vec<NumaId>,
    pub(super) nearest: Option<NumaId>,
}

/// A parsed description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MachineDescription {
    /// Nested, largest first; always with socket, NUMA node, core and thread.
    pub(super) levels: Vec<(TopologyLevel, u32)>,
    pub(super) numbering: Option<Numbering>,
    pub(super) distances: Option<Spanned<NodeDistances>>,
    pub(super) cpuless_distances: Option<[u32; 3]>,
    pub(super) node_ids: Option<Spanned<Vec<NumaId>>>,
    pub(super) cpuless: Vec<Spanned<Cpuless>>,
    pub(super) node_options: Vec<Spanned<PerNodeOption>>,
    pub(super) offline: Option<Spanned<CpuSet>>,
    pub(super) isolated: Option<Spanned<CpuSet>>,
}

impl MachineDescription {
    /// Whether the description has a level.
    pub(super) fn has(&self, level: TopologyLevel) -> bool {
        self.levels.iter().any(|&(known, _)| known == level)
    }

    /// The number of parts of a level in one part of the enclosing level; 1 if the description does not have the level.
    pub(super) fn count(&self, level: TopologyLevel) -> usize {
        let found = self.levels.iter().find(|&&(known, _)| known == level);
        found.map_or(1, |&(_, count)| count as usize)
    }

    /// The number of cores in one part of a level.
    pub(super) fn cores_in(&self, level: TopologyLevel) -> usize {
        let inner = self
            .levels
            .iter()
            .skip_while(|&&(known, _)| known != level)
            .skip(1);
        inner
            .filter(|&&(known, _)| known != TopologyLevel::Thread)
            .map(|&(_, count)| count as usize)
            .product()
    }

    /// The number of cores.
    pub(super) fn cores(&self) -> usize {
        self.count(TopologyLevel::Socket) * self.cores_in(TopologyLevel::Socket)
    }
}
