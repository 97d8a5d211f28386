//! [`Confinement`]: what confines a run to its CPUs and memory.

use std::path::PathBuf;

use pinfold_cgroup::{CgroupVersion, folder};
use pinfold_core::cpu_set::CpuSet;
use serde::{Deserialize, Serialize};

use crate::cgroup::{v1, v2};
use crate::error::StandaloneError;
use crate::placement::RunPlacement;
use crate::{affinity, memory_policy};

/// The mechanism that confines a run, from the strictest to the weakest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum Confinement {
    /// A cgroup v2 group with the cpuset controller.
    CgroupV2 {
        /// The group's folder.
        group: PathBuf,
        /// Whether it is a cpuset partition: the kernel keeps every other process off its CPUs.
        partition: bool,
    },
    /// A group in the cpuset hierarchy of cgroup v1.
    CgroupV1 {
        /// The group's folder.
        group: PathBuf,
    },
    /// CPU affinity and memory policy of the process; no cgroup.
    Affinity,
}

impl Confinement {
    /// Prepares the strictest confinement that this machine offers for the run `id`.
    pub(crate) fn prepare(
        id: u64,
        placement: &RunPlacement,
        partition: bool,
    ) -> Result<Self, StandaloneError> {
        let bases = v2::bases();
        let mut bases = bases.iter();
        let base = match partition {
            true => Some(
                bases
                    .find(|base| v2::is_root(base))
                    .ok_or(StandaloneError::NoPartition)?,
            ),
            false => bases.next(),
        };
        if let Some(base) = base {
            let group = v2::prepare(base, id, placement, partition)?;
            return Ok(Confinement::CgroupV2 { group, partition });
        }
        if let Some(base) = v1::base() {
            let group = v1::prepare(&base, id, placement)?;
            return Ok(Confinement::CgroupV1 { group });
        }
        Ok(Confinement::Affinity)
    }

    /// Moves this process into the cgroup, or sets its affinity and memory policy.
    pub(crate) fn enter(&self, placement: &RunPlacement) -> Result<(), StandaloneError> {
        match self {
            Confinement::CgroupV2 { group, .. } | Confinement::CgroupV1 { group } => {
                folder::enter(group)?;
                // An affinity that was set before would narrow the group's CPUs further.
                match placement.exclusive_cpus {
                    true => affinity::confine_this(&placement.cpus),
                    false => Ok(()),
                }
            }
            Confinement::Affinity => {
                if let Some(nodes) = placement.nodes {
                    memory_policy::bind_this(nodes)?;
                }
                affinity::confine_this(&placement.cpus)
            }
        }
    }

    /// Changes the CPUs of a live run. `pid` is its first process.
    pub(crate) fn set_cpus(&self, pid: u32, cpus: &CpuSet) -> Result<(), StandaloneError> {
        match self {
            Confinement::CgroupV2 { group, .. } => {
                Ok(folder::set_cpus(group, CgroupVersion::V2, cpus)?)
            }
            Confinement::CgroupV1 { group } => {
                Ok(folder::set_cpus(group, CgroupVersion::V1, cpus)?)
            }
            Confinement::Affinity => affinity::confine_tree(pid, cpus),
        }
    }

    /// Whether the run's cgroup still has processes in it.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        match self {
            Confinement::CgroupV2 { group, .. } | Confinement::CgroupV1 { group } => {
                !folder::processes(group).is_empty()
            }
            Confinement::Affinity => false,
        }
    }

    /// Removes the run's cgroup. Its processes must have ended.
    pub(crate) fn remove(&self) -> Result<(), StandaloneError> {
        match self {
            Confinement::CgroupV2 { group, .. } | Confinement::CgroupV1 { group } => {
                Ok(folder::remove(group)?)
            }
            Confinement::Affinity => Ok(()),
        }
    }

    /// Whether the run's cgroup is a cpuset partition.
    #[must_use]
    pub fn is_partition(&self) -> bool {
        matches!(
            self,
            Confinement::CgroupV2 {
                partition: true,
                ..
            }
        )
    }
}
