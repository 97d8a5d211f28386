//! [`CpuTime`]: how much CPU time a group may use per period, and how each generation writes it.

use std::path::Path;

use crate::control;
use crate::error::CgroupError;
use crate::hierarchy::Version;

const QUOTA: &str = "cpu.cfs_quota_us";
const PERIOD: &str = "cpu.cfs_period_us";
const MAX: &str = "cpu.max";

/// A limit on CPU time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpuTime {
    /// How much in each period; `None` for as much as there is.
    pub quota: Option<u64>,
    /// The length of a period.
    pub period: u64,
}

impl CpuTime {
    /// The period that the kernel starts with and the kubelet uses.
    pub const USUAL_PERIOD: u64 = 100_000;

    /// No limit.
    pub const UNLIMITED: Self = Self {
        quota: None,
        period: Self::USUAL_PERIOD,
    };

    /// Whether both allow the same share. Where nothing is limited, periods do not matter.
    #[must_use]
    pub fn allows_as_much_as(&self, other: &Self) -> bool {
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
    pub(crate) fn read(folder: &Path, version: Version) -> Result<Self, CgroupError> {
        let unreadable = |file: &str, text: &str| CgroupError::Unreadable {
            path: folder.join(file),
            text: text.to_owned(),
        };
        let number = |file: &str, text: &str| -> Result<u64, CgroupError> {
            text.trim().parse().map_err(|_| unreadable(file, text))
        };
        match version {
            Version::V1 => {
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
            Version::V2 => {
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

    /// Sets the limit of the group in `folder`. Without a quota the period stays as it is.
    pub(crate) fn write(&self, folder: &Path, version: Version) -> Result<(), CgroupError> {
        let found = Self::read(folder, version)?;
        if found.allows_as_much_as(self) {
            return Ok(());
        }
        match (version, self.quota) {
            (Version::V1, None) => control::write(&folder.join(QUOTA), "-1"),
            (Version::V1, Some(quota)) => {
                if found.period != self.period {
                    // An old quota with the new period could be more than the group above has.
                    control::write(&folder.join(QUOTA), "-1")?;
                    control::write(&folder.join(PERIOD), &self.period.to_string())?;
                }
                control::write(&folder.join(QUOTA), &quota.to_string())
            }
            (Version::V2, None) => control::write(&folder.join(MAX), "max"),
            (Version::V2, Some(quota)) => {
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
    fn limits_are_read_in_both_generations() {
        let table = [
            (
                Version::V1,
                vec![(QUOTA, "-1\n"), (PERIOD, "100000\n")],
                None,
            ),
            (
                Version::V1,
                vec![(QUOTA, "50000\n"), (PERIOD, "100000\n")],
                Some(50_000),
            ),
            (Version::V2, vec![(MAX, "max 100000\n")], None),
            (Version::V2, vec![(MAX, "50000 100000\n")], Some(50_000)),
        ];
        for (version, files, quota) in table {
            let folder = folder(&files);
            let found = CpuTime::read(folder.path(), version).expect("a limit");
            let period = 100_000;
            assert_eq!(found, CpuTime { quota, period }, "{files:?}");
        }
        for text in ["", "max", "x 100000", "1 -1"] {
            let folder = folder(&[(MAX, text)]);
            let found = CpuTime::read(folder.path(), Version::V2);
            assert!(
                matches!(found, Err(CgroupError::Unreadable { .. })),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_written_limit_is_what_is_read_afterwards() {
        let limits = [
            (Some(20_000), 50_000),
            (None, 50_000),
            (Some(7_000), 10_000),
        ];
        for version in [Version::V1, Version::V2] {
            let folder = folder(&[(QUOTA, "-1"), (PERIOD, "100000"), (MAX, "5 100000")]);
            for (quota, period) in limits {
                let wanted = CpuTime { quota, period };
                wanted.write(folder.path(), version).expect("plain files");
                if version == Version::V2 && quota.is_none() {
                    // The kernel keeps the period that the file loses here.
                    assert_eq!(
                        control::read(&folder.path().join(MAX)).expect("a file"),
                        "max\n"
                    );
                    std::fs::write(folder.path().join(MAX), "max 50000").expect("a file");
                    continue;
                }
                let found = CpuTime::read(folder.path(), version).expect("a limit");
                assert!(found.allows_as_much_as(&wanted), "{found:?} for {wanted:?}");
            }
        }
    }

    #[test]
    fn a_limit_is_a_share_and_not_a_number() {
        let limit = |quota, period| CpuTime { quota, period };
        assert!(limit(Some(1), 2).allows_as_much_as(&limit(Some(50), 100)));
        assert!(limit(None, 2).allows_as_much_as(&CpuTime::UNLIMITED));
        assert!(!limit(Some(u64::MAX), 1).allows_as_much_as(&CpuTime::UNLIMITED));
        assert!(!limit(Some(1), 2).allows_as_much_as(&limit(Some(1), 3)));
    }
}
