//! How a command ends: 0 done, 1 rejected (a real "no"), 2 bad input, 3 environment.

use std::process::ExitCode;

/// Why a command could not do its job. The text is for people and says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What the user gave cannot be used.
    #[error("{0}")]
    BadInput(String),
    /// The machine does not allow what was asked.
    #[error("{0}")]
    Environment(String),
}

/// The command did its job, and the answer is "no".
pub(crate) const REFUSED: u8 = 1;

impl Failure {
    /// Prints the failure and gives its exit code.
    #[expect(
        clippy::print_stderr,
        reason = "the one place where errors are printed"
    )]
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("pinfold: {self}");
        match self {
            Failure::BadInput(_) => ExitCode::from(2),
            Failure::Environment(_) => ExitCode::from(3),
        }
    }
}
