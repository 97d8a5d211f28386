//! Parses CPU sets, with the kubelet's rules and error messages.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CpuId, CpuSet};
use crate::go_text::{self, GoTextError};

/// Text that is not a CPU set. The message is the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuSetTextError {
    /// Not a decimal number, or one that overflows.
    #[error(transparent)]
    Number(#[from] GoTextError),
    /// A range whose end is before its start.
    #[error("invalid range {} ({start} > {end})", go_text::quoted(text))]
    Backwards {
        /// The range as written.
        text: String,
        /// Its first number.
        start: i64,
        /// Its last number.
        end: i64,
    },
    /// A number that no CPU of a machine can have.
    #[error("CPU id {0} is not below {limit}", limit = CpuId::LIMIT)]
    NoSuchCpu(i64),
}

/// A list of CPU IDs, including IDs that no machine can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList {
    /// First and last ID of each run, ascending, with a gap between any two runs.
    runs: Vec<(i64, i64)>,
}

impl CpuList {
    /// Parses the Linux list format as the kubelet's `cpuset.Parse` does: the empty string is the empty set, blanks are
    /// not skipped, a leading `+` is a number's sign, overlapping ranges are merged.
    ///
    /// # Errors
    /// With the kubelet's message.
    pub fn parse(text: &str) -> Result<CpuList, CpuSetTextError> {
        let mut runs = Vec::new();
        if text.is_empty() {
            return Ok(CpuList { runs });
        }
        for range in text.split(',') {
            let (start, end) = match range.split_once('-') {
                None => {
                    let only = go_text::integer(range)?;
                    (only, only)
                }
                Some((start, end)) => (go_text::integer(start)?, go_text::integer(end)?),
            };
            if start > end {
                return Err(CpuSetTextError::Backwards {
                    text: range.to_owned(),
                    start,
                    end,
                });
            }
            runs.push((start, end));
        }
        runs.sort_unstable();
        runs.dedup_by(|next, run| {
            let touches = next.0 <= run.1.saturating_add(1);
            if touches {
                run.1 = run.1.max(next.1);
            }
            touches
        });
        Ok(CpuList { runs })
    }

    /// The number of IDs in the list.
    #[must_use]
    pub fn len(&self) -> u64 {
        let sizes = self.runs.iter().map(|run| run.1.abs_diff(run.0));
        sizes.fold(0, |sum, size| sum.saturating_add(size).saturating_add(1))
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The same IDs as a set.
    ///
    /// # Errors
    /// [`CpuSetTextError::NoSuchCpu`] with the first ID that no machine can have.
    pub fn to_set(&self) -> Result<CpuSet, CpuSetTextError> {
        let mut set = CpuSet::new();
        for &(start, end) in &self.runs {
            // The first ID past the limit ends the loop, however long the run is.
            for id in start..=end {
                let cpu = u32::try_from(id).ok().and_then(CpuId::new);
                set.insert(cpu.ok_or(CpuSetTextError::NoSuchCpu(id))?);
            }
        }
        Ok(set)
    }
}

/// Serialized as text, as in a configuration.
impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        CpuList::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl From<&CpuSet> for CpuList {
    fn from(set: &CpuSet) -> Self {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for cpu in set {
            let id = i64::from(cpu.get());
            match runs.last_mut() {
                Some(run) if run.1 + 1 == id => run.1 = id,
                _ => runs.push((id, id)),
            }
        }
        CpuList { runs }
    }
}

/// The Linux list format: `0-3,8`.
impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (start, end) in &self.runs {
            match start == end {
                true => write!(f, "{separator}{start}")?,
                false => write!(f, "{separator}{start}-{end}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl CpuSet {
    /// Parses the Linux list format; see [`CpuList::parse`] for the rules.
    ///
    /// # Errors
    /// With the kubelet's message, or [`CpuSetTextError::NoSuchCpu`] for IDs from 4096 on, which the kubelet would
    /// store although no machine has them.
    pub fn parse(text: &str) -> Result<CpuSet, CpuSetTextError> {
        CpuList::parse(text)?.to_set()
    }
}

impl std::str::FromStr for CpuSet {
    type Err = CpuSetTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        CpuSet::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_name_cpus_that_no_machine_has() {
        let list = CpuList::parse("4095-9223372036854775807").unwrap();
        assert_eq!(list.len(), (1 << 63) - 4095);
        assert_eq!(list.to_set(), Err(CpuSetTextError::NoSuchCpu(4096)));
    }

    #[test]
    fn runs_that_touch_are_written_as_one() {
        let list = CpuList::parse("9,4-6,7-8,1,5").unwrap();
        assert_eq!(list.to_string(), "1,4-9");
        assert_eq!(list.len(), 7);
    }
}
