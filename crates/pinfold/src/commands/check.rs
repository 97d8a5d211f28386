//! `pinfold check`: whether a kubelet starts with a configuration on a machine.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy};
use pinfold_kube::decider::Decider;
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_render::amount;
use pinfold_render::text::{count, paragraph};
use pinfold_terminal::{Failure, REJECTED, Source};
use serde::Serialize;

use crate::args::CheckArgs;
use crate::output::{self, width};
use crate::startup::{self, StartProblem, Startup};
use crate::{input, node};

/// The answer as JSON and YAML.
#[derive(Serialize)]
struct CheckReport {
    /// Whether the kubelet starts.
    valid: bool,
    /// Who was checked.
    decider: String,
    /// What keeps it from starting.
    problems: Vec<StartProblem>,
    /// Settings that work, but perhaps not as intended.
    warnings: Vec<String>,
    /// What pods can get, if it starts.
    for_pods: Vec<String>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let decider = args.decider.decider;
    let fidelity = match decider {
        Decider::Kubelet(version) => Fidelity::of_kubelet(version),
        Decider::Pinfold => Fidelity::Sound,
        Decider::Koordinator | Decider::Volcano | Decider::SchedulerPlugins => {
            return Err(Failure::BadInput(format!(
                "--as {decider}: check starts a kubelet or pinfold's agent, not a scheduler"
            )));
        }
    };
    let source = Source::open(&args.config)?;
    let hardware = input::hardware(&args.machine.machine)?;
    let machine = Arc::new(node::kubelet_machine(&hardware)?);
    let startup = Startup {
        decider,
        config: source.name.clone(),
        machine: match hardware.name.as_str() {
            "" => args.machine.machine.clone(),
            name => name.to_owned(),
        },
    };
    let mut report = CheckReport {
        valid: false,
        decider: decider.to_string(),
        problems: Vec::new(),
        warnings: Vec::new(),
        for_pods: Vec::new(),
    };
    match KubeletSettings::read(&source.name, &source.bytes, fidelity) {
        Ok(read) => {
            source.warn(&read.warnings);
            let settings = read.value.settings(hardware.memory, fidelity);
            report.problems = startup::problems(&machine, &settings);
            report.warnings = warnings(&read.value);
            let warnings = hardware.warnings();
            report
                .warnings
                .extend(warnings.iter().map(ToString::to_string));
            let rules = Rules::new(machine, settings);
            report.for_pods = rules.map(for_pods).unwrap_or_default();
        }
        Err(findings) => match startup::file_problems(&findings) {
            Some(problems) => report.problems = problems,
            None => return Err(source.failure(&findings)),
        },
    }
    report.valid = report.problems.is_empty();
    output::print_as(args.output, &report, || text(&startup, &report))?;
    Ok(match report.valid {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}

/// Settings that work, but perhaps not as intended.
fn warnings(settings: &KubeletSettings) -> Vec<String> {
    let mut warnings = Vec::new();
    let unmanaged = settings.cpu_policy == CpuManagerPolicy::None
        && settings.memory_policy == MemoryManagerPolicy::None;
    let aligned = settings.topology_policy != TopologyPolicy::None;
    if aligned && unmanaged {
        warnings.push(
            "the topology policy aligns devices only: neither CPUs nor memory are managed (set \
             cpuManagerPolicy: static)"
                .to_owned(),
        );
    }
    if !aligned && !unmanaged {
        warnings.push(
            "topologyManagerPolicy is none: CPUs, memory and devices are not aligned with each other"
                .to_owned(),
        );
    }
    let amount = |list: &pinfold_core::pod::ResourceList| list.contains_key("cpu");
    let named = !settings.reserved_system_cpus.is_empty();
    if named && (amount(&settings.kube_reserved) || amount(&settings.system_reserved)) {
        warnings.push(
            "reservedSystemCPUs replaces the cpu amounts in kubeReserved and systemReserved, which \
             have no effect"
                .to_owned(),
        );
    }
    warnings
}

/// The CPUs and memory that pods can get.
fn for_pods(rules: Rules) -> Vec<String> {
    let mut lines = Vec::new();
    let reserved = rules.reserved_cpus();
    if rules.settings().cpu_policy == CpuManagerPolicy::Static {
        let all = rules.topology().all().len();
        lines.push(format!(
            "{} for pods, {reserved} reserved",
            count(all - reserved.len(), "CPU", "CPUs")
        ));
    }
    if rules.assigns_memory() {
        let occupancy = Ledger::new(Arc::new(rules)).occupancy();
        let rows = occupancy.memory.iter().filter(|row| row.total > 0);
        lines.extend(rows.map(|row| {
            let (all, total) = (amount::bytes(row.allocatable), amount::bytes(row.total));
            let (resource, node) = (&row.resource, row.node);
            format!("node {node}: {all} of {total} {resource} for pods")
        }));
    }
    lines
}

fn text(startup: &Startup, report: &CheckReport) -> String {
    let mut text = startup.text(&report.problems);
    for line in &report.for_pods {
        let _ = writeln!(text, "  {line}");
    }
    if !report.warnings.is_empty() {
        text.push_str("\nwarnings\n");
        for warning in &report.warnings {
            text.push_str(&paragraph("  - ", warning, 4, width()));
        }
    }
    text
}
