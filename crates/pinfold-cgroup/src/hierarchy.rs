//! [`Hierarchy`]: the mounted hierarchies of the controllers that Pinfold needs.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::control;
use crate::cpu_usage;
use crate::error::CgroupError;
use crate::group::Cgroup;
use crate::mounts::{CgroupMount, CgroupMounts};
use crate::path::GroupPath;

/// A version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CgroupVersion {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all controllers.
    V2,
}

impl fmt::Display for CgroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CgroupVersion::V1 => "cgroup v1",
            CgroupVersion::V2 => "cgroup v2",
        })
    }
}

impl CgroupVersion {
    /// The file with the effective CPUs of a group.
    #[must_use]
    pub fn effective_cpus(self) -> &'static str {
        match self {
            CgroupVersion::V1 => "cpuset.effective_cpus",
            CgroupVersion::V2 => "cpuset.cpus.effective",
        }
    }

    /// The file with the effective memory nodes of a group.
    #[must_use]
    pub fn effective_mems(self) -> &'static str {
        match self {
            CgroupVersion::V1 => "cpuset.effective_mems",
            CgroupVersion::V2 => "cpuset.mems.effective",
        }
    }
}

/// The mounted hierarchy that a controller belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerMount {
    /// The version of that hierarchy.
    pub version: CgroupVersion,
    /// Where it is mounted.
    pub mount: CgroupMount,
}

impl ControllerMount {
    /// Finds a controller's hierarchy. v1 has precedence: a controller that v1 mounts is not listed by v2.
    fn of(controller: &str, mounts: &CgroupMounts) -> Option<Self> {
        if let Some(mount) = mounts.v1(controller) {
            return Some(Self {
                version: CgroupVersion::V1,
                mount: mount.clone(),
            });
        }
        let mount = mounts.v2()?;
        control::lists(&mount.point.join("cgroup.controllers"), controller).then(|| Self {
            version: CgroupVersion::V2,
            mount: mount.clone(),
        })
    }

    fn of_cpu_usage(mounts: &CgroupMounts) -> Option<Self> {
        let v1 = mounts.v1("cpuacct").map(|mount| (CgroupVersion::V1, mount));
        let v2 = || mounts.v2().map(|mount| (CgroupVersion::V2, mount));
        v1.or_else(v2).map(|(version, mount)| Self {
            version,
            mount: mount.clone(),
        })
    }

    /// The folder of a group in this hierarchy.
    ///
    /// # Errors
    /// If the group is outside the mounted part of the hierarchy.
    pub fn folder(&self, path: &GroupPath) -> Result<PathBuf, CgroupError> {
        self.mount.folder(path)
    }
}

/// The hierarchies of the cpuset and cpu controllers, which may be v1, v2 or mixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The cpuset controller: CPUs and memory nodes.
    pub cpuset: ControllerMount,
    /// The cpu controller; `None` if it is not mounted.
    pub cpu: Option<ControllerMount>,
    /// Where the CPU time of groups is read; `None` if nothing counts it. v2 counts it without a controller.
    pub cpu_usage: Option<ControllerMount>,
}

impl Hierarchy {
    /// Finds the controllers. `root` is the machine's root folder: `/`, or a folder that stands for it.
    ///
    /// # Errors
    /// If no mounted hierarchy has the cpuset controller.
    pub fn find(root: &Path) -> Result<Self, CgroupError> {
        let mounts = CgroupMounts::read_of_machine(root)?;
        match ControllerMount::of("cpuset", &mounts) {
            Some(cpuset) => Ok(Self {
                cpuset,
                cpu: ControllerMount::of("cpu", &mounts),
                cpu_usage: ControllerMount::of_cpu_usage(&mounts),
            }),
            None => Err(CgroupError::NoCpuset {
                unified: mounts.v2().map(|mount| mount.point.clone()),
            }),
        }
    }

    /// The CPU time that the processes of a group and its descendants have used, in microseconds.
    ///
    /// # Errors
    /// If the file cannot be read; [`CgroupError::Vanished`] if the group no longer exists; [`CgroupError::NoCpuUsage`] if
    /// nothing counts it.
    pub fn cpu_usage(&self, path: &GroupPath) -> Result<u64, CgroupError> {
        let counter = self.cpu_usage.as_ref().ok_or(CgroupError::NoCpuUsage)?;
        cpu_usage::read(counter.version, &counter.folder(path)?)
    }

    /// The group at this path. It need not exist.
    ///
    /// # Errors
    /// If it is outside the mounted part of the hierarchy.
    pub fn group(&self, path: &GroupPath) -> Result<Cgroup<'_>, CgroupError> {
        Cgroup::new(self, path.clone())
    }
}
