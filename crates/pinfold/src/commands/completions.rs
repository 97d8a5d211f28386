//! `pinfold completions`: what a shell needs to finish our words.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs};
use crate::exit::Failure;
use crate::output;

pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "pinfold", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
