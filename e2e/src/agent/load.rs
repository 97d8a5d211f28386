//! Many containers at once, and for long: how long decisions take, and what the agent needs.

use std::fs;

/// The memory of a process, in KiB.
pub(crate) fn resident(process: u32) -> Result<u64, String> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("no VmRSS in {path}"))
}
