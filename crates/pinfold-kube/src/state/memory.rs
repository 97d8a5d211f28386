//! The memory manager's file, `memory_manager_state`: memory and hugepages of every NUMA node, and their assignments.
//!
//! Mirrors `restoreState` and `storeState` of the memory manager's checkpointed state. Kubelets up to 1.35 know format 1
//! only, and reject a file whose checksum is 0. 1.36 tries format 2 with pod-level management, then 1; as for CPUs, a
//! file whose checksum is 0 is valid as format 1 only, and with pod-level management its pod entries are then used
//! unchecked. 1.37 tries 3, 2 and 1. As for CPUs, a file with the fields of format 3 is parsed as 1.37 does.

use std::collections::BTreeMap;

use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::memory::{MemoryAmounts, MemoryBlock};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::settings::MemoryManagerPolicy;

use crate::go::record::dump_of_pointer;
use crate::state::checkpoint::{self, Checkpoint, check_policy, check_size};
use crate::state::{Checksum, Fault, KubeletManager, RestoreError, uses_pod_entries};

mod convert;
mod format;

use format::MemoryCheckpoint;

/// The assignments of the memory manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryManagerState {
    /// The policy: `None`, `Static` or `BestEffort`.
    pub policy: String,
    /// The NUMA nodes.
    pub nodes: BTreeMap<NodeId, NumaNodeMemory>,
    /// Memory blocks by pod and container, in the order of the file.
    pub containers: BTreeMap<PodUid, BTreeMap<ContainerName, Vec<MemoryBlock>>>,
    /// Memory blocks of pods with pod-level resources.
    pub pods: BTreeMap<PodUid, Vec<MemoryBlock>>,
}

/// The memory of one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaNodeMemory {
    /// The number of assignments on it.
    pub assignments: i64,
    /// The node and those it is grouped with.
    pub cells: NodeSet,
    /// Memory and every size of hugepages.
    pub memory: BTreeMap<ResourceName, MemoryAmounts>,
}

/// A format of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryStateFormat {
    /// What kubelets write without pod-level management.
    V1,
    /// With pod entries.
    V2,
    /// Format 1, and a copy with pod entries as text with its own checksum; what v1.37 writes.
    V3,
}

/// The options of restoring the file.
#[derive(Clone, Debug)]
pub struct MemoryRestore<'a> {
    /// The path of the file, for messages.
    pub file: &'a str,
    /// The configured policy; `None` accepts any.
    pub policy: Option<&'a str>,
    /// Whether pod-level management is on.
    pub pod_level: PodLevel,
    /// Whose rules to read by.
    pub fidelity: Fidelity,
}

impl MemoryManagerState {
    /// Whether the manager that wrote the file has the policy static.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.policy.parse() == Ok(MemoryManagerPolicy::Static)
    }

    /// Restores a file as the kubelet does when it starts. Also returns its format.
    ///
    /// # Errors
    /// With the kubelet's message for every file it rejects; and if the file names a NUMA node that no machine has.
    pub fn restore(
        bytes: &[u8],
        restore: &MemoryRestore<'_>,
    ) -> Result<(Self, MemoryStateFormat), RestoreError> {
        checkpoint::restore(KubeletManager::Memory, restore.file, bytes, |bytes| {
            let (file, format) = load(bytes, restore)?;
            check_policy("[memorymanager] ", restore.policy, &file.policy_name)?;
            Ok((Self::try_from(&file)?, format))
        })
    }

    /// The file's content as the kubelet writes it. Pod entries are lost in format 1.
    #[must_use]
    pub fn write(&self, format: MemoryStateFormat) -> String {
        let mut file = MemoryCheckpoint::from(self);
        match format {
            MemoryStateFormat::V1 => file.pod_entries = None,
            MemoryStateFormat::V2 => {}
            MemoryStateFormat::V3 => return MemoryCheckpoint::write_format3(file),
        }
        file.write()
    }

    /// The file's checksum in format 2 if it is valid in it, or else in format 1.
    ///
    /// # Errors
    /// If the content is not of any format.
    pub fn checksum(bytes: &[u8]) -> Result<(Checksum, MemoryStateFormat), Fault> {
        check_size(bytes)?;
        let (file, read) = MemoryCheckpoint::decoded(bytes, MemoryStateFormat::V2);
        if read.is_ok() && file.checksum().is_valid() {
            return Ok((file.checksum(), MemoryStateFormat::V2));
        }
        let (file, read) = MemoryCheckpoint::decoded(bytes, MemoryStateFormat::V1);
        read.map_err(Fault::Json)?;
        Ok((file.checksum(), MemoryStateFormat::V1))
    }
}

/// Finds the format in which the file is valid.
fn load(
    bytes: &[u8],
    restore: &MemoryRestore<'_>,
) -> Result<(MemoryCheckpoint, MemoryStateFormat), Fault> {
    let (fidelity, has_pods) = (restore.fidelity, uses_pod_entries(restore.pod_level));
    if let Some(mut file) = MemoryCheckpoint::of_format3(bytes)? {
        file.pod_entries = file.pod_entries.filter(|_| has_pods);
        return Ok((file, MemoryStateFormat::V3));
    }
    if !fidelity.reads_newest_state_first() {
        return load_1_of_old_kubelets(bytes);
    }
    let (mut newer, read) = MemoryCheckpoint::decoded(bytes, MemoryStateFormat::V2);
    // 1.37 tries format 2 whether or not pod-level management is on.
    if (has_pods || fidelity.copies_state()) && read.is_ok() && newer.checksum().is_valid() {
        newer.pod_entries = newer.pod_entries.filter(|_| has_pods);
        return Ok((newer, MemoryStateFormat::V2));
    }
    let format = MemoryStateFormat::V1;
    let (mut file, read) = MemoryCheckpoint::decoded(bytes, format);
    read.map_err(Fault::Json)?;
    let checksum = file.checksum();
    // 1.36 accepts a format number in the type name without pod-level management.
    let numbered = || {
        let checksum = file.checksum_over(|file| dump_of_pointer(file, format.type_name()));
        !has_pods && !fidelity.copies_state() && checksum.is_valid()
    };
    if checksum.stored != 0 && !numbered() {
        checksum.verify()?;
    }
    // 1.36 keeps the pod entries decoded by the failed attempt.
    file.pod_entries = newer
        .pod_entries
        .filter(|_| has_pods && !fidelity.copies_state());
    Ok((file, format))
}

/// Tries format 1, whose Go type had no number then.
fn load_1_of_old_kubelets(bytes: &[u8]) -> Result<(MemoryCheckpoint, MemoryStateFormat), Fault> {
    let format = MemoryStateFormat::V1;
    let name = MemoryStateFormat::V2.type_name();
    let (file, read) = MemoryCheckpoint::decoded_as(bytes, format, name);
    read.map_err(Fault::Json)?;
    file.checksum().verify()?;
    Ok((file, format))
}

#[cfg(test)]
mod tests;
