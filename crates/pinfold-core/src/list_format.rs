//! The Linux list format shared by CPU and NUMA node sets: `0-3,8,10-11`.

use std::fmt;

/// Writes ascending IDs, runs of two and more joined with `-`.
pub(crate) fn write<I>(f: &mut fmt::Formatter<'_>, ids: I) -> fmt::Result
where
    I: Iterator<Item = u32>,
{
    let mut ids = ids.peekable();
    let mut separator = "";
    while let Some(start) = ids.next() {
        let mut end = start;
        while let Some(next) = ids.next_if(|&next| next == end + 1) {
            end = next;
        }
        match start == end {
            true => write!(f, "{separator}{start}")?,
            false => write!(f, "{separator}{start}-{end}")?,
        }
        separator = ",";
    }
    Ok(())
}
