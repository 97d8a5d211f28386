//! [`Hierarchy`]: where the controllers that Pinfold needs are at home on this machine.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::control;
use crate::error::CgroupError;
use crate::group::Group;
use crate::mounts::{Mount, Mounts};
use crate::path::GroupPath;

/// A generation of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all.
    V2,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::V1 => "cgroup v1",
            Version::V2 => "cgroup v2",
        })
    }
}

impl Version {
    /// The file that says which CPUs a group may use in the end.
    #[must_use]
    pub fn effective_cpus(self) -> &'static str {
        match self {
            Version::V1 => "cpuset.effective_cpus",
            Version::V2 => "cpuset.cpus.effective",
        }
    }

    /// The file that says which NUMA nodes a group may take memory from in the end.
    #[must_use]
    pub fn effective_mems(self) -> &'static str {
        match self {
            Version::V1 => "cpuset.effective_mems",
            Version::V2 => "cpuset.mems.effective",
        }
    }
}

/// Where a controller is at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The generation it is used in.
    pub version: Version,
    /// Its hierarchy.
    pub mount: Mount,
}

impl Home {
    /// A controller is v1's as long as it is mounted there; then v2 does not list it.
    fn of(controller: &str, mounts: &Mounts) -> Option<Self> {
        if let Some(mount) = mounts.v1(controller) {
            return Some(Self {
                version: Version::V1,
                mount: mount.clone(),
            });
        }
        let mount = mounts.v2()?;
        control::lists(&mount.point.join("cgroup.controllers"), controller).then(|| Self {
            version: Version::V2,
            mount: mount.clone(),
        })
    }

    /// The folder of a group in this hierarchy.
    ///
    /// # Errors
    /// If the group cannot be seen from here.
    pub fn folder(&self, path: &GroupPath) -> Result<PathBuf, CgroupError> {
        self.mount.folder(path)
    }
}

/// The controllers of a machine: v1, v2 or some of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// CPUs and memory nodes.
    pub cpuset: Home,
    /// CPU time; `None` if nobody limits it here.
    pub cpu: Option<Home>,
}

impl Hierarchy {
    /// Finds the controllers. `root` is the machine's root folder: `/`, or a folder that plays it.
    ///
    /// # Errors
    /// If no control group can confine CPUs here.
    pub fn find(root: &Path) -> Result<Self, CgroupError> {
        let mounts = Mounts::read(root)?;
        match Home::of("cpuset", &mounts) {
            Some(cpuset) => Ok(Self {
                cpuset,
                cpu: Home::of("cpu", &mounts),
            }),
            None => Err(CgroupError::NoCpuset {
                unified: mounts.v2().map(|mount| mount.point.clone()),
            }),
        }
    }

    /// The group that is called so. It need not be there.
    ///
    /// # Errors
    /// If it cannot be seen from here.
    pub fn group(&self, path: &GroupPath) -> Result<Group<'_>, CgroupError> {
        Group::new(self, path.clone())
    }
}
