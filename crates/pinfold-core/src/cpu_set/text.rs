//! Reading CPU sets, with the kubelet's rules and error texts.

use super::{CpuId, CpuSet};
use crate::go_text::{self, GoTextError};

/// Text that is not a CPU set. The message is the one the kubelet would print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetTextError {
    /// Not a decimal number, or one that no integer can hold.
    #[error(transparent)]
    Number(#[from] GoTextError),
    /// The end lies before the start.
    #[error("invalid range {text} ({start} > {end})", text = go_text::quoted(text))]
    Backwards {
        /// The range as written.
        text: String,
        /// Its first number.
        start: i64,
        /// Its last number.
        end: i64,
    },
    /// A well-formed number that no CPU of a machine can have.
    #[error("CPU id {0} is not below {limit}", limit = CpuId::LIMIT)]
    NoSuchCpu(i64),
}

impl CpuSet {
    /// Reads the Linux list format as the kubelet's `cpuset.Parse` does: the empty text is the empty
    /// set, blanks are not skipped, a leading `+` is a number's sign, overlapping ranges unite.
    ///
    /// # Errors
    /// With the kubelet's own text, or [`CpuSetTextError::NoSuchCpu`] for ids from 4096 on, which the
    /// kubelet would store and no machine has.
    pub fn parse(text: &str) -> Result<CpuSet, CpuSetTextError> {
        let mut set = CpuSet::new();
        if text.is_empty() {
            return Ok(set);
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
            for id in start..=end.min(i64::from(CpuId::LIMIT)) {
                let cpu = u32::try_from(id).ok().and_then(CpuId::new);
                set.insert(cpu.ok_or(CpuSetTextError::NoSuchCpu(id))?);
            }
        }
        Ok(set)
    }
}

impl std::str::FromStr for CpuSet {
    type Err = CpuSetTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        CpuSet::parse(text)
    }
}
