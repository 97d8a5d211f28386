//! cgroup v2 partitions: CPUs that no process outside the group may use.
//!
//! A partition takes its CPUs from its parent. If the parent is a partition itself (as the root is), nothing else is
//! needed. If not, all ancestors up to the next partition must first list the CPUs as exclusive:
//!
//! ```text
//! /                    a partition
//! └ kubepods           cpuset.cpus.exclusive 4-7    claims for both
//!   ├ pod1             cpuset.cpus.exclusive 4-5
//!   │ └ c              cpuset.cpus.exclusive 4-5    cpuset.cpus.partition isolated
//!   └ pod2 ...
//! ```
//!
//! An exclusive CPU in an ancestor alone changes nothing, but no sibling may be confined to it. So the claims are
//! removed together with the partition. Kernels before Linux 6.7 have no `cpuset.cpus.exclusive`, and no such
//! partitions.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;

use crate::control;
use crate::error::CgroupError;
use crate::hierarchy::CgroupVersion;
use crate::state::configured;

const FILE: &str = "cpuset.cpus.partition";
const CLAIM: &str = "cpuset.cpus.exclusive";

/// The kinds of a group in `cpuset.cpus.partition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// An ordinary group.
    Member,
    /// Its CPUs are exclusive.
    Root,
    /// Its CPUs are exclusive, and the scheduler does not balance load between them.
    Isolated,
}

impl Partition {
    /// The kernel's name of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Partition::Member => "member",
            Partition::Root => "root",
            Partition::Isolated => "isolated",
        }
    }

    /// Writes this kind to the group in `folder`. A partition that the kernel reports as invalid is undone at once, as
    /// the kernel could make it valid later, without a further write.
    ///
    /// # Errors
    /// With the kernel's reason if the partition is invalid; the group is an ordinary member then.
    pub fn apply_to(self, folder: &Path, version: CgroupVersion) -> Result<(), CgroupError> {
        let is_applied =
            |found: &PartitionState| found.partition == self && found.invalid.is_none();
        if is_applied(&read(folder, version)?) {
            return Ok(());
        }
        let path = folder.join(FILE);
        control::write(&path, self.as_str())?;
        let found = read(folder, version)?;
        if is_applied(&found) {
            return Ok(());
        }
        control::write(&path, Partition::Member.as_str())?;
        Err(CgroupError::InvalidPartition {
            group: folder.to_owned(),
            requested: self.as_str(),
            reason: found
                .invalid
                .unwrap_or_else(|| format!("the kernel applied {}", found.partition.as_str())),
        })
    }
}

/// The partition kind of a group, and whether it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// The kind.
    pub partition: Partition,
    /// The kernel's reason why it is invalid; `None` if it is valid.
    pub invalid: Option<String>,
}

