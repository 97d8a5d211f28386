//! The command line as a table: every command, flag and example in one place.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::TopologyScope;
use pinfold_hardware::presets::PRESETS;
use pinfold_kube::decider::Decider;
use pinfold_kube::pod::TemplatePath;
use pinfold_kube::upgrade::NamedVersion;
use pinfold_terminal::ColourChoice;
use pinfold_terminal::DeciderArg;
pub(crate) use pinfold_terminal::Format;
use pinfold_terminal::manual::ManualCommand;

use crate::commands::admit::{AdmitArgs, ReleaseArgs};
use crate::commands::checkpoint::CheckpointArgs;
use crate::commands::journal::JournalArgs;
use crate::commands::ps::PsArgs;
use crate::commands::run::{ExecArgs, RunArgs};
use crate::commands::serve::ServeArgs;
use crate::commands::status::{SettingsArgs, StatusArgs};

/// Puts Kubernetes pods on the right CPUs, memory and devices of NUMA machines, and says why.
#[derive(Debug, Parser)]
#[command(
    name = "pinfold",
    version,
    about,
    max_term_width = 100,
    after_help = "Try first: pinfold demo\n\n\
    Exit codes: 0 done, 1 rejected (a real \"no\"), 2 bad input, 3 environment."
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
    /// Show a machine: sockets, NUMA nodes, caches, cores, distances, devices, and warnings about its firmware
    Topology(TopologyArgs),
    /// Admit pods on a machine one after the other; show the CPUs, memory and devices of each, and what is left
    Simulate(SimulateArgs),
    /// Explain why a pod is admitted or rejected, and which changes would let it fit
    Explain(ExplainArgs),
    /// Find the fewest running pods to move so that a rejected pod fits
    Defragment(DefragmentArgs),
    /// Count the replicas of a pod that really start, on each node and in all, beside what the sums promise
    Capacity(CapacityArgs),
    /// Check whether a kubelet starts with a configuration on a machine
    Check(CheckArgs),
    /// Show what changes when kubelets move to another version: configuration, state files, pods, gates
    Upgrade(UpgradeArgs),
    /// List the machines that --machine knows by name
    Presets(PresetsArgs),
    /// Serve a web page: pods on a described machine, this node's agent, or a journal as a timeline
    Serve(ServeArgs),
    /// Show an example: a machine, some pods, one rejection explained, and a picture
    Demo,
    /// Run a command on exclusive CPUs and memory, without Kubernetes
    Run(Box<RunArgs>),
    /// List running pods or commands with their CPUs and memory, and draw the machine
    Ps(PsArgs),
    /// Ask the node agent to admit a pod, and pin a process or control group to its CPUs
    Admit(AdmitArgs),
    /// Ask the node agent to release a pod
    Release(ReleaseArgs),
    /// Show agent health
    Status(StatusArgs),
    /// Change the node's policy without a drain
    Settings(SettingsArgs),
    /// List the decisions in a node agent's journal, oldest first
    Journal(JournalArgs),
    /// Write the CPUs that a scheduler assigned into the state file of a stopped kubelet
    Checkpoint(CheckpointArgs),
    /// The child process of `run`
    #[command(name = "__exec", hide = true)]
    Exec(ExecArgs),
    /// Replay test vectors made by the real programs and compare every decision
    Conformance(ConformanceArgs),
    #[command(flatten)]
    Manual(ManualCommand),
}

/// How a machine is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopologyFormat {
    /// For terminals
    #[default]
    Text,
    /// For browsers
    Svg,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
    /// The machine's NodeResourceTopology object, without pods
    Nrt,
}

/// How the result of a simulation is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimulateFormat {
    /// For people
    #[default]
    Text,
    /// The machine with its pods, for browsers
    Svg,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

impl SimulateFormat {
    /// The format of a result that is not a picture.
    pub(crate) fn without_picture(self) -> Format {
        match self {
            Self::Text | Self::Svg => Format::Text,
            Self::Json => Format::Json,
            Self::Yaml => Format::Yaml,
        }
    }
}

