//! `pinfold`: simulates and explains where Kubernetes pods go on NUMA machines, runs commands on exclusive CPUs, and
//! talks to the node agent.
//!
//! Arguments are declared in `args`, each command is a file in `commands`, and every decision is made in
//! `pinfold-core`. There is no client of the API server in it: that is `kubectl-pinfold`.

mod admission;
mod agent_client;
mod args;
mod as_pinfold;
mod checkpoint;
mod cluster;
mod commands;
mod devices;
mod input;
mod journal_replay;
mod node;
mod page;
mod script;
mod simulation;
mod starting_state;
mod startup;
mod usage;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use pinfold_page::PageApi;
use pinfold_terminal::manual::ManualCommand;
use pinfold_terminal::{exit, output, progress};

use crate::args::{Args, Command};
use crate::exit::Failure;

/// The name before error messages.
const PROGRAM: &str = "pinfold";

/// Runs the command of the arguments.
#[must_use]
pub fn main() -> ExitCode {
    run(Args::parse()).unwrap_or_else(|failure| failure.report(PROGRAM))
}

/// What `pinfold serve` answers.
#[must_use]
pub fn playground() -> impl PageApi + use<> {
    page::playground::Playground
}

/// What `pinfold serve --journal FILE` answers.
///
/// # Errors
/// If the journal cannot be read.
pub fn journal_page(path: &Path) -> Result<impl PageApi + use<>, Failure> {
    page::node::JournalNode::open(path)
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    output::choose_colour(args.color);
    match args.command {
        Command::Topology(args) => commands::topology::run(&args),
        Command::Simulate(args) => commands::simulate::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Defragment(args) => commands::defragment::run(&args),
        Command::Capacity(args) => commands::capacity::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Upgrade(args) => commands::upgrade::run(&args),
        Command::Presets(args) => commands::presets::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Demo => commands::demo::run(),
        Command::Run(args) => commands::run::run(&args),
        Command::Ps(args) => commands::ps::run(&args),
        Command::Admit(args) => commands::admit::admit(&args),
        Command::Release(args) => commands::admit::release(&args),
        Command::Status(args) => commands::status::status(&args),
        Command::Settings(args) => commands::status::settings(&args),
        Command::Journal(args) => commands::journal::run(&args),
        Command::Checkpoint(args) => commands::checkpoint::run(&args),
        Command::Exec(args) => commands::run::exec(&args),
        Command::Conformance(args) => commands::conformance::run(&args),
        Command::Manual(command @ ManualCommand::Completions { .. }) => {
            command.run(args::with_presets(Args::command()))
        }
        Command::Manual(command) => command.run(Args::command()),
    }
}
