//! `pinfold scheduler`: the scheduler extender of a cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pinfold_daemon::control::Control;
use pinfold_scheduler::config::SchedulerConfig;
use pinfold_scheduler::daemon;

use crate::exit::Failure;
use crate::input::Source;
use crate::log_args::LogArgs;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold scheduler --config /etc/pinfold/scheduler.yaml\n  \
    pinfold scheduler --config scheduler.yaml --check-config    every field with its value\n\n\
    SIGTERM and SIGINT stop it in order, SIGHUP lets it read weights, nodes and reports again.\n\
    How kube-scheduler is told of it is in docs/scheduler.md.")]
pub(crate) struct SchedulerArgs {
    /// The configuration. Without one every field has its default
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only check the configuration, and print it with every default
    #[arg(long)]
    check_config: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub(crate) fn run(args: &SchedulerArgs) -> Result<ExitCode, Failure> {
    let config = match &args.config {
        Some(path) => read(&Source::open(path)?)?,
        None => SchedulerConfig::default(),
    };
    if args.check_config {
        output::print_yaml(&config)?;
        return Ok(ExitCode::SUCCESS);
    }
    let environment = |error: &dyn std::fmt::Display| Failure::Environment(error.to_string());
    let control = Control::of_signals().map_err(|error| environment(&error))?;
    let reread = || match &args.config {
        Some(path) => reread(path),
        None => Ok(SchedulerConfig::default()),
    };
    args.log.init().map_err(|error| environment(&error))?;
    daemon::run(&config, &reread, &control).map_err(|error| environment(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration as it is by now, for an extender that goes on with the old one if it cannot be read.
fn reread(path: &Path) -> Result<SchedulerConfig, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let read = SchedulerConfig::read(&path.to_string_lossy(), &bytes);
    read.map(|read| read.value)
        .map_err(|found| found.to_string())
}

fn read(source: &Source) -> Result<SchedulerConfig, Failure> {
    let read = SchedulerConfig::read(&source.name, &source.bytes);
    let read = read.map_err(|findings| source.failure(&findings))?;
    source.warn(&read.warnings);
    Ok(read.value)
}
