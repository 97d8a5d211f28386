//! The command line of a daemon: reads the configuration, then runs until a signal.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use pinfold_kube::diagnostic::{Diagnostics, WithWarnings};
use pinfold_terminal::manual::ManualCommand;
use pinfold_terminal::{Failure, Source, output};
use serde::Serialize;

use crate::log_args::LogArgs;
use crate::signals::SignalReceiver;

/// The arguments that every daemon has.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DaemonArgs {
    /// The configuration file; without one every field has its default
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, print it with every default, and exit
    #[arg(long)]
    check_config: bool,
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    manual: Option<ManualCommand>,
}

/// Reads a configuration; the first argument is the name of its file for messages.
type ReadConfig<C> = fn(&str, &[u8]) -> Result<WithWarnings<C>, Diagnostics>;

/// Runs `daemon` with the configuration that `args` name. A failure is printed and becomes the exit code.
///
/// `daemon` gets the configuration, a function that reads it again (SIGHUP), and the signals.
pub fn run<C: Default + Serialize, E: Display>(
    program: Command,
    args: &DaemonArgs,
    read: ReadConfig<C>,
    daemon: impl FnOnce(&C, &dyn Fn() -> Result<C, String>, &SignalReceiver) -> Result<(), E>,
) -> ExitCode {
    let name = program.get_name().to_owned();
    let result = match &args.manual {
        Some(manual) => manual.run(program),
        None => start(args, read, daemon),
    };
    result.unwrap_or_else(|failure| failure.report(&name))
}

fn start<C: Default + Serialize, E: Display>(
    args: &DaemonArgs,
    read: ReadConfig<C>,
    daemon: impl FnOnce(&C, &dyn Fn() -> Result<C, String>, &SignalReceiver) -> Result<(), E>,
) -> Result<ExitCode, Failure> {
    let config = match &args.config {
        Some(path) => open(path, read)?,
        None => C::default(),
    };
    if args.check_config {
        output::print_yaml(&config)?;
        return Ok(ExitCode::SUCCESS);
    }
    let signals =
        SignalReceiver::of_process().map_err(|error| Failure::Environment(error.to_string()))?;
    let reread = || match &args.config {
        Some(path) => reread(path, read),
        None => Ok(C::default()),
    };
    let environment = |error: &dyn Display| Failure::Environment(error.to_string());
    args.log.init().map_err(|error| environment(&error))?;
    daemon(&config, &reread, &signals).map_err(|error| environment(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn open<C>(path: &Path, read: ReadConfig<C>) -> Result<C, Failure> {
    let source = Source::open(path)?;
    let config = read(&source.name, &source.bytes).map_err(|findings| source.failure(&findings))?;
    source.warn(&config.warnings);
    Ok(config.value)
}

/// Reads the configuration of a running daemon, which keeps the old one if this fails.
fn reread<C>(path: &Path, read: ReadConfig<C>) -> Result<C, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let config = read(&path.to_string_lossy(), &bytes);
    config
        .map(|config| config.value)
        .map_err(|findings| findings.to_string())
}
