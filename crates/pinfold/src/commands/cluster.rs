//! `pinfold cluster`: what a running cluster looks like from its NUMA nodes, and why its pods are where they are.
//!
//! As a kubectl plugin the same commands are `kubectl pinfold explain pod NAME` and so on, see [`crate::kubectl`].

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};

use pinfold_terminal::DeciderArg;

use crate::args::Format;
use crate::exit::Failure;

mod explain;
mod live;
mod moves;
mod occupancy;
mod reasons;
mod scene;
mod top;
mod view;

#[derive(Debug, clap::Args)]
pub(crate) struct ClusterCommandArgs {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

/// What can be asked about a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Say why a pod is where it is; or why no node takes it, and which changes and moves would let it in
    Explain(ExplainArgs),
    /// Show how full every NUMA node of every node is
    Top(TopArgs),
    /// Draw a node with everybody on it
    View(ViewArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    #[command(subcommand)]
    pub(crate) what: Explained,
}

/// What is explained.
#[derive(Debug, Subcommand)]
pub(crate) enum Explained {
    /// A pod that runs, or one that waits
    Pod(PodArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold cluster explain pod trainer-7 -n ml\n  \
    kubectl pinfold explain pod trainer-7 -n ml --if-moved ml/notebook-0\n  \
    kubectl get nodes,noderesourcetopologies,pods -A -o yaml > all.yaml\n  \
    pinfold cluster explain pod trainer-7 -n ml --nodes all.yaml\n\n\
    Exit code 0: it runs, or some node would take it. Exit code 1: no node takes it.")]
pub(crate) struct PodArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Its namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,
    /// What if this running pod moved elsewhere? Repeatable: all of them move
    #[arg(long, value_name = "NAMESPACE/POD")]
    pub(crate) if_moved: Vec<String>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold cluster top\n  \
    kubectl pinfold top --sort memory --selector zone=a\n\n\
    # are taken, = are kept for the system, . are free.")]
pub(crate) struct TopArgs {
    /// What comes first
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sort: Sort,
    /// Only nodes with these labels: KEY=VALUE or KEY, several with commas
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// The node with the largest share of its CPUs taken
    #[default]
    Cpus,
    /// The node with the largest share of its memory taken
    Memory,
    /// The node with the largest share of its devices taken
    Devices,
    /// The first by name
    Name,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ViewArgs {
    #[command(subcommand)]
    pub(crate) what: Viewed,
}

/// What is drawn.
#[derive(Debug, Subcommand)]
pub(crate) enum Viewed {
    /// A node
    Node(NodeViewArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold cluster view node worker-1\n  \
    kubectl pinfold view node worker-1 -o svg > worker-1.svg")]
pub(crate) struct NodeViewArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: View,
}

/// How a node is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// For terminals
    #[default]
    Text,
    /// For browsers
    Svg,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

/// Where the objects of the cluster come from, and whose rules decide.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct SourceArgs {
    /// The kubeconfig. Without one: those of KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, if not the current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Objects from files instead of an API server: Nodes, NodeResourceTopologies, Numatopologies, Pods, lists of
    /// them; `-` is standard input. Repeatable
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) nodes: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) decider: DeciderArg,
    /// The scheduler's configuration: a KubeSchedulerConfiguration with the plugin's arguments, or Volcano's
    #[arg(long, value_name = "FILE")]
    pub(crate) scheduler_config: Option<PathBuf>,
}

pub(crate) fn run(args: &ClusterCommand) -> Result<ExitCode, Failure> {
    match args {
        ClusterCommand::Explain(ExplainArgs {
            what: Explained::Pod(pod),
        }) => explain::run(pod),
        ClusterCommand::Top(top) => top::run(top),
        ClusterCommand::View(ViewArgs {
            what: Viewed::Node(node),
        }) => view::run(node),
    }
}
