//! The formats of the memory file as Go types. Names and order of the fields affect the checksum.

use crate::go::record::{dump_of_pointer, go_named, go_struct};
use crate::go::value::{GoKey, GoValue, Map, Pointer, Slice};
use crate::state::Checksum;

/// The printed type name of all formats, from before formats had numbers.
const TYPE_NAME: &str = "state.MemoryManagerCheckpoint";

go_named! {
    /// The checksum of the other fields.
    struct MemoryChecksumField(u64) = "checksum.Checksum"
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
    struct MemoryTable = "state"."MemoryTable" {
        total: u64 = "TotalMemSize" "total",
        system_reserved: u64 = "SystemReserved" "systemReserved",
        allocatable: u64 = "Allocatable" "allocatable",
        reserved: u64 = "Reserved" "reserved",
        free: u64 = "Free" "free",
    }
}

go_struct! {
    /// One NUMA node.
    struct NumaNodeState = "state"."NUMANodeState" {
        assignments: i64 = "NumberOfAssignments" "numberOfAssignments",
        memory: Map<MemoryKind, Pointer<MemoryTable>> = "MemoryMap" "memoryMap",
        cells: Slice<i64> = "Cells" "cells",
    }
}

go_named! {
    /// The NUMA nodes.
    struct NodeMap(Map<i64, Pointer<NumaNodeState>>) = "state.NUMANodeMap"
}

go_struct! {
    /// Memory assigned to one container or pod.
    struct FileBlock = "state"."Block" {
        nodes: Slice<i64> = "NUMAAffinity" "numaAffinity",
        kind: MemoryKind = "Type" "type",
        size: u64 = "Size" "size",
    }
}

go_named! {
    /// Blocks by pod and container.
    struct ContainerEntries(Map<String, Map<String, Slice<FileBlock>>>) = "state.ContainerMemoryAssignments"
}

go_struct! {
    /// Blocks of one pod.
    struct MemoryPodEntry = "state"."PodEntry" {
        blocks: Slice<FileBlock> = "MemoryBlocks" "memoryBlocks" omitempty,
    }
}

go_named! {
    /// Blocks by pod.
    struct MemoryPodEntries(Map<String, MemoryPodEntry>) = "state.PodMemoryAssignments"
}

go_struct! {
    /// Container entries only.
    struct MemoryFormat1 = "state"."MemoryManagerCheckpointV1" {
        policy_name: String = "PolicyName" "policyName",
        nodes: NodeMap = "MachineState" "machineState",
        entries: ContainerEntries = "Entries" "entries" omitempty,
        checksum: MemoryChecksumField = "Checksum" "checksum",
    }
}

go_struct! {
    /// Pod entries and container entries.
    struct MemoryFormat2 = "state"."MemoryManagerCheckpoint" {
        policy_name: String = "PolicyName" "policyName",
        nodes: NodeMap = "MachineState" "machineState",
        entries: ContainerEntries = "Entries" "entries" omitempty,
        pod_entries: MemoryPodEntries = "PodEntries" "podEntries" omitempty,
        checksum: MemoryChecksumField = "Checksum" "checksum",
    }
}

/// The fields that the formats have in common, without the checksum.
pub(super) struct MemoryCheckpointContent {
    pub(super) policy_name: String,
    pub(super) nodes: NodeMap,
    pub(super) entries: ContainerEntries,
    pub(super) pod_entries: MemoryPodEntries,
}

impl MemoryFormat1 {
    /// The value that the kubelet decodes into.
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

    /// The checksum with the format number in the type name.
    pub(super) fn numbered_checksum(&self) -> Checksum {
        self.checksum_under(&Self::type_name())
    }

    fn checksum_under(&self, name: &str) -> Checksum {
        let cleared = Self {
            checksum: MemoryChecksumField(0),
            ..self.clone()
        };
        Checksum {
            stored: self.checksum.0,
            text: dump_of_pointer(&cleared, name),
        }
    }
}

impl MemoryFormat2 {
    /// The value that the kubelet decodes into.
    pub(super) fn new() -> Self {
        Self {
            nodes: NodeMap(Map::empty()),
            entries: ContainerEntries(Map::empty()),
            pod_entries: MemoryPodEntries(Map::empty()),
            ..Self::default()
        }
    }

    pub(super) fn checksum(&self) -> Checksum {
        let cleared = Self {
            checksum: MemoryChecksumField(0),
            ..self.clone()
        };
        Checksum {
            stored: self.checksum.0,
            text: dump_of_pointer(&cleared, TYPE_NAME),
        }
    }
}

impl From<MemoryFormat1> for MemoryCheckpointContent {
    fn from(file: MemoryFormat1) -> Self {
        Self {
            policy_name: file.policy_name,
            nodes: file.nodes,
            entries: file.entries,
            pod_entries: MemoryPodEntries(Map::empty()),
        }
    }
}

impl From<MemoryFormat2> for MemoryCheckpointContent {
    fn from(file: MemoryFormat2) -> Self {
        Self {
            policy_name: file.policy_name,
            nodes: file.nodes,
            entries: file.entries,
            pod_entries: file.pod_entries,
        }
    }
}

impl From<MemoryCheckpointContent> for MemoryFormat1 {
    fn from(content: MemoryCheckpointContent) -> Self {
        Self {
            policy_name: content.policy_name,
            nodes: content.nodes,
            entries: content.entries,
            checksum: MemoryChecksumField(0),
        }
    }
}

impl From<MemoryCheckpointContent> for MemoryFormat2 {
    fn from(content: MemoryCheckpointContent) -> Self {
        Self {
            policy_name: content.policy_name,
            nodes: content.nodes,
            entries: content.entries,
            pod_entries: content.pod_entries,
            checksum: MemoryChecksumField(0),
        }
    }
}
