//! The CPU manager's file, `cpu_manager_state`: exclusive CPUs by container, and the shared pool.
//!
//! Mirrors `restoreState` and `storeState` of the CPU manager's checkpointed state. With pod-level management the
//! kubelet tries format 3, then 2, then 1, and migrates upward; without it, 2 and 1. It reports the error of the last
//! attempt, so a file of format 2 with a wrong checksum is rejected for not being of format 1.
//!
//! Two details of v1.36: a file whose checksum is 0 is never valid as format 3 but always as format 2, and its pod
//! entries are then used unchecked. Format 4 is written by later kubelets only; a file with its fields is parsed here
//! by their rules, where v1.36 would parse its format 2 partly unchecked.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::demand::PodLevel;
use pinfold_core::name::{ContainerName, PodUid};

use crate::go::value::{GoValue, Map, unmarshal};
use crate::state::{
    Checksum, Fault, KubeletManager, RestoreError, check_policy, check_size, uses_pod_entries,
};

mod format;

use format::{
    CpuCheckpointData, CpuFormat1, CpuFormat2, CpuFormat3, CpuFormat4, CpuPodEntries, CpuPodEntry,
};

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
    /// Format 3 unchecked, and a copy as text with its own checksum; after v1.36.
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
}

impl CpuManagerState {
    /// Restores a file as the kubelet does when it starts. Also returns its format.
    ///
    /// # Errors
    /// With the kubelet's message for every file it rejects.
    pub fn restore(
        bytes: &[u8],
        restore: &CpuRestore<'_>,
    ) -> Result<(Self, CpuStateFormat), RestoreError> {
        let restored = check_size(bytes).and_then(|()| {
            let (data, format) = load(bytes, restore)?;
            if let Some(policy) = restore.policy {
                check_policy("", policy, &data.policy_name)?;
            }
            Ok((Self::try_from(data)?, format))
        });
        restored.map_err(|fault| RestoreError {
            manager: KubeletManager::Cpu,
            file: restore.file.to_owned(),
            fault: Box::new(fault),
        })
    }

    /// The file's content as the kubelet writes it. Format 1 is written as format 2; pod entries are lost below format
    /// 3.
    #[must_use]
    pub fn write(&self, format: CpuStateFormat) -> String {
        let mut out = String::new();
        match format {
            CpuStateFormat::V1 | CpuStateFormat::V2 => {
                let mut file = CpuFormat2::from(self);
                file.checksum.0 = file.checksum().computed().into();
                file.encode(&mut out);
            }
            CpuStateFormat::V3 => {
                let mut file = CpuFormat3::from(self);
                file.checksum.0 = file.checksum().computed().into();
                file.encode(&mut out);
            }
            CpuStateFormat::V4 => CpuFormat4::from(self).encode(&mut out),
        }
        out
    }

    /// The file's checksum in the newest format in which it is valid, or in format 2 if in none.
    ///
    /// # Errors
    /// If the content is not of any format.
    pub fn checksum(bytes: &[u8]) -> Result<(Checksum, CpuStateFormat), Fault> {
        check_size(bytes)?;
        let mut newer = CpuFormat3::new();
        if unmarshal(bytes, &mut newer).is_ok() && newer.checksum().is_valid() {
            return Ok((newer.checksum(), CpuStateFormat::V3));
        }
        let mut file = CpuFormat2::new();
        if unmarshal(bytes, &mut file).is_ok() {
            return Ok((file.checksum(), CpuStateFormat::V2));
        }
        let mut oldest = CpuFormat1::new();
        unmarshal(bytes, &mut oldest).map_err(Fault::Json)?;
        Ok((oldest.checksum(), CpuStateFormat::V1))
    }
}

/// Finds the format in which the file is valid.
fn load(
    bytes: &[u8],
    restore: &CpuRestore<'_>,
) -> Result<(CpuCheckpointData, CpuStateFormat), Fault> {
    if let Some(data) = load_format4(bytes)? {
        return Ok((data, CpuStateFormat::V4));
    }
    if !uses_pod_entries(restore.pod_level) {
        return load_format2(bytes, restore);
    }
    let mut file = CpuFormat3::new();
    if unmarshal(bytes, &mut file).is_ok() && file.checksum().is_valid() {
        return Ok((file.into(), CpuStateFormat::V3));
    }
    let (mut data, format) = load_format2(bytes, restore)?;
    // The pod entries decoded by the failed attempt are kept.
    data.pod_entries = file.pod_entries;
    Ok((data, format))
}