impl PartitionState {
    /// Parses `isolated`, or `isolated invalid (Parent is not a partition root)`.
    fn parse(text: &str) -> Option<Self> {
        let (as_str, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let kinds = [Partition::Member, Partition::Root, Partition::Isolated];
        let partition = kinds.into_iter().find(|kind| kind.as_str() == as_str)?;
        let invalid = rest.trim().strip_prefix("invalid").map(|reason| {
            let reason = reason.trim().trim_matches(['(', ')']);
            match reason {
                "" => "the kernel gives no reason".to_owned(),
                reason => reason.to_owned(),
            }
        });
        Some(Self { partition, invalid })
    }
}

/// Makes a v2 group a partition of its configured CPUs. `ancestors` are ordered from the root down.
pub(crate) fn create(
    partition: Partition,
    folder: &Path,
    ancestors: &[PathBuf],
) -> Result<(), CgroupError> {
    let now = read(folder, CgroupVersion::V2)?;
    let cpus: CpuSet = configured(folder)?;
    let claimed = claim_of(folder)?;
    let parent = ancestors
        .last()
        .map(|parent| read(parent, CgroupVersion::V2));
    let below_partition = match parent {
        // Only the root has no such file.
        Some(Err(CgroupError::NoFile { .. })) | None => true,
        Some(parent) => {
            let parent = parent?;
            parent.partition != Partition::Member && parent.invalid.is_none()
        }
    };
    if below_partition || claimed.is_none() {
        let configured = partition.apply_to(folder, CgroupVersion::V2);
        return configured.map_err(|error| match error {
            CgroupError::InvalidPartition {
                group,
                requested,
                reason,
            } if !below_partition => CgroupError::InvalidPartition {
                group,
                requested,
                reason: format!(
                    "{reason}; below groups that are not partitions, Linux 6.7 is needed"
                ),
            },
            error => error,
        });
    }
    let is_valid = now.partition == partition && now.invalid.is_none();
    if is_valid && claimed.as_ref() == Some(&cpus) {
        return Ok(());
    }
    // The claims of a valid partition cannot be changed.
    Partition::Member.apply_to(folder, CgroupVersion::V2)?;
    for group in ancestors {
        if let Some(claimed) = claim_of(group)?
            && !cpus.is_subset(&claimed)
        {
            control::write(&group.join(CLAIM), &(&claimed | &cpus).to_string())?;
        }
    }
    let created = control::write(&folder.join(CLAIM), &cpus.to_string())
        .and_then(|()| partition.apply_to(folder, CgroupVersion::V2));
    if created.is_err() {
        remove(folder, ancestors)?;
    }
    created
}

/// Makes a v2 group an ordinary member, and removes the claims of its ancestors.
pub(crate) fn remove(folder: &Path, ancestors: &[PathBuf]) -> Result<(), CgroupError> {
    Partition::Member.apply_to(folder, CgroupVersion::V2)?;
    if claim_of(folder)?.is_some_and(|claimed| !claimed.is_empty()) {
        control::write(&folder.join(CLAIM), "")?;
    }
    remove_unused_claims(ancestors)
}

/// Removes claims that no child group needs, from the leaf up.
pub(crate) fn remove_unused_claims(ancestors: &[PathBuf]) -> Result<(), CgroupError> {
    for group in ancestors.iter().rev() {
        let claimed = match claim_of(group) {
            Err(error) if error.is_vanished() => continue,
            claimed => claimed?.unwrap_or_default(),
        };
        // The claims of a partition are its own CPUs.
        if claimed.is_empty() || read(group, CgroupVersion::V2)?.partition != Partition::Member {
            continue;
        }
        let mut needed = CpuSet::new();
        for below in fs::read_dir(group).into_iter().flatten().flatten() {
            if let Ok(Some(claim)) = claim_of(&below.path()) {
                needed |= &claim;
            }
        }
        let kept = &claimed & &needed;
        if kept != claimed {
            control::write(&group.join(CLAIM), &kept.to_string())?;
        }
    }
    Ok(())
}

/// The exclusive CPUs of a group; `None` if it is the root or the kernel is too old.
fn claim_of(folder: &Path) -> Result<Option<CpuSet>, CgroupError> {
    match control::read_cpus(&folder.join(CLAIM)) {
        Ok(claimed) => Ok(Some(claimed)),
        Err(CgroupError::NoFile { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the partition state of the group in `folder`.
pub(crate) fn read(folder: &Path, version: CgroupVersion) -> Result<PartitionState, CgroupError> {
    if version == CgroupVersion::V1 {
        return Err(CgroupError::NoPartitions {
            group: folder.to_owned(),
        });
    }
    let path = folder.join(FILE);
    let text = control::read(&path)?;
    PartitionState::parse(&text).ok_or(CgroupError::Unreadable { path, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_reason_is_parsed_apart_from_the_kind() {
        let state = |partition, invalid: Option<&str>| {
            Some(PartitionState {
                partition,
                invalid: invalid.map(str::to_owned),
            })
        };
        for (text, expected) in [
            ("member\n", state(Partition::Member, None)),
            ("root\n", state(Partition::Root, None)),
            (
                "isolated invalid (Parent is not a partition root)\n",
                state(Partition::Isolated, Some("Parent is not a partition root")),
            ),
            (
                "root invalid\n",
                state(Partition::Root, Some("the kernel gives no reason")),
            ),
            ("", None),
            ("leader\n", None),
        ] {
            assert_eq!(PartitionState::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_partition_on_v1_is_an_error_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let rejected = Partition::Root.apply_to(folder.path(), CgroupVersion::V1);
        assert!(matches!(rejected, Err(CgroupError::NoPartitions { .. })));
    }
}
