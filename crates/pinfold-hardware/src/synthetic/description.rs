//! [`MachineDescription`]: a description after reading, before building.

use std::ops::Range;

use pinfold_core::cpu_set::CpuSet;

use crate::numa_id::NumaId;
use crate::pci::PciKind;

/// What a machine is made of, from the largest part to the smallest.
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
    /// The words that mean a level; the first of each is its name.
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

    /// The level a word means.
    pub(super) fn of(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|&(_, level)| level)
    }

    /// Its name in messages.
    pub(super) fn name(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, level)| *level == self);
        found.map_or("level", |&(name, _)| name)
    }

    /// Levels of one rank may nest either way.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Socket => 0,
            Self::Die | Self::Numa | Self::L3 => 1,
            Self::Core => 2,
            Self::Thread => 3,
        }
    }
}

/// How CPU numbers are dealt out.
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
    /// To itself, inside the socket, to another socket.
    Rule([u32; 3]),
    /// Every row.
    Matrix(Vec<Vec<u32>>),
}

/// What a per-node option sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeOption {
    /// Memory in bytes.
    Memory(u64),
    /// Huge pages of a size in KiB.
    HugePages { size_kib: u64, count: u64 },
    /// PCI devices.
    Devices { kind: PciKind, count: u32 },
}

/// A value and the part of the description that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spanned<T> {
    pub(super) value: T,
    pub(super) place: Range<usize>,
}

/// A per-node option: what, and where (`None`: on every node with CPUs).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PerNodeOption {
    pub(super) stock: NodeOption,
    pub(super) nodes: Option<Vec<NumaId>>,
}

/// Nodes without CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpuless {
    pub(super) nodes: Vec<NumaId>,
    pub(super) nearest: Option<NumaId>,
}

/// A description after reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MachineDescription {
    /// Nested, largest first; socket, NUMA node, core and thread are always there.
    pub(super) levels: Vec<(TopologyLevel, u32)>,
    pub(super) numbering: Option<Numbering>,
    pub(super) distances: Option<Spanned<NodeDistances>>,
    pub(super) cpuless_distances: Option<[u32; 3]>,
    pub(super) node_ids: Option<Spanned<Vec<NumaId>>>,
    pub(super) cpuless: Vec<Spanned<Cpuless>>,
    pub(super) grants: Vec<Spanned<PerNodeOption>>,
    pub(super) offline: Option<Spanned<CpuSet>>,
    pub(super) isolated: Option<Spanned<CpuSet>>,
}

impl MachineDescription {
    /// Whether a level is there.
    pub(super) fn has(&self, level: TopologyLevel) -> bool {
        self.levels.iter().any(|&(known, _)| known == level)
    }

    /// How many of a level are in one of the level that holds it; 1 if it is not there.
    pub(super) fn count(&self, level: TopologyLevel) -> usize {
        let found = self.levels.iter().find(|&&(known, _)| known == level);
        found.map_or(1, |&(_, count)| count as usize)
    }

    /// How many cores are in one of a level.
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

    /// How many cores there are.
    pub(super) fn cores(&self) -> usize {
        self.count(TopologyLevel::Socket) * self.cores_in(TopologyLevel::Socket)
    }
}
