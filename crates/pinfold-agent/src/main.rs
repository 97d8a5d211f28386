//! `pinfold-agent`: the node agent.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use pinfold_agent::{AgentConfig, daemon};
use pinfold_daemon::program::{self, DaemonArgs};

/// Runs the node agent: admits and pins the pods of this node, or publishes what its kubelet assigned
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "Examples:\n  \
    pinfold-agent --config /etc/pinfold/agent.yaml\n  \
    pinfold-agent --config agent.yaml --check-config\n\n\
    SIGTERM and SIGINT stop it, SIGHUP makes it read its configuration again.\n\
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
        AgentConfig::read,
        daemon::run,
    )
}
