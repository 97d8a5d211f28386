//! The command line as a table: every command, flag and example in one place.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::commands::ps::PsArgs;
use crate::commands::run::{ExecArgs, RunArgs};

/// Puts Kubernetes pods on the right CPUs, memory and devices of NUMA machines, and says why.
#[derive(Debug, Parser)]
#[command(name = "pinfold", version, about, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command on CPUs and memory of its own, placed by the same rules, without Kubernetes
    Run(Box<RunArgs>),
    /// Show the commands that run now, what each holds, and the picture of the machine
    Ps(PsArgs),
    /// The child's side of `run`
    #[command(name = "__exec", hide = true)]
    Exec(ExecArgs),
    #[command(name = "__hardware", hide = true)]
    Hardware,
    /// Replay test vectors made by the real programs and compare every decision
    Conformance(ConformanceArgs),
}

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: pinfold conformance conformance/kubelet --family merge --failures 3\n\n\
    Exit code 0: every case gave the same answer or was set aside for a reason the vectors allow.\n\
    Exit code 1: some case gave another answer."
)]
pub(crate) struct ConformanceArgs {
    /// A folder of vectors (*.jsonl, *.jsonl.gz), or a folder of such folders
    pub(crate) dir: PathBuf,
    /// Replay only this family
    #[arg(long, value_name = "NAME")]
    pub(crate) family: Option<String>,
    /// Describe at most this many failures per family
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) failures: usize,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}
