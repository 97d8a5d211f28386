//! One line per check, and the count at the end.

use std::fmt::Display;
use std::process::ExitCode;

/// The checks so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    failed: usize,
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
                self.failed += 1;
                say(format_args!("FAILED  {name}: {problem}"));
            }
        }
    }

    /// The last line, and the exit code: a failure, or nothing checked at all, is no success.
    pub(crate) fn finish(&self) -> ExitCode {
        say(format_args!(
            "{} passed, {} failed",
            self.passed, self.failed
        ));
        match self.failed == 0 && self.passed > 0 {
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
