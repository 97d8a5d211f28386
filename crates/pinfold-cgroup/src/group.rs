//! [`Group`]: one group, to be read and changed.

use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use crate::control;
use crate::cpu_time::CpuTime;
use crate::error::CgroupError;
use crate::folder;
use crate::hierarchy::{Hierarchy, Version};
use crate::ids::Ids;
use crate::partition::{self, Partition, PartitionState};
use crate::path::GroupPath;
use crate::state::{self, State, given};
use crate::steps::{Above, Below, Family, TooNarrow, Who, steps};

/// Somebody else may write at the same moment; then the plan is made anew, so often.
const TRIES: u32 = 3;

/// A group, there or not.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    hierarchy: &'a Hierarchy,
    path: GroupPath,
    cpuset: PathBuf,
    cpu: Option<(Version, PathBuf)>,
}

/// What a group shall allow. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Its CPUs.
    pub cpus: Option<CpuSet>,
    /// The NUMA nodes for its memory.
    pub mems: Option<NodeSet>,
    /// Its limit on CPU time.
    pub cpu_time: Option<CpuTime>,
    /// Whether memory that it has already moves along when its nodes change. For v1 only: v2 always moves it (since
    /// Linux 5.16), and cannot be told otherwise.
    pub migrate_memory: Option<bool>,
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What is really so, read back.
    pub state: State,
    /// The groups above that had to be widened.
    pub widened: Vec<PathBuf>,
    version: Version,
    cpuset: PathBuf,
}

impl Written {
    /// Checks that the group has in the end exactly what was wanted.
    ///
    /// # Errors
    /// [`CgroupError::NotInForce`] if not.
    pub fn in_force(&self, wanted: &Wanted) -> Result<(), CgroupError> {
        let check = |file: &str, asked: Option<String>, found: String| match asked {
            Some(asked) if asked != found => Err(CgroupError::NotInForce {
                path: self.cpuset.join(file),
                asked,
                found,
            }),
            _ => Ok(()),
        };
        let (cpus, mems) = (&self.state.effective_cpus, &self.state.effective_mems);
        let text = |set: &CpuSet| set.to_string();
        let asked = wanted.cpus.as_ref().map(text);
        check(self.version.effective_cpus(), asked, text(cpus))?;
        let asked = wanted.mems.map(|mems| mems.to_string());
        check(self.version.effective_mems(), asked, mems.to_string())
    }
}

impl<'a> Group<'a> {
    pub(crate) fn new(hierarchy: &'a Hierarchy, path: GroupPath) -> Result<Self, CgroupError> {
        let cpuset = hierarchy.cpuset.folder(&path)?;
        let cpu = match &hierarchy.cpu {
            Some(home) => Some((home.version, home.folder(&path)?)),
            None => None,
        };
        Ok(Self {
            hierarchy,
            path,
            cpuset,
            cpu,
        })
    }

    /// What it is called.
    #[must_use]
    pub fn path(&self) -> &GroupPath {
        &self.path
    }

