//! `pinfold`: puts Kubernetes pods on the right CPUs, memory and devices of NUMA machines, and says why.
//!
//! Thin on purpose: arguments are read in [`args`], each command is a file in [`commands`], and every
//! decision is made in `pinfold-core`.

mod agent_client;
mod args;
mod checkpoint;
mod cluster;
mod commands;
mod devices;
mod input;
mod kubectl;
mod node;
mod recorded;
mod running;
mod script;
mod simulation;
mod usage;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use pinfold_terminal::{exit, output, progress};

use crate::args::{Args, Command};
use crate::exit::Failure;
use crate::kubectl::{PluginArgs, Role};

/// The name before error messages.
const PROGRAM: &str = "pinfold";

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let done = match Role::of(words.next().as_deref()) {
        Role::Program => run(Args::parse()),
        Role::Plugin => commands::cluster::run(&PluginArgs::parse().command),
        Role::Complete => {
            let words: Vec<_> = words.collect();
            kubectl::complete(&words).map(|()| ExitCode::SUCCESS)
        }
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.report(PROGRAM),
    }
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Topology(args) => commands::topology::run(&args),
        Command::Simulate(args) => commands::simulate::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Defragment(args) => commands::defragment::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Demo => commands::demo::run(),
        Command::Run(args) => commands::run::run(&args),
        Command::Ps(args) => commands::ps::run(&args),
        Command::Admit(args) => commands::admit::admit(&args),
        Command::Release(args) => commands::admit::release(&args),
        Command::Status(args) => commands::status::status(&args),
        Command::Settings(args) => commands::status::settings(&args),
        Command::Journal(args) => commands::journal::run(&args),
        Command::Checkpoint(args) => commands::checkpoint::run(&args),
        Command::Cluster(args) => commands::cluster::run(&args.command),
        Command::Exec(args) => commands::run::exec(&args),
        Command::Conformance(args) => commands::conformance::run(&args),
        Command::Manual(command) => command.run(Args::command()),
    }
}
