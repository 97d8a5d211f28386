//! [`CgroupState`]: the limits of a group, as the kernel reports them.

use std::path::Path;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use crate::control;
use crate::cpu_time::CpuTimeLimit;
use crate::error::CgroupError;
use crate::hierarchy::CgroupVersion;
use crate::ids::IdSet;

/// The limits of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupState {
    /// The configured CPUs. Empty in v2: those of the parent.
    pub cpus: CpuSet,
    /// The configured NUMA nodes. Empty in v2: those of the parent.
    pub mems: NodeSet,
    /// The CPUs that its processes may use: without offline CPUs and CPUs of partitions.
    pub effective_cpus: CpuSet,
    /// The NUMA nodes that its memory is allocated from.
    pub effective_mems: NodeSet,
    /// The CFS limit; `None` if the cpu controller is not enabled here.
    pub cpu_time: Option<CpuTimeLimit>,
}

impl CgroupState {
    pub(crate) fn read(
        version: CgroupVersion,
        cpuset: &Path,
        cpu_time: Option<CpuTimeLimit>,
    ) -> Result<Self, CgroupError> {
        Ok(Self {
            cpus: configured(cpuset)?,
            mems: configured(cpuset)?,
            effective_cpus: control::read_cpus(&cpuset.join(version.effective_cpus()))?,
            effective_mems: control::read_mems(&cpuset.join(version.effective_mems()))?,
            cpu_time,
        })
    }
}

/// Reads the configured set of a group, which may differ from the effective one.
pub(crate) fn configured<S: IdSet>(folder: &Path) -> Result<S, CgroupError> {
    S::read(&folder.join(S::FILE))
}

/// Reads the CFS limit; `None` for a root group and for groups without the cpu controller.
pub(crate) fn read_cpu_time(
    version: CgroupVersion,
    folder: &Path,
) -> Result<Option<CpuTimeLimit>, CgroupError> {
    match CpuTimeLimit::read(folder, version) {
        Ok(read_cpu_time) => Ok(Some(read_cpu_time)),
        Err(CgroupError::NoFile { .. }) => Ok(None),
        // In v1 each controller has its own hierarchy: the group may exist in one of them only.
        Err(CgroupError::Vanished { .. }) if version == CgroupVersion::V1 => Ok(None),
        Err(error) => Err(error),
    }
}
