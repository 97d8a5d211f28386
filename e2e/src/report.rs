//! The report of a run: one line per check, what was skipped and why, and the counts at the end.

use std::fmt::Display;
use std::process::ExitCode;

/// Prefix of the lines that repeat the failures at the end.
const FAILED_AGAIN: &str = "failed: ";
/// Prefix of the lines that list at the end what was skipped.
const SKIPPED: &str = "skipped: ";

/// Whether this run has to show everything, as CI does: a theme that should have run and did not is a failure.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false")
}

/// Why a theme ended before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// This machine lacks what the theme needs.
    Skip(String),
    /// Something went wrong.
    Fail(String),
}

impl From<String> for Stop {
    fn from(problem: String) -> Self {
        Self::Fail(problem)
    }
}

impl From<&str> for Stop {
    fn from(problem: &str) -> Self {
        Self::Fail(problem.to_owned())
    }
}

/// Whether a theme has to run on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// It has to; without what it needs it is skipped, which is a failure in CI.
    Must,
    /// It runs if this machine has what it needs; the suites run it on another machine in any case.
    IfPossible,
    /// It does not, for this reason; the suites run it on another machine.
    Elsewhere(&'static str),
}

/// The checks so far.
#[derive(Debug)]
pub(crate) struct Report {
    /// Whether a theme that must run here and was skipped is a failure.
    strict: bool,
    passed: usize,
    /// The failures, repeated at the end.
    failed: Vec<String>,
    /// What was skipped, with the reason.
    skipped: Vec<String>,
}

impl Report {
    /// An empty report; `strict` as in [`is_ci`].
    pub(crate) fn new(strict: bool) -> Self {
        Self {
            strict,
            passed: 0,
            failed: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Records one check.
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

    /// Records a theme that was skipped.
    pub(crate) fn skip(&mut self, name: impl Display, runs: Runs, why: &str) {
        match (runs, self.strict) {
            (Runs::Must, true) => {
                self.check(
                    name,
                    Err(format!("has to run here, but was skipped: {why}")),
                );
            }
            _ => self.skipped.push(format!("{name}: {why}")),
        }
    }

    /// Runs a theme. One that ends well without a single check is a failure.
    pub(crate) fn theme(
        &mut self,
        name: impl Display,
        runs: Runs,
        run: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) {
        if let Runs::Elsewhere(why) = runs {
            return self.skip(name, runs, why);
        }
        let before = self.checks();
        match run(self) {
            Ok(()) if self.checks() == before => {
                self.check(name, Err("nothing was checked".to_owned()));
            }
            Ok(()) => {}
            Err(Stop::Skip(why)) => self.skip(name, runs, &why),
            Err(Stop::Fail(problem)) => self.check(name, Err(problem)),
        }
    }

    /// How many checks and skips were recorded.
    fn checks(&self) -> usize {
        self.passed + self.failed.len() + self.skipped.len()
    }

    /// Adds the checks that the output of another run has. The output must be complete.
    pub(crate) fn repeat(&mut self, place: &str, output: &str) {
        let mut checks: Vec<(&str, Result<(), String>)> = Vec::new();
        let mut skipped = Vec::new();
        let mut end = None;
        for line in output.lines() {
            if let Some(name) = line.strip_prefix("ok      ") {
                checks.push((name, Ok(())));
            } else if let Some(failed) = line.strip_prefix("FAILED  ") {
                let (name, problem) = failed.split_once(": ").unwrap_or((failed, ""));
                checks.push((name, Err(problem.to_owned())));
            } else if let Some(why) = line.strip_prefix(SKIPPED) {
                skipped.push(format!("{place}: {why}"));
            } else if line.starts_with(FAILED_AGAIN) {
                // Its first line was read where it failed.
            } else if line.contains(" passed, ") && line.ends_with(" skipped") {
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
        let counted = closing(checks.len() - failed, failed, skipped.len());
        for (name, outcome) in checks {
            self.check(format_args!("{place}: {name}"), outcome);
        }
        self.skipped.append(&mut skipped);
        let complete = equal("its last line", end, Some(counted.as_str()));
        let complete = complete.map_err(|problem| format!("{problem}\n{output}"));
        self.check(format_args!("{place}: all was checked"), complete);
    }

    /// Prints what was skipped, the failures again and the counts. A failure is no success, nor is a run without checks.
    pub(crate) fn finish(&self) -> ExitCode {
        for skipped in &self.skipped {
            say(format_args!("{SKIPPED}{skipped}"));
        }
        for failed in &self.failed {
            let first = failed.lines().next().unwrap_or_default();
            say(format_args!("{FAILED_AGAIN}{first}"));
        }
        let failed = self.failed.len();
        say(closing(self.passed, failed, self.skipped.len()));
        match failed == 0 && self.passed > 0 {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}

/// The last line of a report.
fn closing(passed: usize, failed: usize, skipped: usize) -> String {
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

/// Prints a line.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Passed, failed and skipped.
    fn counts(report: &Report) -> (usize, usize, usize) {
        (report.passed, report.failed.len(), report.skipped.len())
    }

    #[test]
    fn a_theme_without_a_check_is_a_failure() {
        let mut report = Report::new(false);
        report.theme("silent", Runs::IfPossible, |_| Ok(()));
        assert_eq!(counts(&report), (0, 1, 0));
    }

    #[test]
    fn a_theme_that_must_run_fails_in_ci_if_it_is_skipped() {
        let skip = |report: &mut Report, runs| {
            report.theme("nodes", runs, |_| Err(Stop::Skip("one node".to_owned())));
        };
        let mut report = Report::new(true);
        skip(&mut report, Runs::Must);
        skip(&mut report, Runs::IfPossible);
        skip(&mut report, Runs::Elsewhere("takes CPUs offline"));
        assert_eq!(counts(&report), (0, 1, 2));

        let mut report = Report::new(false);
        skip(&mut report, Runs::Must);
        assert_eq!(counts(&report), (0, 0, 1));
    }

    #[test]
    fn the_output_of_another_run_must_have_its_closing_line() {
        let output = "ok      agent: one\nFAILED  agent: two: why\nmore\nskipped: agent: three: one node\n\
                      failed: agent: two: why\n1 passed, 1 failed, 1 skipped";
        let mut report = Report::new(true);
        report.repeat("4 nodes", output);
        assert_eq!(counts(&report), (2, 1, 1));

        let mut report = Report::new(true);
        report.repeat("4 nodes", "ok      agent: one\n");
        assert_eq!(counts(&report), (1, 1, 0));
    }
}
