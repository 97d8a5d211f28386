//! Partitions of cgroup v2: CPUs that no process outside the group may use.
//!
//! A partition takes its CPUs from the group above. If that is a partition itself (as the root is), all is well. If not,
//! all groups above must claim the CPUs for it first, up to the next partition:
//!
//! ```text
//! /                    a partition
//! └ kubepods           cpuset.cpus.exclusive 4-7    claims for both
//!   ├ pod1             cpuset.cpus.exclusive 4-5
//!   │ └ c              cpuset.cpus.exclusive 4-5    cpuset.cpus.partition isolated
//!   └ pod2 ...
//! ```
//!
//! A claim alone changes nothing, but no group beside may be confined to claimed CPUs. So claims go when the partition
//! goes. Kernels before Linux 6.7 have no claims, and no such partitions.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;

use crate::control;
use crate::error::CgroupError;
use crate::hierarchy::Version;
use crate::state::given;

const FILE: &str = "cpuset.cpus.partition";
const CLAIM: &str = "cpuset.cpus.exclusive";

/// What a group is to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// An ordinary group.
    Member,
    /// Its CPUs are its own.
    Root,
    /// Its CPUs are its own, and the scheduler does not move processes between them.
    Isolated,
}

impl Partition {
    /// The word for it in the group's file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Partition::Member => "member",
            Partition::Root => "root",
            Partition::Isolated => "isolated",
        }
    }

    /// Makes the group in `folder` this. A partition that the kernel holds for invalid is taken back at once: it would
    /// become valid some day without anybody's doing.
    ///
    /// # Errors
    /// With the kernel's reason if it holds the partition for invalid; the group is an ordinary one then.
    pub fn give_to(self, folder: &Path, version: Version) -> Result<(), CgroupError> {
        let is_so = |found: &PartitionState| found.partition == self && found.invalid.is_none();
        if is_so(&read(folder, version)?) {
            return Ok(());
        }
        let path = folder.join(FILE);
        control::write(&path, self.word())?;
        let found = read(folder, version)?;
        if is_so(&found) {
            return Ok(());
        }
        control::write(&path, Partition::Member.word())?;
        Err(CgroupError::InvalidPartition {
            group: folder.to_owned(),
            asked: self.word(),
            reason: found
                .invalid
                .unwrap_or_else(|| format!("the kernel made it {}", found.partition.word())),
        })
    }
}

/// What a group was made, and whether that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// What it was made.
    pub partition: Partition,
    /// Why it is not in force, in the kernel's words; `None` if it is.
    pub invalid: Option<String>,
}

impl PartitionState {
    /// Reads `isolated`, or `isolated invalid (Parent is not a partition root)`.
    fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let kinds = [Partition::Member, Partition::Root, Partition::Isolated];
        let partition = kinds.into_iter().find(|kind| kind.word() == word)?;
        let invalid = rest.trim().strip_prefix("invalid").map(|reason| {
            let reason = reason.trim().trim_matches(['(', ')']);
            match reason {
                "" => "the kernel does not say why".to_owned(),
                reason => reason.to_owned(),
            }
        });
        Some(Self { partition, invalid })
    }
}

/// Makes a group of v2 a partition of the CPUs it has been given. `above` are the groups above, from the top.
pub(crate) fn form(
    partition: Partition,
    folder: &Path,
    above: &[PathBuf],
) -> Result<(), CgroupError> {
    let now = read(folder, Version::V2)?;
    let cpus: CpuSet = given(folder)?;
    let claimed = claim_of(folder)?;
    let parent = above.last().map(|parent| read(parent, Version::V2));
    let below_partition = match parent {
        // Only the root has no such file.
        Some(Err(CgroupError::NoFile { .. })) | None => true,
        Some(parent) => {
            let parent = parent?;
            parent.partition != Partition::Member && parent.invalid.is_none()
        }
    };
    if below_partition || claimed.is_none() {
        let given = partition.give_to(folder, Version::V2);
        return given.map_err(|error| match error {
            CgroupError::InvalidPartition {
                group,
                asked,
                reason,
            } if !below_partition => CgroupError::InvalidPartition {
                group,
                asked,
                reason: format!("{reason}; below groups that are none, Linux 6.7 is needed"),
            },
            error => error,
        });
    }
    let in_force = now.partition == partition && now.invalid.is_none();
    if in_force && claimed.as_ref() == Some(&cpus) {
        return Ok(());
    }
    // Claims of a partition that is in force cannot move.
    Partition::Member.give_to(folder, Version::V2)?;
    for group in above {
        if let Some(claimed) = claim_of(group)?
            && !cpus.is_subset(&claimed)
        {
            control::write(&group.join(CLAIM), &(&claimed | &cpus).to_string())?;
        }
    }
    let formed = control::write(&folder.join(CLAIM), &cpus.to_string())
        .and_then(|()| partition.give_to(folder, Version::V2));
    if formed.is_err() {
        dissolve(folder, above)?;
    }
    formed
}

/// Makes a group of v2 an ordinary one, and takes claims for it back.
pub(crate) fn dissolve(folder: &Path, above: &[PathBuf]) -> Result<(), CgroupError> {
    Partition::Member.give_to(folder, Version::V2)?;
    if claim_of(folder)?.is_some_and(|claimed| !claimed.is_empty()) {
        control::write(&folder.join(CLAIM), "")?;
    }
    settle(above)
}

/// Takes claims back that no group below needs, from the bottom up.
pub(crate) fn settle(above: &[PathBuf]) -> Result<(), CgroupError> {
    for group in above.iter().rev() {
        let claimed = match claim_of(group) {
            Err(error) if error.is_vanished() => continue,
            claimed => claimed?.unwrap_or_default(),
        };
        // Those of a partition are its own.
        if claimed.is_empty() || read(group, Version::V2)?.partition != Partition::Member {
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

/// The CPUs that a group claims; `None` if it cannot: it is the root, or the kernel is too old.
fn claim_of(folder: &Path) -> Result<Option<CpuSet>, CgroupError> {
    match control::read_cpus(&folder.join(CLAIM)) {
        Ok(claimed) => Ok(Some(claimed)),
        Err(CgroupError::NoFile { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the group in `folder` is.
pub(crate) fn read(folder: &Path, version: Version) -> Result<PartitionState, CgroupError> {
    if version == Version::V1 {
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
    fn the_kernel_s_reason_is_told_apart_from_the_kind() {
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
                state(Partition::Root, Some("the kernel does not say why")),
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
        let rejected = Partition::Root.give_to(folder.path(), Version::V1);
        assert!(matches!(rejected, Err(CgroupError::NoPartitions { .. })));
    }
}