/// A version of the NodeResourceTopology object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum NrtVersionArg {
    /// With the annotations that Koordinator reads
    V1alpha1,
    /// What scheduler-plugins reads
    #[default]
    V1alpha2,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold topology                               this machine\n  \
    pinfold topology --machine dgx-h100            a preset\n  \
    pinfold topology -m '2 sockets, 2 numa, 16 cores, smt2' -o svg > machine.svg\n  \
    pinfold topology --record my-server.machine    one small file for others\n  \
    pinfold topology --machine my-server.machine   the same machine, anywhere")]
pub(crate) struct TopologyArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArg,
    /// Save this machine (or the directory given as --machine) as one small file
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// List every PCI device with its address instead of counting them
    #[arg(long)]
    pub(crate) devices: bool,
    /// Draw the distances between NUMA nodes in the SVG picture; the text always has them
    #[arg(long)]
    pub(crate) distances: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: TopologyFormat,
    /// The name of the NodeResourceTopology object instead of the machine's
    #[arg(long, value_name = "NAME")]
    pub(crate) node_name: Option<String>,
    /// The version of the NodeResourceTopology object
    #[arg(long, value_enum, value_name = "VERSION", default_value_t)]
    pub(crate) nrt_version: NrtVersionArg,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PresetsArgs {
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MachineArg {
    /// The machine: `this`, a preset, a description in one line, a recording, an hwloc XML file, JSON of
    /// `pinfold topology -o json`, or a directory with sys and proc in it
    #[arg(short, long, value_name = "MACHINE", default_value = THIS)]
    pub(crate) machine: String,
}

/// The machine that the program runs on.
pub(crate) const THIS: &str = "this";

/// A cluster instead of one node.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// The nodes of a cluster: Node, NodeResourceTopology and Numatopology objects, and pods bound to the nodes. A
    /// node without a topology object is like --machine. Repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) nodes: Vec<PathBuf>,
    /// A cluster of N nodes like --machine
    #[arg(long, value_name = "N", conflicts_with = "nodes", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) copies: Option<u32>,
    /// The scheduler's configuration: a KubeSchedulerConfiguration with the plugin's arguments, or Volcano's
    #[arg(long, value_name = "FILE")]
    pub(crate) scheduler_config: Option<PathBuf>,
}

impl ClusterArgs {
    /// Whether to decide about a cluster: schedulers always do, a kubelet or agent only if there are nodes.
    pub(crate) fn is_cluster(&self, decider: Decider) -> bool {
        let is_scheduler = !matches!(decider, Decider::Kubelet(_) | Decider::Pinfold);
        is_scheduler || !self.nodes.is_empty() || self.copies.is_some()
    }
}

/// A node: its machine, its kubelet's configuration, its devices, and who decides about its pods.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    pub(crate) machine: MachineArg,
    /// The kubelet's configuration. Without one: static CPU and memory manager, one core and 1 GiB
    /// reserved, topology policy single-numa-node
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The topology policy instead of the configuration's
    #[arg(long, value_parser = policies())]
    pub(crate) policy: Option<TopologyPolicy>,
    /// The topology scope instead of the configuration's
    #[arg(long, value_parser = scopes())]
    pub(crate) scope: Option<TopologyScope>,
    /// The devices of a device plugin: RESOURCE=ID@NODE,ID@NODE,... with their NUMA nodes, or RESOURCE=KIND for all
    /// PCI devices of a kind (gpu, nic, infiniband, nvme, accelerator). A preset offers its GPUs as nvidia.com/gpu.
    /// Repeatable
    #[arg(short, long = "device", value_name = "RESOURCE=DEVICES")]
    pub(crate) devices: Vec<String>,
    /// A YAML file with one line "RESOURCE: DEVICES" per resource, written as for --device
    #[arg(long, value_name = "FILE")]
    pub(crate) devices_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) decider: DeciderArg,
}

/// The command line with the presets as values of `--machine`, for completion scripts: the program takes other machines
/// too.
pub(crate) fn with_presets(mut program: clap::Command) -> clap::Command {
    let has_machine = |command: &&clap::Command| {
        let mut arguments = command.get_arguments();
        arguments.any(|argument| argument.get_id() == "machine")
    };
    let names: Vec<String> = program
        .get_subcommands()
        .filter(has_machine)
        .map(|command| command.get_name().to_owned())
        .collect();
    for name in names {
        program = program.mut_subcommand(name, |command| {
            command.mut_arg("machine", |machine| {
                let presets = PRESETS.iter().map(|preset| preset.name);
                let values = std::iter::once(THIS).chain(presets);
                machine.value_parser(PossibleValuesParser::new(values))
            })
        });
    }
    program
}

