//! Counts instructions per operation with valgrind: the same on every run, so that only changes of the code are
//! visible.
//!
//! Each case with a target runs in its own process, once with few and once with more repetitions; the difference is the
//! cost of the additional repetitions.

use std::process::Command;

use serde_json::json;

use crate::case::BenchCase;

const FEW: u64 = 2;
const MORE: u64 = 12;

/// Instructions by name of the case.
pub(crate) type InstructionCounts = Vec<(String, u64)>;

/// InstructionCounts the cases that have a target.
///
/// # Errors
/// If valgrind cannot be run, with the reason.
pub(crate) fn count(cases: &[BenchCase]) -> Result<InstructionCounts, String> {
    let with_target = cases.iter().filter(|case| case.target_ns.is_some());
    with_target
        .map(|case| {
            let name = case.full_name();
            let few = executed(&name, FEW)?;
            let more = executed(&name, MORE)?;
            Ok((name, more.saturating_sub(few) / (MORE - FEW)))
        })
        .collect()
}

fn executed(name: &str, times: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no"])
        .arg("--cachegrind-out-file=/dev/null")
        .arg(program)
        .args(["--once", name, &times.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    // ==123== I refs:        1,234,567
    let figure = stderr
        .lines()
        .filter_map(|line| line.split_once("refs:"))
        .find_map(|(_, figure)| figure.trim().replace(',', "").parse().ok());
    figure.ok_or_else(|| format!("valgrind did not count {name}: {stderr}"))
}

/// As a list of `{name, instructions}`.
pub(crate) fn json(counts: &InstructionCounts) -> String {
    let rows = counts
        .iter()
        .map(|(name, count)| json!({ "name": name, "instructions": count }));
    let rows: Vec<_> = rows.collect();
    format!("{:#}\n", json!(rows))
}
