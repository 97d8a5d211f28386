//! Partitions of cgroup v2: CPUs that no process outside the group may use.

use std::path::Path;

use crate::control;
use crate::error::CgroupError;
use crate::hierarchy::Version;

const FILE: &str = "cpuset.cpus.partition";

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
        let refused = Partition::Root.give_to(folder.path(), Version::V1);
        assert!(matches!(refused, Err(CgroupError::NoPartitions { .. })));
    }
}
