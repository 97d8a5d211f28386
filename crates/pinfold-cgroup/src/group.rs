//! [`Cgroup`]: reads and changes one group.

use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use crate::control;
use crate::cpu_time::CpuTimeLimit;
use crate::error::CgroupError;
use crate::folder;
use crate::hierarchy::{CgroupVersion, Hierarchy};
use crate::ids::IdSet;
use crate::partition::{self, Partition, PartitionState};
use crate::path::GroupPath;
use crate::state::{self, CgroupState, configured};
use crate::steps::{Ancestor, CgroupTree, Descendant, GroupRef, TooNarrow, plan_writes};

/// Attempts to change a group while another process writes to the same tree; the order of writes is planned anew each
/// time.
const TRIES: u32 = 3;

/// A group by its path. It need not exist.
#[derive(Clone, Debug)]
pub struct Cgroup<'a> {
    hierarchy: &'a Hierarchy,
    path: GroupPath,
    cpuset: PathBuf,
    cpu: Option<(CgroupVersion, PathBuf)>,
}

/// The settings to write. `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupSettings {
    /// The CPUs.
    pub cpus: Option<CpuSet>,
    /// The NUMA nodes of its memory.
    pub mems: Option<NodeSet>,
    /// The CFS quota and period.
    pub cpu_time: Option<CpuTimeLimit>,
    /// Whether pages already allocated move when the memory nodes change. v1 only: v2 always moves them (since Linux
    /// 5.16).
    pub migrate_memory: Option<bool>,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupChange {
    /// The group's state, read back after the write.
    pub state: CgroupState,
    /// The ancestors that were widened.
    pub widened: Vec<PathBuf>,
    version: CgroupVersion,
    cpuset: PathBuf,
}

/// An ancestor of a group that allows fewer CPUs than the group needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NarrowAncestor {
    /// The ancestor.
    pub path: GroupPath,
    /// The CPUs that it allows.
    pub allows: CpuSet,
    /// Whether it belongs to the kubelet and may be widened; otherwise it belongs to the administrator.
    pub widenable: bool,
}

impl CgroupChange {
    /// Checks that the effective CPUs and memory nodes are exactly the requested ones.
    ///
    /// # Errors
    /// [`CgroupError::NotApplied`] if not.
    pub fn verify_applied(&self, wanted: &CgroupSettings) -> Result<(), CgroupError> {
        let check = |file: &str, requested: Option<String>, found: String| match requested {
            Some(requested) if requested != found => Err(CgroupError::NotApplied {
                path: self.cpuset.join(file),
                requested,
                found,
            }),
            _ => Ok(()),
        };
        let (cpus, mems) = (&self.state.effective_cpus, &self.state.effective_mems);
        let text = |set: &CpuSet| set.to_string();
        let requested = wanted.cpus.as_ref().map(text);
        check(self.version.effective_cpus(), requested, text(cpus))?;
        let requested = wanted.mems.map(|mems| mems.to_string());
        check(self.version.effective_mems(), requested, mems.to_string())
    }
}

impl<'a> Cgroup<'a> {
    pub(crate) fn new(hierarchy: &'a Hierarchy, path: GroupPath) -> Result<Self, CgroupError> {
        let cpuset = hierarchy.cpuset.folder(&path)?;
        let cpu = match &hierarchy.cpu {
            Some(controller) => Some((controller.version, controller.folder(&path)?)),
            None => None,
        };
        Ok(Self {
            hierarchy,
            path,
            cpuset,
            cpu,
        })
    }

    /// The group's path.
    #[must_use]
    pub fn path(&self) -> &GroupPath {
        &self.path
    }

