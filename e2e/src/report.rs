//! One line per check, and the count at the end.

use std::fmt::Display;
use std::process::ExitCode;

/// What a line begins with that repeats a failure.
const AGAIN: &str = "failed: ";

/// The checks so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    /// What failed, to be said again at the end.
    failed: Vec<String>,
}

impl Report {
    /// Notes one check.
    pub(crate) fn check(&mut self, name: impl Display, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                say(format_args!("ok      {name}"));
            }
            Err(problem) => {
                let failed = format!("{name}: {problem}");
                say(format_args!("FAILED  {failed}"));
                self.failed.push(failed);
            }
        }
    }

    /// Notes the checks that another report said, of a program that ran elsewhere; it must have come to its end.
    pub(crate) fn repeat(&mut self, place: &str, said: &str) {
        let mut checks: Vec<(&str, Result<(), String>)> = Vec::new();
        let mut end = None;
        for line in said.lines() {
            if let Some(name) = line.strip_prefix("ok      ") {
                checks.push((name, Ok(())));
            } else if let Some(failed) = line.strip_prefix("FAILED  ") {
                let (name, problem) = failed.split_once(": ").unwrap_or((failed, ""));
                checks.push((name, Err(problem.to_owned())));
            } else if line.starts_with(AGAIN) {
                // It was told where it failed.
            } else if line.contains(" passed, ") && line.ends_with(" failed") {
                end = Some(line);
            } else if let Some((_, Err(problem))) = checks.last_mut() {
                problem.push('\n');
                problem.push_str(line);
            }
        }
        let failed = checks
            .iter()
            .filter(|(_, outcome)| outcome.is_err())
            .count();
        let counted = format!("{} passed, {failed} failed", checks.len() - failed);
        for (name, outcome) in checks {
            self.check(format_args!("{place}: {name}"), outcome);
        }
        let complete = equal("its last line", end, Some(counted.as_str()));
        let complete = complete.map_err(|problem| format!("{problem}\n{said}"));
        self.check(format_args!("{place}: all was checked"), complete);
    }

    /// What failed once more, the last line, and the exit code: a failure, or nothing checked at all, is no success.
    pub(crate) fn finish(&self) -> ExitCode {
        for failed in &self.failed {
            let first = failed.lines().next().unwrap_or_default();
            say(format_args!("{AGAIN}{first}"));
        }
        let failed = self.failed.len();
        say(format_args!("{} passed, {failed} failed", self.passed));
        match failed == 0 && self.passed > 0 {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}

/// Says what is going on.
#[expect(clippy::print_stdout, reason = "the one place that prints")]
pub(crate) fn say(text: impl Display) {
    println!("{text}");
}

/// Succeeds if both are equal.
#[expect(
    clippy::needless_pass_by_value,
    reason = "values read better at the call"
)]
pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: expected {expected:?}, found {found:?}")),
    }
}
