//! [`Hold`]: what keeps a run on its CPUs and its memory.

use std::path::PathBuf;

use pinfold_cgroup::{Version, folder};
use pinfold_core::cpu_set::CpuSet;
use serde::{Deserialize, Serialize};

use crate::cgroup::{v1, v2};
use crate::error::StandaloneError;
use crate::place::Placement;
use crate::{affinity, memory_policy};

/// How a run is kept in place, from the firmest to the loosest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum Hold {
    /// A group of cgroup v2.
    CgroupV2 {
        /// Its folder.
        group: PathBuf,
        /// Whether the kernel keeps every other process off its CPUs.
        partition: bool,
    },
    /// A group of the cpuset hierarchy of cgroup v1.
    CgroupV1 {
        /// Its folder.
        group: PathBuf,
    },
    /// CPU affinity and memory policy of the process.
    Affinity,
}

impl Hold {
    /// Prepares the firmest hold that this machine offers, for a run with `id`.
    pub(crate) fn prepare(
        id: u64,
        placement: &Placement,
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
            return Ok(Hold::CgroupV2 { group, partition });
        }
        if let Some(base) = v1::base() {
            let group = v1::prepare(&base, id, placement)?;
            return Ok(Hold::CgroupV1 { group });
        }
        Ok(Hold::Affinity)
    }

    /// Puts this process into the hold.
    pub(crate) fn enter(&self, placement: &Placement) -> Result<(), StandaloneError> {
        match self {
            Hold::CgroupV2 { group, .. } | Hold::CgroupV1 { group } => {
                folder::enter(group)?;
                // An affinity that was set before would narrow the group's CPUs further.
                match placement.own_cpus {
                    true => affinity::confine_this(&placement.cpus),
                    false => Ok(()),
                }
            }
            Hold::Affinity => {
                if let Some(nodes) = placement.nodes {
                    memory_policy::bind_this(nodes)?;
                }
                affinity::confine_this(&placement.cpus)
            }
        }
    }

    /// Gives a running run other CPUs. `pid` is its first process.
    pub(crate) fn set_cpus(&self, pid: u32, cpus: &CpuSet) -> Result<(), StandaloneError> {
        match self {
            Hold::CgroupV2 { group, .. } => Ok(folder::set_cpus(group, Version::V2, cpus)?),
            Hold::CgroupV1 { group } => Ok(folder::set_cpus(group, Version::V1, cpus)?),
            Hold::Affinity => affinity::confine_family(pid, cpus),
        }
    }

    /// Whether a control group still has processes in it.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        match self {
            Hold::CgroupV2 { group, .. } | Hold::CgroupV1 { group } => {
                !folder::processes(group).is_empty()
            }
            Hold::Affinity => false,
        }
    }

    /// Takes the hold away. Its processes must have ended.
    pub(crate) fn remove(&self) -> Result<(), StandaloneError> {
        match self {
            Hold::CgroupV2 { group, .. } | Hold::CgroupV1 { group } => Ok(folder::remove(group)?),
            Hold::Affinity => Ok(()),
        }
    }

    /// Whether the kernel keeps every other process off the CPUs.
    #[must_use]
    pub fn is_partition(&self) -> bool {
        matches!(
            self,
            Hold::CgroupV2 {
                partition: true,
                ..
            }
        )
    }
}