pub(crate) fn policies() -> impl TypedValueParser<Value = TopologyPolicy> {
    PossibleValuesParser::new(TopologyPolicy::ALL.map(TopologyPolicy::name))
        .try_map(|name| name.parse::<TopologyPolicy>())
}

pub(crate) fn scopes() -> impl TypedValueParser<Value = TopologyScope> {
    let names = [TopologyScope::Container, TopologyScope::Pod].map(TopologyScope::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<TopologyScope>())
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold simulate --machine dgx-h100 pods.yaml\n  \
    pinfold simulate -m '2 sockets, 8 cores' --config kubelet.yaml --compare pods.yaml\n  \
    pinfold simulate -m epyc-9654-nps4 --script steps.yaml --svg after.svg pods.yaml\n  \
    pinfold simulate --as koordinator --nodes nodes.yaml pods.yaml\n  \
    pinfold simulate --state /var/lib/kubelet rollout.yaml\n  \
    pinfold simulate --journal /var/lib/pinfold/journal\n\n\
    Pods are added on top of what runs (--pods, --state, --journal). Without PODS, --journal repeats\n\
    the decisions in the journal, by the agent's rules or under another --policy or --scope.\n\n\
    A script is a YAML list of steps; names are pods of the files, or deployments and jobs for\n\
    all their pods, or running pods:\n  \
    - add: web\n  \
    - start: web-0      # its init containers have finished\n  \
    - remove: web-0\n  \
    - restart           # of the kubelet\n\n\
    Exit code 1: at least one pod was rejected.")]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) pods: PodFilesArgs,
    /// Repeat all steps N times, with new pods every time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Simulate the steps under every topology policy and scope, and show which pods differ and why
    #[arg(long, conflicts_with_all = ["policy", "scope", "svg", "nodes", "copies"])]
    pub(crate) compare: bool,
    /// Leave kube-scheduler out: the pods are bound to the node already, as static pods and pods with spec.nodeName are
    #[arg(long)]
    pub(crate) bound: bool,
    /// Draw the result as SVG into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: SimulateFormat,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold explain --machine dgx-h100 --pods running.yaml new.yaml\n  \
    pinfold explain --state /var/lib/kubelet new.yaml\n  \
    pinfold explain --as volcano --nodes nodes.yaml new.yaml\n\n\
    Exit code 0: the pod would be admitted. Exit code 1: it would be rejected.")]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) pod: PodFileArgs,
    /// Leave kube-scheduler out: the pods are bound to the node already, as static pods and pods with spec.nodeName are
    #[arg(long)]
    pub(crate) bound: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

/// Files with pods.
#[derive(Debug, clap::Args)]
pub(crate) struct PodFilesArgs {
    /// Pods, deployments, jobs and the like, or directories of them; `-` is standard input
    #[arg(required_unless_present_any = ["journal", "filename", "state", "pods"], value_name = "PODS")]
    pub(crate) manifests: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) more: MoreFilesArgs,
}

/// More files with pods, and how files are read.
#[derive(Debug, clap::Args)]
pub(crate) struct MoreFilesArgs {
    /// More files or directories of this kind. Repeatable
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,
    /// Read the subdirectories of directories too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Where objects of other kinds have a pod template, such as .spec.template. Repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) pod_template_path: Vec<TemplatePath>,
}

/// Files with a pod.
#[derive(Debug, clap::Args)]
pub(crate) struct PodFileArgs {
    /// The pod; of several pods the first. A file or a directory; `-` is standard input
    #[arg(required_unless_present = "filename", value_name = "POD")]
    pub(crate) pod: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) more: MoreFilesArgs,
}