    /// The group's folder in the cpuset hierarchy.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.cpuset
    }

    /// Whether the group exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.cpuset.is_dir()
    }

    /// Whether a process is in the group or in one of its descendants.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        folder::is_populated(&self.cpuset, self.version())
    }

    fn version(&self) -> CgroupVersion {
        self.hierarchy.cpuset.version
    }

    /// Reads the group's limits.
    ///
    /// # Errors
    /// If a file cannot be read; [`CgroupError::Vanished`] if the group no longer exists.
    pub fn read(&self) -> Result<CgroupState, CgroupError> {
        CgroupState::read(self.version(), &self.cpuset, self.cpu_time()?)
    }

    /// Reads only the effective CPUs and memory nodes, which the root has too.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn effective_sets(&self) -> Result<(CpuSet, NodeSet), CgroupError> {
        let version = self.version();
        let cpus = control::read_cpus(&self.cpuset.join(version.effective_cpus()))?;
        let mems = control::read_mems(&self.cpuset.join(version.effective_mems()))?;
        Ok((cpus, mems))
    }

    /// Reads only the CFS limit; `None` if the cpu controller is not enabled here.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn cpu_time(&self) -> Result<Option<CpuTimeLimit>, CgroupError> {
        match &self.cpu {
            Some((version, folder)) => state::read_cpu_time(*version, folder),
            None => Ok(None),
        }
    }

    /// Writes the settings and reads back the result. Ancestors that belong to the kubelet (a pod's, a QoS class's) are
    /// widened if they lack CPUs or nodes; `kubepods` and its ancestors belong to the administrator and are not. CPUs
    /// are written before memory nodes, so that pages move to where the processes already run.
    ///
    /// # Errors
    /// If a write is rejected; earlier writes remain. [`CgroupError::Vanished`] if the group no longer exists.
    pub fn write(&self, wanted: &CgroupSettings) -> Result<CgroupChange, CgroupError> {
        let mut widened = Vec::new();
        if wanted.cpus.is_some() || wanted.mems.is_some() {
            self.enable_cpuset_controller()?;
        }
        if let Some(migrate) = wanted
            .migrate_memory
            .filter(|_| self.version() == CgroupVersion::V1)
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
        Ok(CgroupChange {
            state: self.read()?,
            widened,
            version: self.version(),
            cpuset: self.cpuset.clone(),
        })
    }

    /// The ancestors whose configured CPUs lack some of `cpus`, from the root down.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn narrow_ancestors(&self, cpus: &CpuSet) -> Result<Vec<NarrowAncestor>, CgroupError> {
        let mut narrow = Vec::new();
        for (path, folder, widenable) in self.ancestors() {
            let allows: CpuSet = match configured(&folder) {
                Err(CgroupError::NoFile { .. }) => continue,
                set => set?,
            };
            if !allows.is_empty() && !cpus.is_subset(&allows) {
                narrow.push(NarrowAncestor {
                    path,
                    allows,
                    widenable,
                });
            }
        }
        Ok(narrow)
    }

    /// Reads the group's partition state.
    ///
    /// # Errors
    /// If it cannot be read, or the hierarchy is v1.
    pub fn partition(&self) -> Result<PartitionState, CgroupError> {
        partition::read(&self.cpuset, self.version())
    }

    /// Makes the group a partition or an ordinary member, and checks the result. Its CPUs must be set. Ancestors that
    /// are not partitions claim the CPUs for it, which needs Linux 6.7.
    ///
    /// # Errors
    /// With the kernel's reason if the partition is invalid; the group is an ordinary member then.
    pub fn set_partition(&self, partition: Partition) -> Result<(), CgroupError> {
        match partition {
            Partition::Member => partition::remove(&self.cpuset, &self.claiming_ancestors()),
            _ if self.version() == CgroupVersion::V1 => {
                partition.apply_to(&self.cpuset, CgroupVersion::V1)
            }
            _ => partition::create(partition, &self.cpuset, &self.claiming_ancestors()),
        }
    }

    /// Removes exclusive CPUs from ancestors that no group below them needs. The group itself may be removed already.
    ///
    /// # Errors
    /// If the kernel rejects a write.
    pub fn release_unused_claims(&self) -> Result<(), CgroupError> {
        partition::remove_unused_claims(&self.claiming_ancestors())
    }

    /// The folders of the ancestors that can claim exclusive CPUs, from the root down.
    fn claiming_ancestors(&self) -> Vec<PathBuf> {
        let ancestors = self.ancestors().into_iter();
        ancestors.map(|(_, folder, _)| folder).collect()
    }

    /// On v2, enables the cpuset controller in the ancestors' `cgroup.subtree_control`.
    fn enable_cpuset_controller(&self) -> Result<(), CgroupError> {
        let is_there = self.cpuset.join(CpuSet::FILE).exists();
        if self.version() == CgroupVersion::V1 || is_there || !self.exists() {
            return Ok(());
        }
        for (_, folder, _) in self.ancestors() {
            let file = folder.join("cgroup.subtree_control");
            if !control::lists(&file, "cpuset") {
                control::write(&file, "+cpuset")?;
            }
        }
        Ok(())
    }

    /// The mounted ancestors and their folders, from the root down, and whether each may be widened.
    fn ancestors(&self) -> Vec<(GroupPath, PathBuf, bool)> {
        let kubepods = self.path.kubepods();
        let mut widenable = false;
        let mut ancestors = Vec::new();
        for path in self.path.ancestors() {
            let is_kubepods = Some(&path) == kubepods.as_ref();
            if let Ok(folder) = self.hierarchy.cpuset.folder(&path) {
                ancestors.push((path, folder, widenable));
            }
            widenable |= is_kubepods;
        }
        ancestors
    }

    fn confine<S: IdSet>(&self, wanted: &S, widened: &mut Vec<PathBuf>) -> Result<(), CgroupError> {
        if wanted.is_empty_set() {
            return Err(CgroupError::EmptySet {
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

    fn try_to_confine<S: IdSet>(
        &self,
        wanted: &S,
        widened: &mut Vec<PathBuf>,
    ) -> Result<(), CgroupError> {
        let version = self.version();
        let folders = self.ancestors();
        let mut ancestors = Vec::with_capacity(folders.len());
        for (_, folder, widenable) in &folders {
            let set = match configured(folder) {
                // The root of v2 has no such file and allows everything.
                Err(CgroupError::NoFile { .. }) if version == CgroupVersion::V2 => wanted.clone(),
                set => set?,
            };
            ancestors.push(Ancestor {
                set,
                widenable: *widenable,
            });
        }
        let descendants = match version {
            CgroupVersion::V1 => folder::descendants(&self.cpuset),
            CgroupVersion::V2 => Vec::new(),
        };
        let tree = CgroupTree {
            ancestors,
            own: configured(&self.cpuset)?,
            descendants: descendants
                .iter()
                .map(|(folder, parent)| {
                    // A group removed meanwhile counts as one with an empty set.
                    let set = configured::<S>(folder).unwrap_or_else(|_| wanted.without(wanted));
                    let parent = *parent;
                    Descendant { set, parent }
                })
                .collect(),
        };
        let plan = plan_writes(version, &tree, wanted).map_err(|TooNarrow(index)| {
            too_narrow(&folders[index].1, &tree.ancestors[index].set, wanted)
        })?;
        for step in plan {
            let value = step.set.to_string();
            match step.group_ref {
                GroupRef::Ancestor(index) => {
                    let folder = &folders[index].1;
                    control::write(&folder.join(S::FILE), &value)?;
                    if !widened.contains(folder) {
                        widened.push(folder.clone());
                    }
                }
                GroupRef::Own => control::write(&self.cpuset.join(S::FILE), &value)?,
                GroupRef::Descendant(index) => {
                    match control::write(&descendants[index].0.join(S::FILE), &value) {
                        Err(error) if !error.is_vanished() => return Err(error),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

fn too_narrow<S: IdSet>(folder: &Path, set: &S, wanted: &S) -> CgroupError {
    CgroupError::ParentTooNarrow {
        path: folder.join(S::FILE),
        allows: set.to_string(),
        lacks: wanted.without(set).to_string(),
    }
}

#[cfg(test)]
mod tests;
