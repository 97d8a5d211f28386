//! [`CpuTimeLimit`]: the CFS quota of a group per period, and its files in cgroup v1 and v2.

use std::path::Path;

use crate::control;
use crate::error::CgroupError;
use crate::hierarchy::CgroupVersion;

const QUOTA: &str = "cpu.cfs_quota_us";
const PERIOD: &str = "cpu.cfs_period_us";
const MAX: &str = "cpu.max";

/// A CFS quota and period, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpuTimeLimit {
    /// The CPU time in each period; `None` for no limit.
    pub quota: Option<u64>,
    /// The length of a period.
    pub period: u64,
}

impl CpuTimeLimit {
    /// The kernel's default period, which the kubelet uses too.
    pub const DEFAULT_PERIOD: u64 = 100_000;

    /// No limit.
    pub const UNLIMITED: Self = Self {
        quota: None,
        period: Self::DEFAULT_PERIOD,
    };

    /// Whether both allow the same share of CPU time. Without a quota the period does not matter.
    #[must_use]
    pub fn allows_same_share(&self, other: &Self) -> bool {
        match (self.quota, other.quota) {
            (None, None) => true,
            (Some(own), Some(others)) => {
                u128::from(own) * u128::from(other.period)
                    == u128::from(others) * u128::from(self.period)
            }
            _ => false,
        }
    }

    /// Reads the limit of the group in `folder`.
    pub(crate) fn read(folder: &Path, version: CgroupVersion) -> Result<Self, CgroupError> {
        let unreadable = |file: &str, text: &str| CgroupError::Unreadable {
            path: folder.join(file),
            text: text.to_owned(),
        };
        let number = |file: &str, text: &str| -> Result<u64, CgroupError> {
            text.trim().parse().map_err(|_| unreadable(file, text))
        };
        match version {
            CgroupVersion::V1 => {
                let quota = control::read(&folder.join(QUOTA))?;
                let period = control::read(&folder.join(PERIOD))?;
                Ok(Self {
                    quota: match quota.trim().starts_with('-') {
                        true => None,
                        false => Some(number(QUOTA, &quota)?),
                    },
                    period: number(PERIOD, &period)?,
                })
            }
            CgroupVersion::V2 => {
                let text = control::read(&folder.join(MAX))?;
                let (quota, period) = text
                    .trim()
                    .split_once(' ')
                    .ok_or_else(|| unreadable(MAX, &text))?;
                Ok(Self {
                    quota: match quota {
                        "max" => None,
                        quota => Some(number(MAX, quota)?),
                    },
                    period: number(MAX, period)?,
                })
            }
        }
    }

    /// Writes the limit of the group in `folder`. Without a quota the period is left unchanged.
    pub(crate) fn write(&self, folder: &Path, version: CgroupVersion) -> Result<(), CgroupError> {
        let found = Self::read(folder, version)?;
        if found.allows_same_share(self) {
            return Ok(());
        }
        match (version, self.quota) {
            (CgroupVersion::V1, None) => control::write(&folder.join(QUOTA), "-1"),
            (CgroupVersion::V1, Some(quota)) => {
                if found.period != self.period {
                    // The old quota with the new period could exceed the limit of the parent group.
                    control::write(&folder.join(QUOTA), "-1")?;
                    control::write(&folder.join(PERIOD), &self.period.to_string())?;
                }
                control::write(&folder.join(QUOTA), &quota.to_string())
            }
            (CgroupVersion::V2, None) => control::write(&folder.join(MAX), "max"),
            (CgroupVersion::V2, Some(quota)) => {
                control::write(&folder.join(MAX), &format!("{quota} {}", self.period))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        folder
    }

    #[test]
    fn limits_are_read_in_both_versions() {
        let table = [
            (
                CgroupVersion::V1,
                vec![(QUOTA, "-1\n"), (PERIOD, "100000\n")],
                None,
            ),
            (
                CgroupVersion::V1,
                vec![(QUOTA, "50000\n"), (PERIOD, "100000\n")],
                Some(50_000),
            ),
            (CgroupVersion::V2, vec![(MAX, "max 100000\n")], None),
            (
                CgroupVersion::V2,
                vec![(MAX, "50000 100000\n")],
                Some(50_000),
            ),
        ];
        for (version, files, quota) in table {
            let folder = folder(&files);
            let found = CpuTimeLimit::read(folder.path(), version).expect("a limit");
            let period = 100_000;
            assert_eq!(found, CpuTimeLimit { quota, period }, "{files:?}");
        }
        for text in ["", "max", "x 100000", "1 -1"] {
            let folder = folder(&[(MAX, text)]);
            let found = CpuTimeLimit::read(folder.path(), CgroupVersion::V2);
            assert!(
                matches!(found, Err(CgroupError::Unreadable { .. })),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_limit_is_read_back_as_it_was_written() {
        let limits = [
            (Some(20_000), 50_000),
            (None, 50_000),
            (Some(7_000), 10_000),
        ];
        for version in [CgroupVersion::V1, CgroupVersion::V2] {
            let folder = folder(&[(QUOTA, "-1"), (PERIOD, "100000"), (MAX, "5 100000")]);
            for (quota, period) in limits {
                let wanted = CpuTimeLimit { quota, period };
                wanted.write(folder.path(), version).expect("plain files");
                if version == CgroupVersion::V2 && quota.is_none() {
                    // The kernel keeps the period; this plain file loses it.
                    assert_eq!(
                        control::read(&folder.path().join(MAX)).expect("a file"),
                        "max\n"
                    );
                    std::fs::write(folder.path().join(MAX), "max 50000").expect("a file");
                    continue;
                }
                let found = CpuTimeLimit::read(folder.path(), version).expect("a limit");
                assert!(found.allows_same_share(&wanted), "{found:?} for {wanted:?}");
            }
        }
    }

    #[test]
    fn limits_compare_by_share_and_not_by_quota() {
        let limit = |quota, period| CpuTimeLimit { quota, period };
        assert!(limit(Some(1), 2).allows_same_share(&limit(Some(50), 100)));
        assert!(limit(None, 2).allows_same_share(&CpuTimeLimit::UNLIMITED));
        assert!(!limit(Some(u64::MAX), 1).allows_same_share(&CpuTimeLimit::UNLIMITED));
        assert!(!limit(Some(1), 2).allows_same_share(&limit(Some(1), 3)));
    }
}