/// The content of a file of format 4; `None` if it has an older format.
fn load_format4(bytes: &[u8]) -> Result<Option<CpuCheckpointData>, Fault> {
    let mut file = CpuFormat4::default();
    let shape = unmarshal(bytes, &mut file)
        .map_err(|error| format!("failed to deserialize cpu manager checkpoint: {error}"));
    if file.data.is_empty() && file.data_checksum.0 == 0 {
        return Ok(None);
    }
    let mut data = CpuCheckpointData::new();
    let content = shape.and_then(|()| {
        unmarshal(file.data.as_bytes(), &mut data)
            .map_err(|error| format!("failed to deserialize cpu manager checkpoint data: {error}"))
    });
    content
        .map_err(Fault::Json)
        .and_then(|()| file.data_checksum().verify())
        .map_err(|fault| Fault::Format4(Box::new(fault)))?;
    Ok(Some(data))
}

fn load_format2(
    bytes: &[u8],
    restore: &CpuRestore<'_>,
) -> Result<(CpuCheckpointData, CpuStateFormat), Fault> {
    let mut file = CpuFormat2::new();
    let is_good = unmarshal(bytes, &mut file).is_ok()
        && (file.checksum.0 == 0
            || file.checksum().is_valid()
            // v1.36 once wrote the format number into the type name; it accepts that only without pod-level management.
            || (!uses_pod_entries(restore.pod_level) && file.numbered_checksum().is_valid()));
    if is_good {
        return Ok((file.into(), CpuStateFormat::V2));
    }
    let data = load_format1(bytes, restore.running)?;
    Ok((data, CpuStateFormat::V1))
}

fn load_format1(bytes: &[u8], running: &RunningContainers) -> Result<CpuCheckpointData, Fault> {
    let mut file = CpuFormat1::new();
    unmarshal(bytes, &mut file).map_err(Fault::Json)?;
    if file.checksum.0 != 0 {
        file.checksum().verify()?;
    }
    let mut data = CpuCheckpointData::new();
    data.policy_name = file.policy_name;
    data.default_cpu_set = file.default_cpu_set;
    let pods = data.entries.0.get_or_insert_default();
    for (id, cpus) in file.entries.0.into_iter().flatten() {
        let Some((pod, container)) = running.get(&id) else {
            return Err(Fault::UnknownContainer(id));
        };
        pods.entry(pod.to_string())
            .or_default()
            .0
            .get_or_insert_default()
            .insert(container.to_string(), cpus);
    }
    Ok(data)
}

impl TryFrom<CpuCheckpointData> for CpuManagerState {
    type Error = Fault;

    fn try_from(data: CpuCheckpointData) -> Result<Self, Fault> {
        let default_cpus =
            CpuSet::parse(&data.default_cpu_set).map_err(|error| Fault::DefaultCpus {
                text: data.default_cpu_set.clone(),
                error,
            })?;
        let mut containers = BTreeMap::new();
        for (pod, entries) in data.entries.iter() {
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
        let pods = data.pod_entries.0.iter();
        Ok(Self {
            policy: data.policy_name,
            default_cpus,
            containers,
            pods: pods
                .map(|(pod, entry)| (pod.as_str().into(), entry.cpus.clone()))
                .collect(),
        })
    }
}

impl From<&CpuManagerState> for CpuCheckpointData {
    fn from(state: &CpuManagerState) -> Self {
        let of_pod = |containers: &BTreeMap<ContainerName, CpuSet>| -> Map<String, String> {
            containers
                .iter()
                .map(|(container, cpus)| (container.to_string(), cpus.to_string()))
                .collect()
        };
        let entry = |cpus: &CpuSet| CpuPodEntry { cpus: cpus.clone() };
        Self {
            policy_name: state.policy.clone(),
            default_cpu_set: state.default_cpus.to_string(),
            entries: state
                .containers
                .iter()
                .map(|(pod, containers)| (pod.to_string(), of_pod(containers)))
                .collect(),
            pod_entries: CpuPodEntries(
                state
                    .pods
                    .iter()
                    .map(|(pod, cpus)| (pod.to_string(), entry(cpus)))
                    .collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
