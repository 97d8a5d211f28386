//! Exit codes: 0 success, 1 rejected, 2 invalid input, 3 environment.

use std::process::ExitCode;

use crate::escape::escape;

/// An error that ends a command. Its text says what is wrong and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command's answer is "no", such as a kubelet that does not start: exit code 1.
    #[error("{}", .0.text)]
    Rejected(Box<Rejected>),
    /// A file or an argument is invalid: exit code 2.
    #[error("{0}")]
    BadInput(String),
    /// A system call, a server or the agent failed: exit code 3.
    #[error("{0}")]
    Environment(String),
}

/// An answer "no" that ends a command early.
#[derive(Debug)]
pub struct Rejected {
    /// The answer for people.
    pub text: String,
    /// The answer for programs.
    pub value: serde_json::Value,
}

/// The exit code of a command that ran and whose answer is "no", such as `explain` of a rejected pod.
pub const REJECTED: u8 = 1;

impl Failure {
    /// Prints the failure to standard error after the program's name, and returns its exit code.
    #[expect(
        clippy::print_stderr,
        reason = "the one place where errors are printed"
    )]
    pub fn report(&self, program: &str) -> ExitCode {
        let text = self.to_string();
        eprintln!("{program}: {}", escape(&text, false));
        match self {
            Failure::Rejected(_) => ExitCode::from(REJECTED),
            Failure::BadInput(_) => ExitCode::from(2),
            Failure::Environment(_) => ExitCode::from(3),
        }
    }
}
