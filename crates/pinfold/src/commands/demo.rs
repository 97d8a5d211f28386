//! `pinfold demo`: the main job at once.

use std::process::ExitCode;

use crate::exit::Failure;

pub(crate) fn run() -> Result<ExitCode, Failure> {
    Err(Failure::Environment("not yet".into()))
}