    /// Its folder in the hierarchy that confines CPUs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.cpuset
    }

    /// Whether it is there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.cpuset.is_dir()
    }

    /// Whether a process is in it or below.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        folder::is_populated(&self.cpuset, self.version())
    }

    fn version(&self) -> Version {
        self.hierarchy.cpuset.version
    }

    /// What it allows.
    ///
    /// # Errors
    /// If it cannot be read; [`CgroupError::Vanished`] if it is gone.
    pub fn read(&self) -> Result<State, CgroupError> {
        State::read(self.version(), &self.cpuset, self.cpu_time()?)
    }

    /// Its limit on CPU time alone; `None` if nobody limits it here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn cpu_time(&self) -> Result<Option<CpuTime>, CgroupError> {
        match &self.cpu {
            Some((version, folder)) => state::limit(*version, folder),
            None => Ok(None),
        }
    }

    /// Makes it allow what is wanted, and reads back what is really so. Groups of the kubelet above that lack something
    /// (a pod's, a QoS class's) are widened; `kubepods` and whatever is above it are an administrator's and are not.
    /// The CPUs come before the memory, so that memory moves to where the processes already are.
    ///
    /// # Errors
    /// If something is in the way; some of it may be done then. [`CgroupError::Vanished`] if the group is gone.
    pub fn write(&self, wanted: &Wanted) -> Result<Written, CgroupError> {
        let mut widened = Vec::new();
        if wanted.cpus.is_some() || wanted.mems.is_some() {
            self.reach_for_cpuset()?;
        }
        if let Some(migrate) = wanted
            .migrate_memory
            .filter(|_| self.version() == Version::V1)
        {
            let value = if migrate { "1" } else { "0" };
            control::write(&self.cpuset.join("cpuset.memory_migrate"), value)?;
        }
        if let Some(cpus) = &wanted.cpus {
            self.confine(cpus, &mut widened)?;
        }
        if let Some(mems) = &wanted.mems {
            self.confine(mems, &mut widened)?;
        }
        if let (Some(limit), Some((version, folder))) = (wanted.cpu_time, &self.cpu) {
            limit.write(folder, *version)?;
        }
        Ok(Written {
            state: self.read()?,
            widened,
            version: self.version(),
            cpuset: self.cpuset.clone(),
        })
    }

    /// What it is to the scheduler.
    ///
    /// # Errors
    /// If it cannot be read, or the hierarchy is v1's.
    pub fn partition(&self) -> Result<PartitionState, CgroupError> {
        partition::read(&self.cpuset, self.version())
    }

    /// Keeps every process outside off its CPUs, or lets them in again; checked by reading back. Its CPUs must be set.
    /// Groups above that are no partitions claim the CPUs for it, which kernels can since Linux 6.7.
    ///
    /// # Errors
    /// With the kernel's reason if it holds the partition for invalid; the group is an ordinary one then.
    pub fn set_partition(&self, partition: Partition) -> Result<(), CgroupError> {
        match partition {
            Partition::Member => partition::dissolve(&self.cpuset, &self.claimants()),
            _ if self.version() == Version::V1 => partition.give_to(&self.cpuset, Version::V1),
            _ => partition::form(partition, &self.cpuset, &self.claimants()),
        }
    }

    /// Has the groups above claim no CPUs any more that no group below them needs; this one may be gone.
    ///
    /// # Errors
    /// If the kernel does not allow it.
    pub fn settle_claims(&self) -> Result<(), CgroupError> {
        partition::settle(&self.claimants())
    }

    /// The folders of the groups above that can claim CPUs, from the top.
    fn claimants(&self) -> Vec<PathBuf> {
        let above = self.folders_above().into_iter();
        above.map(|(folder, _)| folder).collect()
    }

    /// In v2, has the groups above hand the controller on if they do not yet.
    fn reach_for_cpuset(&self) -> Result<(), CgroupError> {
        let is_there = self.cpuset.join(CpuSet::FILE).exists();
        if self.version() == Version::V1 || is_there || !self.exists() {
            return Ok(());
        }
        for above in self.folders_above() {
            let file = above.0.join("cgroup.subtree_control");
            if !control::lists(&file, "cpuset") {
                control::write(&file, "+cpuset")?;
            }
        }
        Ok(())
    }

    /// The folders of the groups above that can be seen, from the top, and whether each is ours to widen.
    fn folders_above(&self) -> Vec<(PathBuf, bool)> {
        let kubepods = self.path.kubepods();
        let mut ours = false;
        let mut folders = Vec::new();
        for path in self.path.ancestors() {
            if let Ok(folder) = self.hierarchy.cpuset.folder(&path) {
                folders.push((folder, ours));
            }
            ours |= Some(&path) == kubepods.as_ref();
        }
        folders
    }

    fn confine<S: Ids>(&self, wanted: &S, widened: &mut Vec<PathBuf>) -> Result<(), CgroupError> {
        if wanted.none() {
            return Err(CgroupError::Nothing {
                group: self.cpuset.clone(),
            });
        }
        for attempt in 1.. {
            match self.try_to_confine(wanted, widened) {
                Err(CgroupError::Rejected { .. }) if attempt < TRIES => {}
                done => return done,
            }
        }
        Ok(())
    }

    fn try_to_confine<S: Ids>(
        &self,
        wanted: &S,
        widened: &mut Vec<PathBuf>,
    ) -> Result<(), CgroupError> {
        let version = self.version();
        let folders = self.folders_above();
        let mut above = Vec::with_capacity(folders.len());
        for (folder, ours) in &folders {
            let set = match given(folder) {
                // The root of v2 has no such file, and everything.
                Err(CgroupError::NoFile { .. }) if version == Version::V2 => wanted.clone(),
                set => set?,
            };
            above.push(Above { set, ours: *ours });
        }
        let below = match version {
            Version::V1 => folder::below(&self.cpuset),
            Version::V2 => Vec::new(),
        };
        let family = Family {
            above,
            own: given(&self.cpuset)?,
            below: below
                .iter()
                .map(|(folder, parent)| {
                    // One that went away meanwhile counts as one without anything.
                    let set = given::<S>(folder).unwrap_or_else(|_| wanted.without(wanted));
                    let parent = *parent;
                    Below { set, parent }
                })
                .collect(),
        };
        let plan = steps(version, &family, wanted).map_err(|TooNarrow(index)| {
            too_narrow(&folders[index].0, &family.above[index].set, wanted)
        })?;
        for step in plan {
            let value = step.set.to_string();
            match step.who {
                Who::Above(index) => {
                    let folder = &folders[index].0;
                    control::write(&folder.join(S::FILE), &value)?;
                    if !widened.contains(folder) {
                        widened.push(folder.clone());
                    }
                }
                Who::Own => control::write(&self.cpuset.join(S::FILE), &value)?,
                Who::Below(index) => match control::write(&below[index].0.join(S::FILE), &value) {
                    Err(error) if !error.is_vanished() => return Err(error),
                    _ => {}
                },
            }
        }
        Ok(())
    }
}

fn too_narrow<S: Ids>(folder: &Path, set: &S, wanted: &S) -> CgroupError {
    CgroupError::ParentTooNarrow {
        path: folder.join(S::FILE),
        allows: set.to_string(),
        lacks: wanted.without(set).to_string(),
    }
}

#[cfg(test)]
mod tests;
