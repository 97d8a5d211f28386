//! Instructions per operation, counted by valgrind: the same on every run, so a change of the code shows and a busy
//! machine does not.
//!
//! Each case with a target runs in a process of its own, once with few and once with more repetitions; the difference
//! is what the repetitions cost.

use std::process::Command;

use serde_json::json;

use crate::case::Case;

const FEW: u64 = 2;
const MORE: u64 = 12;

/// Instructions by name of the case.
pub(crate) type Counts = Vec<(String, u64)>;

/// Counts the cases that have a target.
///
/// # Errors
/// If valgrind cannot be used, and why.
pub(crate) fn count(cases: &[Case]) -> Result<Counts, String> {
    let aimed = cases.iter().filter(|case| case.target_ns.is_some());
    aimed
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
    let said = String::from_utf8_lossy(&output.stderr);
    // ==123== I refs:        1,234,567
    let figure = said
        .lines()
        .filter_map(|line| line.split_once("refs:"))
        .find_map(|(_, figure)| figure.trim().replace(',', "").parse().ok());
    figure.ok_or_else(|| format!("valgrind did not count {name}: {said}"))
}

/// As a list of `{name, instructions}`.
pub(crate) fn json(counts: &Counts) -> String {
    let rows = counts
        .iter()
        .map(|(name, count)| json!({ "name": name, "instructions": count }));
    let rows: Vec<_> = rows.collect();
    format!("{:#}\n", json!(rows))
}