/// The state of the node before the command decides: the pods that run already.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Starting state")]
pub(crate) struct StartArgs {
    /// Running pods, admitted in this order. Repeatable
    #[arg(long, value_name = "FILE", conflicts_with_all = ["state", "journal"])]
    pub(crate) pods: Vec<PathBuf>,
    /// The kubelet's root directory, or a copy: its cpu_manager_state, memory_manager_state and
    /// device-plugins/kubelet_internal_checkpoint are the running pods, its config.yaml is the default of --config
    #[arg(long, value_name = "DIR", conflicts_with = "journal")]
    pub(crate) state: Option<PathBuf>,
    /// The journal of a node agent: its machine, its rules and its pods
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "config", "devices", "devices_file", "as"])]
    pub(crate) journal: Option<PathBuf>,
    /// Steps: for `simulate` instead of adding every pod once, else to take with the running pods
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold defragment --machine dgx-h100 --pods running.yaml new.yaml\n  \
    pinfold defragment --state /var/lib/kubelet new.yaml\n\n\
    Nothing is changed: the plan is a list of pods to remove and to add again, in order.\n\n\
    Exit code 0: the pod fits, with the plan or without. Exit code 1: no plan was found.")]
pub(crate) struct DefragmentArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) pod: PodFileArgs,
    /// Leave kube-scheduler out: the pods are bound to the node already, as static pods and pods with spec.nodeName are
    #[arg(long)]
    pub(crate) bound: bool,
    /// The most pods that may move
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) moves: u8,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold capacity --nodes cluster.json -f pod.yaml\n  \
    pinfold capacity --machine dgx-h100 --pods running.yaml --compare pod.yaml\n  \
    pinfold capacity --state /var/lib/kubelet pod.yaml\n\n\
    Exit code 0: at least one replica starts. Exit code 1: none does.")]
pub(crate) struct CapacityArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) pod: PodFileArgs,
    /// Also count under every topology policy and scope of the kubelets
    #[arg(long, conflicts_with_all = ["policy", "scope"])]
    pub(crate) compare: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: pinfold check --config kubelet.yaml --machine gb200-nvl4\n\n\
    Exit code 0: a kubelet would start. Exit code 1: it would not. Exit code 2: not a configuration."
)]
pub(crate) struct CheckArgs {
    /// The kubelet's configuration
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) machine: MachineArg,
    #[command(flatten)]
    pub(crate) decider: DeciderArg,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold upgrade --to 1.36 --nodes cluster.json\n  \
    pinfold upgrade --to 1.36 --nodes cluster.json --config kubelet.yaml\n  \
    pinfold upgrade --from 1.33 --to 1.36 --config kubelet.yaml --machine dgx-h100 --pods running.yaml\n  \
    pinfold upgrade --from 1.33 --to 1.36 --state /var/lib/kubelet\n\n\
    Exit code 0: every kubelet starts and no pod is rejected. Exit code 1: some kubelet does not start or\n\
    some pod is rejected.")]
pub(crate) struct UpgradeArgs {
    /// The version that the kubelets move to, such as 1.36
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: NamedVersion,
    /// The version that they run, instead of the kubeletVersion of Node objects
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<NamedVersion>,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold conformance conformance/kubelet --family merge --failures 3\n  \
    pinfold conformance conformance/kubelet --as pinfold\n\n\
    Exit code 0: every case gave the same answer or was set aside for a reason the vectors allow.\n\
    Exit code 1: some case gave another answer.")]
pub(crate) struct ConformanceArgs {
    /// A folder of vectors (*.jsonl, *.jsonl.gz), or a folder of such folders
    pub(crate) dir: PathBuf,
    /// Whose decisions to compare
    #[arg(
        id = "as",
        long = "as",
        value_enum,
        value_name = "WHO",
        default_value_t
    )]
    pub(crate) replayed: ReplayedArg,
    /// Replay only this family
    #[arg(long, value_name = "NAME")]
    pub(crate) family: Option<String>,
    /// Describe at most this many failures per family
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) failures: usize,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Whose decisions are compared with the vectors.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(crate) enum ReplayedArg {
    /// Those of the program that made the vectors, defects included
    #[default]
    Original,
    /// Pinfold's own, for the kubelet's vectors: counts the differences by defect of the kubelet
    Pinfold,
}
