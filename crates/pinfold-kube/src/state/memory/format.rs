//! The formats of the memory file as one Go type. Names and order of the fields affect the checksum.

use pinfold_core::memory::MemoryAmounts;

use super::MemoryStateFormat;
use crate::go::record::{dump_of_pointer, go_named, go_struct};
use crate::go::value::{GoValue, Map, Pointer, Slice, unmarshal};
use crate::state::checkpoint::{Checkpoint, ChecksumField};

go_named! {
    /// `memory` or `hugepages-<size>`.
    key struct MemoryKind(String) = "v1.ResourceName"
}

go_struct! {
    impl MemoryAmounts = "state"."MemoryTable" {
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
        memory: Map<MemoryKind, Pointer<MemoryAmounts>> = "MemoryMap" "memoryMap",
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
    /// The file; in format 1 it has no pod entries.
    struct MemoryCheckpoint = "state"."MemoryManagerCheckpoint" {
        policy_name: String = "PolicyName" "policyName",
        nodes: NodeMap = "MachineState" "machineState",
        entries: ContainerEntries = "Entries" "entries" omitempty,
        pod_entries: Option<MemoryPodEntries> = "PodEntries" "podEntries" omitempty,
        checksum: ChecksumField = "Checksum" "checksum",
    }
}

impl MemoryStateFormat {
    /// The name of its Go type.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            MemoryStateFormat::V1 => "state.MemoryManagerCheckpointV1",
            MemoryStateFormat::V2 => "state.MemoryManagerCheckpoint",
        }
    }
}

impl MemoryCheckpoint {
    /// The file decoded in this format, as far as it could be, and the error.
    pub(super) fn decoded(bytes: &[u8], format: MemoryStateFormat) -> (Self, Result<(), String>) {
        let has_pods = format == MemoryStateFormat::V2;
        let mut file = Self {
            nodes: NodeMap(Map::empty()),
            entries: ContainerEntries(Map::empty()),
            pod_entries: has_pods.then(|| MemoryPodEntries(Map::empty())),
            ..Self::default()
        };
        let read = unmarshal(bytes, &mut file, format.type_name());
        (file, read)
    }
}

impl Checkpoint for MemoryCheckpoint {
    fn checksum_field(&mut self) -> &mut ChecksumField {
        &mut self.checksum
    }

    /// Both formats are printed under the name from before formats had numbers.
    fn hashed_text(&self) -> String {
        dump_of_pointer(self, &Self::type_name())
    }
}
