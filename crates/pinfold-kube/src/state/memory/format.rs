//! The formats of the memory file as one Go type. Names and order of the fields affect the checksum.

use pinfold_core::memory::MemoryAmounts;

use super::MemoryStateFormat;
use crate::go::record::{dump_of_pointer, go_named, go_struct};
use crate::go::value::{GoValue, Map, Pointer, Slice, unmarshal};
use crate::state::checkpoint::{Checkpoint, ChecksumField};
use crate::state::{Checksum, Fault};

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
    /// The file; a field that its format does not have is `None`.
    struct MemoryCheckpoint = "state"."MemoryManagerCheckpoint" {
        policy_name: String = "PolicyName" "policyName",
        nodes: NodeMap = "MachineState" "machineState",
        entries: ContainerEntries = "Entries" "entries" omitempty,
        pod_entries: Option<MemoryPodEntries> = "PodEntries" "podEntries" omitempty,
        checksum: Option<ChecksumField> = "Checksum" "checksum",
        data: Option<String> = "Data" "data",
        data_checksum: Option<ChecksumField> = "DataChecksum" "dataChecksum",
    }
}

impl MemoryStateFormat {
    /// The name of its Go type.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            MemoryStateFormat::V1 => "state.MemoryManagerCheckpointV1",
            MemoryStateFormat::V2 | MemoryStateFormat::V3 => "state.MemoryManagerCheckpoint",
        }
    }
}

impl MemoryCheckpoint {
    /// The value that the kubelet decodes a file of this format into.
    fn new(format: MemoryStateFormat) -> Self {
        let has_copy = format == MemoryStateFormat::V3;
        Self {
            nodes: NodeMap(Map::empty()),
            entries: ContainerEntries(Map::empty()),
            pod_entries: (format == MemoryStateFormat::V2).then(|| MemoryPodEntries(Map::empty())),
            checksum: Some(ChecksumField(0)),
            data: has_copy.then(String::new),
            data_checksum: has_copy.then(ChecksumField::default),
            ..Self::default()
        }
    }

    /// The file decoded in this format, as far as it could be, and the error.
    pub(super) fn decoded(bytes: &[u8], format: MemoryStateFormat) -> (Self, Result<(), String>) {
        Self::decoded_as(bytes, format, format.type_name())
    }

    /// The same where the Go type of the format has this name, for messages.
    pub(super) fn decoded_as(
        bytes: &[u8],
        format: MemoryStateFormat,
        type_name: &'static str,
    ) -> (Self, Result<(), String>) {
        let mut file = Self::new(format);
        let read = unmarshal(bytes, &mut file, type_name);
        (file, read)
    }

    /// The content of a file of format 3, from its checked copy; `None` if it has an older format.
    pub(super) fn of_format3(bytes: &[u8]) -> Result<Option<Self>, Fault> {
        let (file, read) = Self::decoded(bytes, MemoryStateFormat::V3);
        let checksum = file.data_checksum();
        let text = file.data.unwrap_or_default();
        if text.is_empty() && checksum.stored == 0 {
            return Ok(None);
        }
        let mut copy = Self::new(MemoryStateFormat::V2).into_copy();
        let failed = |what| {
            move |error| format!("failed to deserialize memory manager checkpoint{what}: {error}")
        };
        read.map_err(failed(""))
            .and_then(|()| {
                unmarshal(
                    text.as_bytes(),
                    &mut copy,
                    "state.MemoryManagerCheckpointData",
                )
                .map_err(failed(" data"))
            })
            .map_err(Fault::Json)
            .and_then(|()| checksum.verify())
            .map_err(|fault| Fault::Format3(Box::new(fault)))?;
        Ok(Some(copy))
    }

    /// The file of format 3 for this content: format 1 for older kubelets, and all fields once more as text.
    pub(super) fn write_format3(content: Self) -> String {
        let mut text = String::new();
        content.clone().into_copy().encode(&mut text);
        let mut file = Self {
            pod_entries: None,
            ..content
        };
        let checksum = file.checksum().computed();
        *file.checksum_field() = ChecksumField(checksum.into());
        file.data = Some(text);
        file.data_checksum = Some(ChecksumField(file.data_checksum().computed().into()));
        let mut out = String::new();
        file.encode(&mut out);
        out
    }

    /// The fields that the text inside format 3 has.
    fn into_copy(self) -> Self {
        Self {
            checksum: None,
            ..self
        }
    }

    /// The checksum of the text inside format 3.
    fn data_checksum(&self) -> Checksum {
        Checksum {
            stored: self.data_checksum.as_ref().map_or(0, |field| field.0),
            text: format!("(string){}", self.data.as_deref().unwrap_or_default()),
        }
    }
}

impl Checkpoint for MemoryCheckpoint {
    fn checksum_field(&mut self) -> &mut ChecksumField {
        self.checksum.get_or_insert_default()
    }

    /// All formats are printed under the name from before formats had numbers.
    fn hashed_text(&self) -> String {
        dump_of_pointer(self, &Self::type_name())
    }
}
