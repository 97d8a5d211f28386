//! `kubectl-pinfold`: a kubectl plugin that shows the NUMA nodes of a cluster and explains where its pods are.
//!
//! kubectl runs it as `kubectl pinfold`. Through a link named `kubectl_complete-pinfold` it completes the plugin's
//! arguments for kubectl.

mod args;
mod commands;
mod completion;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use pinfold_page::PageApi;
use pinfold_terminal::{Failure, output};

use crate::args::{Args, Command, ExplainedKind, ViewedKind};

/// What `kubectl pinfold ui --nodes FILE` answers.
///
/// # Errors
/// If the file cannot be read.
pub fn cluster_page(file: PathBuf) -> Result<impl PageApi + use<>, Failure> {
    commands::ui::ClusterPage::of_file(file)
}

/// Runs the command of the arguments.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    let result = match completion::is_requested(program.as_deref()) {
        true => completion::print(&arguments.collect::<Vec<_>>()),
        false => {
            let args = Args::parse();
            output::choose_colour(args.color);
            run(&args.command)
        }
    };
    result.unwrap_or_else(|failure| failure.report(args::PROGRAM))
}

fn run(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Explain(explain) => match &explain.kind {
            ExplainedKind::Pod(pod) => commands::explain::run(pod),
        },
        Command::Top(top) => commands::top::run(top),
        Command::View(view) => match &view.kind {
            ViewedKind::Node(node) => commands::view::run(node),
        },
        Command::Capacity(capacity) => commands::capacity::run(capacity),
        Command::Upgrade(upgrade) => commands::upgrade::run(upgrade),
        Command::Doctor(doctor) => commands::doctor::run(doctor),
        Command::Ui(ui) => commands::ui::run(ui),
        Command::Snapshot(snapshot) => commands::snapshot::run(snapshot),
        Command::Manual(manual) => manual.run(Args::command()),
    }
}
