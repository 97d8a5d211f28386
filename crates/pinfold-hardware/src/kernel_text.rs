//! Parsers of the kernel's text formats: lists, masks, sizes, `Key: value` lines.
//!
//! Blanks, line ends and the NUL bytes of old kernels around a value are ignored; the value itself is parsed strictly.

use pinfold_core::cpu_set::{CpuId, CpuSet};

use crate::numa_id::NumaId;

/// Errors of parsing a kernel file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextError {
    /// Not in the kernel's format.
    Malformed,
    /// An id beyond the limits of Linux.
    OutOfRange(u64),
}

/// Trims blanks, line ends and NUL bytes from both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
}

/// Parses a CPU list such as `0-3,8`; also `(null)`, which some kernels print for an empty set.
pub(crate) fn cpu_list(text: &str) -> Result<CpuSet, TextError> {
    let mut set = CpuSet::new();
    each_of_list(text, CpuId::LIMIT, |id| set.extend(CpuId::new(id)))?;
    Ok(set)
}

/// Parses a list of NUMA nodes: ascending, without duplicates.
pub(crate) fn node_list(text: &str) -> Result<Vec<NumaId>, TextError> {
    let mut nodes = Vec::new();
    each_of_list(text, NumaId::LIMIT, |id| nodes.extend(NumaId::new(id)))?;
    nodes.sort_unstable();
    nodes.dedup();
    Ok(nodes)
}

fn each_of_list(text: &str, limit: u32, mut take: impl FnMut(u32)) -> Result<(), TextError> {
    let text = trim(text);
    if text.is_empty() || text == "(null)" {
        return Ok(());
    }
    for range in text.split(',') {
        let (start, end) = range.split_once('-').unwrap_or((range, range));
        let (start, end) = (number(start)?, number(end)?);
        if start > end {
            return Err(TextError::Malformed);
        }
        if end >= u64::from(limit) {
            return Err(TextError::OutOfRange(end));
        }
        for id in start..=end {
            take(u32::try_from(id).map_err(|_| TextError::OutOfRange(id))?);
        }
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, TextError> {
    let text = trim(text);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TextError::Malformed);
    }
    text.parse().map_err(|_| TextError::OutOfRange(u64::MAX))
}

/// Parses a mask such as `0000ffff,00000003`: hexadecimal words of 32 bits, highest first. hwloc writes `0x` before
/// each word and leaves zero words empty.
pub(crate) fn mask(text: &str) -> Result<Vec<u32>, TextError> {
    let mut bits = Vec::new();
    for (position, word) in trim(text).rsplit(',').enumerate() {
        let word = trim(word);
        let word = word.strip_prefix("0x").unwrap_or(word);
        if word.is_empty() {
            continue;
        }
        let mut word = u32::from_str_radix(word, 16).map_err(|_| TextError::Malformed)?;
        while word != 0 {
            let id = position as u64 * 32 + u64::from(word.trailing_zeros());
            let id = u32::try_from(id).map_err(|_| TextError::OutOfRange(id))?;
            if id >= CpuId::LIMIT {
                return Err(TextError::OutOfRange(u64::from(id)));
            }
            bits.push(id);
            word &= word - 1;
        }
    }
    Ok(bits)
}

/// Parses a mask of CPUs.
pub(crate) fn cpu_mask(text: &str) -> Result<CpuSet, TextError> {
    Ok(mask(text)?.into_iter().filter_map(CpuId::new).collect())
}

/// Parses a mask of NUMA nodes, ascending.
pub(crate) fn node_mask(text: &str) -> Result<Vec<NumaId>, TextError> {
    let mut nodes = Vec::new();
    for id in mask(text)? {
        nodes.push(NumaId::new(id).ok_or(TextError::OutOfRange(u64::from(id)))?);
    }
    nodes.sort_unstable();
    Ok(nodes)
}

/// The number after `key:` in a line such as `Node 0 MemTotal:  65536 kB`, in bytes.
pub(crate) fn kib_field(text: &str, key: &str) -> Option<u64> {
    for line in text.lines() {
        let Some(at) = line.find(key) else { continue };
        let Some(value) = line[at + key.len()..].strip_prefix(':') else {
            continue;
        };
        let value = trim(value).strip_suffix("kB")?;
        return trim(value).parse::<u64>().ok()?.checked_mul(1024);
    }
    None
}

/// Parses a cache size such as `32768K`, the only form that the kernel prints, in bytes.
pub(crate) fn cache_size(text: &str) -> Option<u64> {
    trim(text)
        .strip_suffix('K')?
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_as_the_kernel_prints_them() {
        for (text, expected) in [
            ("0-3,8\n", Ok("0-3,8")),
            ("0-3\n\0", Ok("0-3")),
            ("", Ok("")),
            (" (null)\n", Ok("")),
            ("4095", Ok("4095")),
            ("4096", Err(TextError::OutOfRange(4096))),
            (
                "0-18446744073709551616",
                Err(TextError::OutOfRange(u64::MAX)),
            ),
            ("3-1", Err(TextError::Malformed)),
            ("1,,2", Err(TextError::Malformed)),
            ("1-2-3", Err(TextError::Malformed)),
            ("-1", Err(TextError::Malformed)),
            ("x", Err(TextError::Malformed)),
        ] {
            let read = cpu_list(text).map(|set| set.to_string());
            assert_eq!(read, expected.map(str::to_owned), "{text:?}");
        }
    }

    #[test]
    fn masks_are_parsed_in_the_kernel_s_and_in_hwloc_s_form() {
        for (text, expected) in [
            ("00000000,0000000f\n", Ok("0-3")),
            ("0000,00000001,80000000", Ok("31-32")),
            ("0x00000001,,0x00000001", Ok("0,64")),
            ("3", Ok("0-1")),
            ("0x0", Ok("")),
            ("0xf...f,0x1", Err(TextError::Malformed)),
            ("zz", Err(TextError::Malformed)),
        ] {
            let read = cpu_mask(text).map(|set| set.to_string());
            assert_eq!(read, expected.map(str::to_owned), "{text:?}");
        }
        let beyond = format!("1{}", ",0".repeat(128));
        assert_eq!(cpu_mask(&beyond), Err(TextError::OutOfRange(4096)));
    }

    #[test]
    fn sizes_are_bytes() {
        assert_eq!(
            kib_field("Node 0 MemTotal:   16 kB\n", "MemTotal"),
            Some(16384)
        );
        assert_eq!(kib_field("MemTotal: x kB", "MemTotal"), None);
        assert_eq!(
            kib_field("MemTotal: 18446744073709551615 kB", "MemTotal"),
            None
        );
        assert_eq!(cache_size("32K\n"), Some(32768));
        assert_eq!(cache_size("32"), None);
    }
}
