//! `pinfold checkpoint`: the CPUs that a scheduler chose, into the state of a kubelet that is stopped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use crate::checkpoint::{self, CpuManagerStateFile, CpuReplacement, StateFileError};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Rules;
use pinfold_core::name::PodUid;
use pinfold_kube::koordinator::ResourceStatus;
use pinfold_kube::pod;
use pinfold_render::table::{Align, Table};
use serde::Serialize;

use crate::args::{Format, MachineArg, THIS};
use crate::exit::{Failure, REJECTED};
use crate::input::{self, Source};
use crate::output::shell_word;
use crate::{node, output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    systemctl stop kubelet\n  \
    kubectl get pods -A -o yaml > pods.yaml\n  \
    pinfold checkpoint pods.yaml --dry-run\n  \
    pinfold checkpoint pods.yaml\n  \
    systemctl start kubelet\n\n\
    Every pod with the annotation scheduling.koordinator.sh/resource-status gets the CPUs that it names. \
    The old file is kept beside the new one.\n\n\
    Exit code 1: a kubelet runs, or cannot live with these CPUs; nothing was done.")]
pub(crate) struct CheckpointArgs {
    /// The pods of the node, with their annotations; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The kubelet's folder
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    kubelet_root: PathBuf,
    /// The kubelet's configuration; without one `config.yaml` in its folder
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArg,
    /// Only say what would happen; a kubelet may run
    #[arg(long)]
    dry_run: bool,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The result as JSON or YAML.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Whether the file was written.
    written: bool,
    /// The copy of the old file.
    #[serde(rename = "backup")]
    kept: Option<PathBuf>,
    /// The containers with other CPUs.
    changes: Vec<CpuReplacement>,
    /// The shared CPUs.
    shared: CpuSet,
}

pub(crate) fn run(args: &CheckpointArgs) -> Result<ExitCode, Failure> {
    let root = &args.kubelet_root;
    let config = args
        .config
        .clone()
        .unwrap_or_else(|| root.join("config.yaml"));
    let kubelet = input::kubelet(&config, Fidelity::Exact)?;
    let hardware = input::hardware(&args.machine.machine)?;
    let machine = Arc::new(node::kubelet_machine(&hardware)?);
    let settings = kubelet.settings(hardware.memory, Fidelity::Exact);
    let rules = Rules::new(machine, settings).map_err(|error| {
        let message = format!("{}: no kubelet would start with this", config.display());
        let check = check_command(&config, &args.machine.machine);
        Failure::BadInput(format!("{message}\n  {error}\n  try: {check}"))
    })?;
    let stored =
        CpuManagerStateFile::read(root, kubelet.pod_level()).map_err(|error| unusable(&error))?;
    let chosen = chosen(&args.files)?;
    let replaced = checkpoint::replace(&stored.state, &chosen, &rules.reserved_cpus());
    let replaced = match replaced {
        Ok(replaced) => replaced,
        Err(error) => return rejected(&error.to_string()),
    };
    let mut report = Report {
        written: false,
        kept: None,
        changes: replaced.changes,
        shared: replaced.state.default_cpus.clone(),
    };
    if !args.dry_run && !report.changes.is_empty() {
        if let Some(sign) = checkpoint::find_running_kubelet(Path::new("/proc"), root) {
            let message = format!("a kubelet runs: {sign}\n  stop it first, or try --dry-run");
            return rejected(&message);
        }
        report.kept = Some(
            stored
                .replace(&replaced.state)
                .map_err(|error| unusable(&error))?,
        );
        report.written = true;
    }
    output::print_as(args.output, &report, || text(&report, chosen.is_empty()))?;
    Ok(ExitCode::SUCCESS)
}

/// The command line that explains why a kubelet does not start.
fn check_command(config: &Path, machine: &str) -> String {
    let config = shell_word(&config.display().to_string());
    match machine {
        THIS => format!("pinfold check --config {config}"),
        machine => format!(
            "pinfold check --config {config} --machine {}",
            shell_word(machine)
        ),
    }
}

/// What schedulers chose for the pods in these files.
fn chosen(files: &[PathBuf]) -> Result<BTreeMap<PodUid, CpuSet>, Failure> {
    let mut chosen = BTreeMap::new();
    for file in files {
        let source = Source::open(file)?;
        let read = pod::read(&source.name, &source.bytes);
        let read = read.map_err(|findings| source.failure(&findings))?;
        source.warn(&read.warnings);
        for pod in read.value {
            let status = ResourceStatus::read(&pod, Fidelity::Sound);
            let status = status.map_err(|findings| source.failure(&findings))?;
            let cpus = status.value.map(|status| status.cpus);
            if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
                chosen.insert(pod.pod.uid.clone(), cpus);
            }
        }
    }
    Ok(chosen)
}

fn unusable(error: &StateFileError) -> Failure {
    match error {
        StateFileError::Content(_) | StateFileError::NotRegular(_) => {
            Failure::BadInput(error.to_string())
        }
        StateFileError::System { .. } | StateFileError::Changed(_) => {
            Failure::Environment(error.to_string())
        }
    }
}

fn rejected(message: &str) -> Result<ExitCode, Failure> {
    output::remark(message);
    Ok(ExitCode::from(REJECTED))
}

fn text(report: &Report, none_chosen: bool) -> String {
    if none_chosen {
        return "no pod names CPUs that a scheduler chose; nothing to do\n".to_owned();
    }
    let mut table = Table::new([
        ("pod", Align::Left),
        ("container", Align::Left),
        ("CPUs before", Align::Left),
        ("CPUs after", Align::Left),
    ]);
    for change in &report.changes {
        table.row([
            change.pod.to_string(),
            change.container.to_string(),
            change.before.to_string(),
            change.after.to_string(),
        ]);
    }
    if report.changes.is_empty() {
        return "every pod has what its scheduler chose; nothing to do\n".to_owned();
    }
    let done = match &report.kept {
        Some(kept) => format!("written; the old file is {}\n", kept.display()),
        None => "nothing was written\n".to_owned(),
    };
    format!("{}\nshared CPUs {}\n{done}", table.draw(), report.shared)
}
