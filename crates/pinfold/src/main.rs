//! `pinfold`: puts Kubernetes pods on the right CPUs, memory and devices of NUMA machines, and says why.
//!
//! Thin on purpose: arguments are read in [`args`], each command is a file in [`commands`], and every
//! decision is made in `pinfold-core`.

mod args;
mod commands;
mod exit;
mod output;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::exit::Failure;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Run(args) => commands::run::run(&args),
        Command::Ps(args) => commands::ps::run(&args),
        Command::Hardware => output::print_json(&pinfold_hardware::open("this").map_err(|e| Failure::Environment(e.to_string()))?).map(|()| ExitCode::SUCCESS),
        Command::Exec(args) => commands::run::exec(&args),
        Command::Conformance(args) => commands::conformance::run(&args),
    }
}
