//! The CPU manager's file, `cpu_manager_state`: exclusive CPUs by container, and the shared pool.
//!
//! Mirrors `restoreState` and `storeState` of the CPU manager's checkpointed state, which tries one format after the
//! other and reports the error of the last attempt:
//!
//! | kubelet | tries |
//! |---|---|
//! | up to 1.35 | 1, 2 |
//! | 1.36 | with pod-level management 3; 2, 1: a file of format 2 with a wrong checksum is rejected for not being of format 1 |
//! | 1.37 | 4, 3, 2 |
//!
//! Two details of v1.36: a file whose checksum is 0 is never valid as format 3 but always as format 2, and its pod
//! entries are then used unchecked. A file with the fields of format 4 is parsed here as 1.37 does, whatever the
//! version: an agent reads the file of a kubelet whose version it may not know, and older kubelets read the same
//! content from the file's other fields.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::settings::CpuManagerPolicy;

use crate::go::record::dump_of_pointer;
use crate::go::value::Map;
use crate::state::checkpoint::{self, Checkpoint, check_policy, check_size};
use crate::state::{Checksum, Fault, KubeletManager, RestoreError, uses_pod_entries};

mod format;

use format::CpuCheckpoint;

/// The assignments of the CPU manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuManagerState {
    /// The policy: `none` or `static`.
    pub policy: String,
    /// The shared pool.
    pub default_cpus: CpuSet,
    /// Exclusive CPUs by pod and container.
    pub containers: BTreeMap<PodUid, BTreeMap<ContainerName, CpuSet>>,
    /// CPUs of pods with pod-level resources.
    pub pods: BTreeMap<PodUid, CpuSet>,
}

/// A format of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuStateFormat {
    /// By container id; before Kubernetes v1.18.
    V1,
    /// By pod and container; what kubelets write without pod-level management.
    V2,
    /// With pod entries; what v1.36 writes with pod-level management.
    V3,
    /// Format 2, and a copy with pod entries as text with its own checksum; what v1.37 writes.
    V4,
}

/// The running containers by runtime id, for format 1, which has no other ids.
pub type RunningContainers = BTreeMap<String, (PodUid, ContainerName)>;

/// The options of restoring the file.
#[derive(Clone, Debug)]
pub struct CpuRestore<'a> {
    /// The path of the file, for messages.
    pub file: &'a str,
    /// The configured policy; `None` accepts any.
    pub policy: Option<&'a str>,
    /// Whether pod-level management is on.
    pub pod_level: PodLevel,
    /// Needed for files of format 1 only.
    pub running: &'a RunningContainers,
    /// Whose rules to read by.
    pub fidelity: Fidelity,
}

impl CpuManagerState {
    /// Whether the manager that wrote the file has the policy static.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.policy.parse() == Ok(CpuManagerPolicy::Static)
    }

    /// Restores a file as the kubelet does when it starts. Also returns its format.
    ///
    /// # Errors
    /// With the kubelet's message for every file it rejects.
    pub fn restore(
        bytes: &[u8],
        restore: &CpuRestore<'_>,
    ) -> Result<(Self, CpuStateFormat), RestoreError> {
        checkpoint::restore(KubeletManager::Cpu, restore.file, bytes, |bytes| {
            let (file, format) = load(bytes, restore)?;
            check_policy("", restore.policy, &file.policy_name)?;
            Ok((state_of(file, restore.fidelity)?, format))
        })
    }

    /// The file's content as the kubelet writes it. Format 1 is written as format 2; pod entries are lost below format
    /// 3.
    #[must_use]
    pub fn write(&self, format: CpuStateFormat) -> String {
        match format {
            CpuStateFormat::V4 => CpuCheckpoint::write_format4(self),
            format => CpuCheckpoint::of_state(self, format).write(),
        }
    }

    /// The file's checksum in the newest format in which it is valid, or in format 2 if in none.
    ///
    /// # Errors
    /// If the content is not of any format.
    pub fn checksum(bytes: &[u8]) -> Result<(Checksum, CpuStateFormat), Fault> {
        check_size(bytes)?;
        let (file, read) = CpuCheckpoint::decoded(bytes, CpuStateFormat::V3);
        if read.is_ok() && file.checksum().is_valid() {
            return Ok((file.checksum(), CpuStateFormat::V3));
        }
        let (file, read) = CpuCheckpoint::decoded(bytes, CpuStateFormat::V2);
        if read.is_ok() {
            return Ok((file.checksum(), CpuStateFormat::V2));
        }
        let (file, read) = CpuCheckpoint::decoded(bytes, CpuStateFormat::V1);
        read.map_err(Fault::Json)?;
        Ok((file.checksum(), CpuStateFormat::V1))
    }
}

/// Finds the format in which the file is valid.
fn load(bytes: &[u8], restore: &CpuRestore<'_>) -> Result<(CpuCheckpoint, CpuStateFormat), Fault> {
    let (fidelity, has_pods) = (restore.fidelity, uses_pod_entries(restore.pod_level));
    if let Some(mut file) = CpuCheckpoint::of_format4(bytes)? {
        file.pod_entries = file.pod_entries.filter(|_| has_pods);
        return Ok((file, CpuStateFormat::V4));
    }
    if fidelity.copies_state() {
        return load_3_or_2(bytes, has_pods);
    }
    if !fidelity.reads_newest_state_first() {
        return load_1_or_2(bytes, restore.running);
    }
    if !has_pods {
        return load_2_or_1(bytes, restore);
    }
    let (newer, read) = CpuCheckpoint::decoded(bytes, CpuStateFormat::V3);
    if read.is_ok() && newer.checksum().is_valid() {
        return Ok((newer, CpuStateFormat::V3));
    }
    let (mut file, format) = load_2_or_1(bytes, restore)?;
    // The pod entries decoded by the failed attempt are kept.
    file.pod_entries = newer.pod_entries;
    Ok((file, format))
}

