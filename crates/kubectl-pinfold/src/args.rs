//! The command line: commands, flags and examples.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use pinfold_kube::upgrade::NamedVersion;
use pinfold_terminal::manual::ManualCommand;
use pinfold_terminal::{ColourChoice, DeciderArg, Format};

/// The name of the program, by which kubectl finds the plugin.
pub(crate) const PROGRAM: &str = "kubectl-pinfold";

/// Show NUMA usage of a cluster's nodes, and why pods are where they are
#[derive(Debug, Parser)]
#[command(
    name = PROGRAM,
    bin_name = "kubectl pinfold",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 success, 1 rejected (no node admits the pod) or problems found, 2 invalid input, 3 environment."
)]
pub(crate) struct Args {
    /// When to use colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, global = true)]
    pub(crate) color: ColourChoice,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Explain why a pod is on its node, or why it is pending and which changes would make it fit
    Explain(ExplainArgs),
    /// Show the usage of every NUMA node
    Top(TopArgs),
    /// Draw a node with the CPUs, memory and devices of its pods
    View(ViewArgs),
    /// Count the replicas of a pod that really start, on each node and in all, beside what the sums promise
    Capacity(CapacityArgs),
    /// Show what changes when the nodes' kubelets move to another version: configuration, pods, gates
    Upgrade(UpgradeArgs),
    /// Say what is wrong with NUMA placement in the cluster and what to do about it, worst first
    Doctor(DoctorArgs),
    /// Serve a web page of the cluster: every NUMA node by what is free, pending pods, nodes
    Ui(UiArgs),
    /// Write what --nodes needs to a file: the nodes, their reports and all pods, without what decisions do not read
    Snapshot(SnapshotArgs),
    #[command(flatten)]
    Manual(ManualCommand),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    #[command(subcommand)]
    pub(crate) kind: ExplainedKind,
}

/// The kind of object to explain.
#[derive(Debug, Subcommand)]
pub(crate) enum ExplainedKind {
    /// A running or pending pod
    Pod(PodArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubectl pinfold explain pod trainer-7 -n ml\n  \
    kubectl pinfold explain pod trainer-7 -n ml --if-moved ml/notebook-0\n  \
    kubectl get nodes,noderesourcetopologies,pods -A -o yaml > all.yaml\n  \
    kubectl pinfold explain pod trainer-7 -n ml --nodes all.yaml\n\n\
    Exit code 0: the pod is bound, or a node would admit it. Exit code 1: no node admits it.")]
pub(crate) struct PodArgs {
    /// The pod's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The pod's namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,
    /// Also show whether the pod would fit if this running pod moved to another node. Repeatable: all of them move
    #[arg(long, value_name = "NAMESPACE/POD")]
    pub(crate) if_moved: Vec<String>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubectl pinfold top\n  \
    kubectl pinfold top --sort memory --selector zone=a\n\n\
    In the bars # is free, . is used by pods, = is reserved for the system.")]
pub(crate) struct TopArgs {
    /// The sort order of nodes
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sort: Sort,
    /// Show nodes with these labels: KEY=VALUE or KEY, separated by commas
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// The sort order of nodes in `top`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Highest share of CPUs in use first
    #[default]
    Cpus,
    /// Highest share of memory in use first
    Memory,
    /// Highest share of devices in use first
    Devices,
    /// By name
    Name,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ViewArgs {
    #[command(subcommand)]
    pub(crate) kind: ViewedKind,
}

/// The kind of object to draw.
#[derive(Debug, Subcommand)]
pub(crate) enum ViewedKind {
    /// A node
    Node(NodeViewArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubectl pinfold view node worker-1\n  \
    kubectl pinfold view node worker-1 -o svg > worker-1.svg")]
pub(crate) struct NodeViewArgs {
    /// The node's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: ViewFormat,
}

/// The output format of `view node`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewFormat {
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

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubectl pinfold capacity -f trainer.yaml\n  \
    kubectl pinfold capacity -f trainer.yaml --nodes cluster.json --compare\n\n\
    Exit code 0: at least one replica starts. Exit code 1: none does.")]
pub(crate) struct CapacityArgs {
    /// The pod, or a deployment, job or the like; of several pods the first. `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: PathBuf,
    /// Also count under every topology policy and scope of the kubelets
    #[arg(long)]
    pub(crate) compare: bool,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubectl pinfold upgrade --to 1.36\n  \
    kubectl pinfold upgrade --to 1.36 --nodes cluster.json --config kubelet.yaml\n\n\
    Exit code 0: every kubelet starts and no pod is rejected. Exit code 1: some kubelet does not start or\n\
    some pod is rejected.")]
pub(crate) struct UpgradeArgs {
    /// The version that the kubelets move to, such as 1.36
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: NamedVersion,
    /// The version that they run, instead of the kubeletVersion of Node objects
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<NamedVersion>,
    /// The configuration of the nodes' kubelets, which the API server does not have
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) objects: ObjectsArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubectl pinfold doctor\n  \
    kubectl pinfold doctor -o json | jq '.findings[] | select(.severity == \"error\")'\n  \
    kubectl get nodes,noderesourcetopologies,pods,events,crds -A -o yaml > all.yaml\n  \
    kubectl pinfold doctor --nodes all.yaml\n\n\
    Exit code 0: nothing is wrong. Exit code 1: there are errors or warnings; with --fail-on error, errors.")]
pub(crate) struct DoctorArgs {
    /// The least severity that makes the exit code 1
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t)]
    pub(crate) fail_on: FailOn,
    #[command(flatten)]
    pub(crate) objects: ObjectsArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// The least severity of findings that make `doctor` fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Errors and warnings
    #[default]
    Warning,
    /// Errors only
    Error,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubectl pinfold ui --open\n  \
    kubectl pinfold ui --nodes cluster.json.gz\n\n\
    The printed address has a token that the browser keeps as a cookie. Nothing on the page changes the cluster.")]
pub(crate) struct UiArgs {
    /// The address to listen on; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = pinfold_page::DEFAULT_ADDRESS)]
    pub(crate) listen: SocketAddr,
    /// Open the page in the browser
    #[arg(long)]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubectl pinfold snapshot cluster.json.gz\n  \
    kubectl pinfold snapshot --scramble for-support.json.gz\n  \
    kubectl pinfold snapshot --nodes all.json --scramble - | less")]
pub(crate) struct SnapshotArgs {
    /// The file, which only its owner may read; compressed if its name ends in .gz. `-` is standard output
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Replace the names of nodes, namespaces, pods and containers, uids and the values of labels, each by the same other
    /// name everywhere
    #[arg(long)]
    pub(crate) scramble: bool,
    #[command(flatten)]
    pub(crate) objects: ObjectsArgs,
}

/// The source of the cluster's objects, and the program that decides.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(crate) objects: ObjectsArgs,
    #[command(flatten)]
    pub(crate) decider: DeciderArg,
    /// The scheduler's configuration: a KubeSchedulerConfiguration with the plugin's arguments, or Volcano's
    #[arg(long, value_name = "FILE")]
    pub(crate) scheduler_config: Option<PathBuf>,
}

/// The source of the cluster's objects: an API server, or files.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ObjectsArgs {
    /// The kubeconfig file. By default KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, by default the current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Read Nodes, NodeResourceTopologies, Numatopologies and Pods (or Lists of them) from this file instead of an
    /// API server; `-` is standard input. Repeatable
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) nodes: Vec<PathBuf>,
}
