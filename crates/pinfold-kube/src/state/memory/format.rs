//! The memory file's formats as Go types. Names and order of the fields are part of the checksum.

use crate::go::record::{dump_of_pointer, go_named, go_struct};
use crate::go::value::{GoKey, GoValue, Map, Pointer, Slice};
use crate::state::Checksum;

/// The name of every format's type before formats had numbers.
const TYPE_NAME: &str = "state.MemoryManagerCheckpoint";

go_named! {
    /// The number that protects the rest.
    struct ChecksumField(u64) = "checksum.Checksum"
}

go_named! {
    /// `memory` or `hugepages-<size>`.
    struct MemoryKind(String) = "v1.ResourceName"
}

impl GoKey for MemoryKind {
    fn from_name(name: &str) -> Option<Self> {
        Some(Self(name.to_owned()))
    }

    fn name(&self) -> String {
        self.0.clone()
    }
}

go_struct! {
    /// One kind of memory of one node.
    struct Table = "state"."MemoryTable" {
        total: u64 = "TotalMemSize" "total",
        system_reserved: u64 = "SystemReserved" "systemReserved",
        allocatable: u64 = "Allocatable" "allocatable",
        reserved: u64 = "Reserved" "reserved",
        free: u64 = "Free" "free",
    }
}

go_struct! {
    /// One NUMA node.
    struct NodeState = "state"."NUMANodeState" {
        assignments: i64 = "NumberOfAssignments" "numberOfAssignments",
        memory: Map<MemoryKind, Pointer<Table>> = "MemoryMap" "memoryMap",
        cells: Slice<i64> = "Cells" "cells",
    }
}

go_named! {
    /// The NUMA nodes.
    struct NodeMap(Map<i64, Pointer<NodeState>>) = "state.NUMANodeMap"
}

go_struct! {
    /// Memory given to one container or pod.
    struct Block = "state"."Block" {
        nodes: Slice<i64> = "NUMAAffinity" "numaAffinity",
        kind: MemoryKind = "Type" "type",
        size: u64 = "Size" "size",
    }
}

go_named! {
    /// Blocks by pod and container.
    struct ContainerEntries(Map<String, Map<String, Slice<Block>>>) = "state.ContainerMemoryAssignments"
}

go_struct! {
    /// Blocks of one pod.
    struct PodEntry = "state"."PodEntry" {
        blocks: Slice<Block> = "MemoryBlocks" "memoryBlocks" omitempty,
    }
}

go_named! {
    /// Blocks by pod.
    struct PodEntries(Map<String, PodEntry>) = "state.PodMemoryAssignments"
}

go_struct! {
    /// Container entries only.
    struct Format1 = "state"."MemoryManagerCheckpointV1" {
        policy_name: String = "PolicyName" "policyName",
        nodes: NodeMap = "MachineState" "machineState",
        entries: ContainerEntries = "Entries" "entries" omitempty,
        checksum: ChecksumField = "Checksum" "checksum",
    }
}

go_struct! {
    /// Pod entries beside container entries.
    struct Format2 = "state"."MemoryManagerCheckpoint" {
        policy_name: String = "PolicyName" "policyName",
        nodes: NodeMap = "MachineState" "machineState",
        entries: ContainerEntries = "Entries" "entries" omitempty,
        pod_entries: PodEntries = "PodEntries" "podEntries" omitempty,
        checksum: ChecksumField = "Checksum" "checksum",
    }
}

/// What the formats have in common, without the checksum.
pub(super) struct Content {
    pub(super) policy_name: String,
    pub(super) nodes: NodeMap,
    pub(super) entries: ContainerEntries,
    pub(super) pod_entries: PodEntries,
}

impl Format1 {
    /// As the kubelet prepares it for reading.
    pub(super) fn new() -> Self {
        Self {
            nodes: NodeMap(Map::empty()),
            entries: ContainerEntries(Map::empty()),
            ..Self::default()
        }
    }

    pub(super) fn checksum(&self) -> Checksum {
        self.checksum_under(TYPE_NAME)
    }

    /// The checksum with the number of the format in the type name.
    pub(super) fn numbered_checksum(&self) -> Checksum {
        self.checksum_under(&Self::type_name())
    }

    fn checksum_under(&self, name: &str) -> Checksum {
        let cleared = Self {
            checksum: ChecksumField(0),
            ..self.clone()
        };
        Checksum {
            stored: self.checksum.0,
            text: dump_of_pointer(&cleared, name),
        }
    }
}

impl Format2 {
    /// As the kubelet prepares it for reading.
    pub(super) fn new() -> Self {
        Self {
            nodes: NodeMap(Map::empty()),
            entries: ContainerEntries(Map::empty()),
            pod_entries: PodEntries(Map::empty()),
            ..Self::default()
        }
    }

    pub(super) fn checksum(&self) -> Checksum {
        let cleared = Self {
            checksum: ChecksumField(0),
            ..self.clone()
        };
        Checksum {
            stored: self.checksum.0,
            text: dump_of_pointer(&cleared, TYPE_NAME),
        }
    }
}

impl From<Format1> for Content {
    fn from(file: Format1) -> Self {
        Self {
            policy_name: file.policy_name,
            nodes: file.nodes,
            entries: file.entries,
            pod_entries: PodEntries(Map::empty()),
        }
    }
}

impl From<Format2> for Content {
    fn from(file: Format2) -> Self {
        Self {
            policy_name: file.policy_name,
            nodes: file.nodes,
            entries: file.entries,
            pod_entries: file.pod_entries,
        }
    }
}

impl From<Content> for Format1 {
    fn from(content: Content) -> Self {
        Self {
            policy_name: content.policy_name,
            nodes: content.nodes,
            entries: content.entries,
            checksum: ChecksumField(0),
        }
    }
}

impl From<Content> for Format2 {
    fn from(content: Content) -> Self {
        Self {
            policy_name: content.policy_name,
            nodes: content.nodes,
            entries: content.entries,
            pod_entries: content.pod_entries,
            checksum: ChecksumField(0),
        }
    }
}