/// Tries format 3, then 2, as 1.37 does.
fn load_3_or_2(bytes: &[u8], has_pods: bool) -> Result<(CpuCheckpoint, CpuStateFormat), Fault> {
    let format = CpuStateFormat::V3;
    let (mut file, read) = CpuCheckpoint::decoded(bytes, format);
    let numbered = file.checksum_over(|file| dump_of_pointer(file, "state.CPUManagerCheckpointV3"));
    if read.is_ok() && (file.checksum().is_valid() || numbered.is_valid()) {
        file.pod_entries = file.pod_entries.filter(|_| has_pods);
        return Ok((file, format));
    }
    let (file, read) = CpuCheckpoint::decoded(bytes, CpuStateFormat::V2);
    read.map_err(Fault::Json)?;
    if !is_format2(&file, has_pods) {
        file.checksum().verify()?;
    }
    Ok((file, CpuStateFormat::V2))
}

/// Tries format 2, then 1, as 1.36 does.
fn load_2_or_1(
    bytes: &[u8],
    restore: &CpuRestore<'_>,
) -> Result<(CpuCheckpoint, CpuStateFormat), Fault> {
    let (file, read) = CpuCheckpoint::decoded(bytes, CpuStateFormat::V2);
    if read.is_ok() && is_format2(&file, uses_pod_entries(restore.pod_level)) {
        return Ok((file, CpuStateFormat::V2));
    }
    let file = load_1(bytes)?;
    let migrated = migrate_1(
        file,
        restore.running,
        "failed to migrate checkpoint from v1 to v2",
    )?;
    Ok((migrated, CpuStateFormat::V1))
}

/// Tries format 1, then 2, as kubelets up to 1.35 do.
fn load_1_or_2(
    bytes: &[u8],
    running: &RunningContainers,
) -> Result<(CpuCheckpoint, CpuStateFormat), Fault> {
    if let Ok(file) = load_1(bytes) {
        let failed = "error migrating v1 checkpoint state to v2 checkpoint state";
        return Ok((migrate_1(file, running, failed)?, CpuStateFormat::V1));
    }
    // The Go type of format 2 had no number then.
    let (file, read) =
        CpuCheckpoint::decoded_as(bytes, CpuStateFormat::V2, "state.CPUManagerCheckpoint");
    read.map_err(Fault::Json)?;
    let checksum = file.checksum();
    if checksum.stored != 0 {
        checksum.verify()?;
    }
    Ok((file, CpuStateFormat::V2))
}

/// Whether the checksum of a file of format 2 is good. v1.36 once wrote the format number into the type name; that is
/// accepted only without pod-level management.
fn is_format2(file: &CpuCheckpoint, has_pods: bool) -> bool {
    let checksum = file.checksum();
    let numbered =
        || file.checksum_over(|file| dump_of_pointer(file, CpuStateFormat::V2.type_name()));
    checksum.stored == 0 || checksum.is_valid() || (!has_pods && numbered().is_valid())
}

/// The file of format 1.
fn load_1(bytes: &[u8]) -> Result<CpuCheckpoint, Fault> {
    let (file, read) = CpuCheckpoint::decoded(bytes, CpuStateFormat::V1);
    read.map_err(Fault::Json)?;
    let checksum = file.checksum();
    if checksum.stored != 0 {
        checksum.verify()?;
    }
    Ok(file)
}

/// A file of format 1 with entries by pod and container; `failed` is the kubelet's message for one that is not known.
fn migrate_1(
    mut file: CpuCheckpoint,
    running: &RunningContainers,
    failed: &'static str,
) -> Result<CpuCheckpoint, Fault> {
    let mut pods: BTreeMap<String, Map<String, String>> = BTreeMap::new();
    let entries = file.id_entries.take().into_iter().flat_map(|map| map.0);
    for (id, cpus) in entries.flatten() {
        let Some((pod, container)) = running.get(&id) else {
            return Err(Fault::UnknownContainer { failed, id });
        };
        let containers = pods.entry(pod.to_string()).or_default();
        let containers = containers.0.get_or_insert_default();
        containers.insert(container.to_string(), cpus);
    }
    file.entries = Some(Map(Some(pods)));
    Ok(file)
}

/// The state in a file.
fn state_of(file: CpuCheckpoint, fidelity: Fidelity) -> Result<CpuManagerState, Fault> {
    let default_cpus =
        CpuSet::parse(&file.default_cpu_set).map_err(|error| Fault::DefaultCpus {
            kind: if fidelity.copies_state() {
                "CPU set"
            } else {
                "cpu set"
            },
            text: file.default_cpu_set,
            error,
        })?;
    let mut containers = BTreeMap::new();
    for (pod, entries) in file.entries.iter().flat_map(Map::iter) {
        let mut of_pod = BTreeMap::new();
        for (container, text) in entries.iter() {
            let cpus = CpuSet::parse(text).map_err(|error| Fault::ContainerCpus {
                text: text.clone(),
                container: container.clone(),
                pod: pod.clone(),
                error,
            })?;
            of_pod.insert(container.as_str().into(), cpus);
        }
        containers.insert(pod.as_str().into(), of_pod);
    }
    let pods = file.pod_entries.iter().flat_map(|pods| pods.0.iter());
    Ok(CpuManagerState {
        policy: file.policy_name,
        default_cpus,
        containers,
        pods: pods
            .map(|(pod, entry)| (pod.as_str().into(), entry.cpus.clone()))
            .collect(),
    })
}

#[cfg(test)]
mod tests;
