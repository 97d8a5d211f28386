//! `pinfold-scheduler`: the engine beside kube-scheduler.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use pinfold_daemon::program::{self, DaemonArgs};
use pinfold_scheduler::config::EngineConfig;
use pinfold_scheduler::daemon;

/// Runs the engine of kube-scheduler's plugin Pinfold: evaluates pods on all nodes, and reserves them
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "Examples:\n  \
    pinfold-scheduler --config /etc/pinfold/scheduler.yaml\n  \
    pinfold-scheduler --config scheduler.yaml --check-config\n\n\
    SIGTERM and SIGINT stop it, SIGHUP makes it read weights, nodes and reports again.\n\
    docs/scheduler.md says how kube-scheduler is built and configured for it.\n\
    Exit codes: 0 stopped, 2 invalid configuration, 3 environment."
)]
struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    program::run(
        Args::command(),
        &args.daemon,
        EngineConfig::read,
        daemon::run,
    )
}
