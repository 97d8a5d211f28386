//! Reading CPU sets, with the kubelet's rules and error texts.

use super::{CpuId, CpuSet};

/// Text that is not a CPU set. The message is the one the kubelet would print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetTextError {
    /// Not a decimal number.
    #[error("strconv.Atoi: parsing {0:?}: invalid syntax")]
    NotANumber(String),
    /// A number too large even for a 64-bit integer.
    #[error("strconv.Atoi: parsing {0:?}: value out of range")]
    TooLarge(String),
    /// The end lies before the start.
    #[error("invalid range {text:?} ({start} > {end})")]
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
                    let only = number(range)?;
                    (only, only)
                }
                Some((start, end)) => (number(start)?, number(end)?),
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

/// Go's `strconv.Atoi`: an optional sign, then decimal digits only.
fn number(text: &str) -> Result<i64, CpuSetTextError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CpuSetTextError::NotANumber(text.to_owned()));
    }
    text.parse()
        .map_err(|_| CpuSetTextError::TooLarge(text.to_owned()))
}

impl std::str::FromStr for CpuSet {
    type Err = CpuSetTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        CpuSet::parse(text)
    }
}
