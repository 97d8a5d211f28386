//! `pinfold explain`: why a pod goes where it goes, or what stands in its way.

use std::process::ExitCode;

use crate::args::ExplainArgs;
use crate::exit::Failure;

pub(crate) fn run(_args: &ExplainArgs) -> Result<ExitCode, Failure> {
    Err(Failure::Environment("not yet".into()))
}
