//! [`State`]: what a group allows, as the kernel says.

use std::path::Path;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use crate::control;
use crate::cpu_time::CpuTime;
use crate::error::CgroupError;
use crate::hierarchy::Version;
use crate::ids::Ids;

/// What a group allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The CPUs that it was given. Empty in v2: whatever the group above has.
    pub cpus: CpuSet,
    /// The NUMA nodes that it was given. Empty in v2: whatever the group above has.
    pub mems: NodeSet,
    /// The CPUs that its processes may use in the end: offline ones are missing, and those of partitions.
    pub effective_cpus: CpuSet,
    /// The NUMA nodes that memory comes from in the end.
    pub effective_mems: NodeSet,
    /// Its limit on CPU time; `None` if nobody limits it here.
    pub cpu_time: Option<CpuTime>,
}

impl State {
    pub(crate) fn read(
        version: Version,
        cpuset: &Path,
        cpu_time: Option<CpuTime>,
    ) -> Result<Self, CgroupError> {
        Ok(Self {
            cpus: given(cpuset)?,
            mems: given(cpuset)?,
            effective_cpus: control::read_cpus(&cpuset.join(version.effective_cpus()))?,
            effective_mems: control::read_mems(&cpuset.join(version.effective_mems()))?,
            cpu_time,
        })
    }
}

/// What a group was given, which need not be what it has in the end.
pub(crate) fn given<S: Ids>(folder: &Path) -> Result<S, CgroupError> {
    S::read(&folder.join(S::FILE))
}

/// A root has no limit, and so have groups that the controller was not handed on to.
pub(crate) fn limit(version: Version, folder: &Path) -> Result<Option<CpuTime>, CgroupError> {
    match CpuTime::read(folder, version) {
        Ok(limit) => Ok(Some(limit)),
        Err(CgroupError::NoFile { .. }) => Ok(None),
        // The hierarchies of v1 are apart: the group may be in one of them only.
        Err(CgroupError::Vanished { .. }) if version == Version::V1 => Ok(None),
        Err(error) => Err(error),
    }
}
