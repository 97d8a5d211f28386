//! Checks that run inside a machine with real control groups: the example `control_groups` of the agent.

use std::path::PathBuf;

use crate::programs;
use crate::report::Report;

/// The checks that must run on every machine.
const LEAST: usize = 10;

/// Builds the program.
pub(crate) fn program() -> Result<PathBuf, String> {
    programs::stripped_example("pinfold-agent", "control_groups")
}

/// Reports every check that the program made: lines of `ok NAME` and `FAILED NAME: PROBLEM`.
pub(crate) fn check(report: &mut Report, machine: &str, version: &str, said: &str) {
    let mut checks = 0;
    for line in said.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (name, outcome) = match word {
            "ok" => (rest, Ok(())),
            "FAILED" => {
                let (name, problem) = rest.split_once(": ").unwrap_or((rest, ""));
                (name, Err(problem.to_owned()))
            }
            _ => continue,
        };
        checks += 1;
        report.check(format_args!("{machine}: {name}"), outcome);
    }
    let complete = checks >= LEAST && said.lines().next() == Some(version);
    report.check(
        format_args!("{machine}: control groups are those of {version}, and all was checked"),
        match complete {
            true => Ok(()),
            false => Err(format!("{checks} checks: {said}")),
        },
    );
}
