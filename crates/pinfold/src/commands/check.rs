//! `pinfold check`: would a kubelet start with this configuration on this machine?

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules, SettingsError};
use pinfold_core::machine::Machine;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::Settings;
use pinfold_kube::diagnostic::{Diagnostic, DiagnosticKind, Diagnostics};
use pinfold_kube::kubelet_config::{CpuManagerPolicy, KubeletSettings, MemoryManagerPolicy};
use pinfold_render::amount;
use pinfold_render::text::{count, paragraph};
use serde::Serialize;

use crate::args::CheckArgs;
use crate::exit::{Failure, REJECTED};
use crate::input::{self, Source};
use crate::node;
use crate::output::{self, width};

mod words;

/// The answer.
#[derive(Serialize)]
struct Report {
    /// Whether a kubelet would start.
    valid: bool,
    /// What keeps it from starting.
    problems: Vec<Problem>,
    /// What works, but perhaps not as meant.
    advice: Vec<String>,
    /// What pods can get, if it starts.
    for_pods: Vec<String>,
}

/// One thing that keeps a kubelet from starting.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Problem {
    /// In plain words.
    plain: String,
    /// What to do.
    fix: String,
    /// What the kubelet would say.
    kubelet: String,
}

impl Report {
    /// For a file that a kubelet rejects before it looks at the machine.
    fn unreadable(findings: &Diagnostics) -> Self {
        let problem = |finding: &Diagnostic| Problem {
            plain: finding.to_string(),
            fix: finding.hint.clone().unwrap_or_default(),
            kubelet: finding.problem.to_string(),
        };
        Self {
            valid: false,
            problems: findings.0.iter().map(problem).collect(),
            advice: Vec::new(),
            for_pods: Vec::new(),
        }
    }
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let source = Source::open(&args.config)?;
    let hardware = input::hardware(&args.machine.machine)?;
    let machine = Arc::new(node::view(&hardware)?);
    let read = KubeletSettings::read(&source.name, &source.bytes, Fidelity::Exact);
    let read = match read {
        Ok(read) => read,
        Err(findings) => {
            let rejected = |found: &DiagnosticKind| matches!(found, DiagnosticKind::Rejected(_));
            if !findings.0.iter().any(|finding| rejected(&finding.problem)) {
                return Err(source.failure(&findings));
            }
            let report = Report::unreadable(&findings);
            output::print_as(args.output, &report, || {
                let told = source.failure(&findings);
                format!(
                    "not valid: no kubelet starts with {}\n\n{told}\n",
                    source.name
                )
            })?;
            return Ok(ExitCode::from(REJECTED));
        }
    };
    source.warn(&read.warnings);
    let settings = read.value.settings(hardware.memory, Fidelity::Exact);
    let errors = all_errors(&machine, &settings);
    let mut advice = advice(&read.value);
    advice.extend(hardware.warnings().iter().map(ToString::to_string));
    let rules = Rules::new(machine.clone(), settings.clone());
    let report = Report {
        valid: errors.is_empty(),
        problems: errors
            .iter()
            .map(|error| words::problem(error, &machine, &settings))
            .collect(),
        advice,
        for_pods: rules.map(for_pods).unwrap_or_default(),
    };
    let name = match hardware.name.as_str() {
        "" => &args.machine.machine,
        name => name,
    };
    output::print_as(args.output, &report, || text(&report, &source.name, name))?;
    Ok(match report.valid {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}

/// Everything a kubelet would complain about if it did not stop at the first: the whole, then each manager alone.
fn all_errors(machine: &Arc<Machine>, settings: &Settings) -> Vec<SettingsError> {
    let none = Settings::default();
    let without_cpus = Settings {
        cpu_policy: none.cpu_policy.clone(),
        cpu_options: none.cpu_options.clone(),
        ..settings.clone()
    };
    let without_memory = Settings {
        memory_policy: none.memory_policy.clone(),
        ..settings.clone()
    };
    let unaligned = Settings {
        topology_policy: none.topology_policy.clone(),
        ..settings.clone()
    };
    let trials = [
        settings.clone(),
        Settings {
            memory_policy: none.memory_policy.clone(),
            ..unaligned.clone()
        },
        Settings {
            cpu_policy: none.cpu_policy.clone(),
            cpu_options: none.cpu_options.clone(),
            ..unaligned
        },
        Settings {
            memory_policy: none.memory_policy,
            ..without_cpus
        },
        without_memory,
    ];
    let mut errors = Vec::new();
    for trial in trials {
        if let Err(error) = Rules::new(machine.clone(), trial)
            && !errors.contains(&error)
        {
            errors.push(error);
        }
    }
    errors
}

/// What works, but perhaps not as meant.
fn advice(settings: &KubeletSettings) -> Vec<String> {
    let mut advice = Vec::new();
    let unmanaged = settings.cpu_policy == CpuManagerPolicy::None
        && settings.memory_policy == MemoryManagerPolicy::None;
    let aligned = settings.topology_policy != TopologyPolicy::None;
    if aligned && unmanaged {
        advice.push(
            "the topology policy aligns devices only: neither CPUs nor memory are managed (set \
             cpuManagerPolicy: static)"
                .to_owned(),
        );
    }
    if !aligned && !unmanaged {
        advice.push(
            "topologyManagerPolicy is none: CPUs, memory and devices are each handed out without \
             regard to the others"
                .to_owned(),
        );
    }
    let amount = |list: &pinfold_core::pod::ResourceList| list.contains_key("cpu");
    let named = !settings.reserved_system_cpus.is_empty();
    if named && (amount(&settings.kube_reserved) || amount(&settings.system_reserved)) {
        advice.push(
            "reservedSystemCPUs takes the place of the cpu amounts in kubeReserved and \
             systemReserved, which count for nothing"
                .to_owned(),
        );
    }
    advice
}

/// What is left for pods.
fn for_pods(rules: Rules) -> Vec<String> {
    let mut lines = Vec::new();
    let reserved = rules.reserved_cpus();
    if rules.settings().cpu_policy == "static" {
        let all = rules.topology().all().len();
        lines.push(format!(
            "{} for pods, {reserved} reserved",
            count(all - reserved.len(), "CPU", "CPUs")
        ));
    }
    if rules.settings().memory_policy == "Static" {
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

fn text(report: &Report, file: &str, machine: &str) -> String {
    let answer = match report.valid {
        true => format!("valid: a kubelet starts with {file} on {machine}"),
        false => format!("not valid: no kubelet starts with {file} on {machine}"),
    };
    let mut text = paragraph("", &answer, 2, width());
    for (index, problem) in report.problems.iter().enumerate() {
        text.push('\n');
        let lead = format!("{}. ", index + 1);
        text.push_str(&paragraph(&lead, &problem.plain, 3, width()));
        text.push_str(&paragraph("   fix: ", &problem.fix, 8, width()));
        text.push_str(&paragraph(
            "   the kubelet says: ",
            &problem.kubelet,
            8,
            width(),
        ));
    }
    for line in &report.for_pods {
        let _ = writeln!(text, "  {line}");
    }
    if !report.advice.is_empty() {
        text.push_str("\nlook at this\n");
        for advice in &report.advice {
            text.push_str(&paragraph("  - ", advice, 4, width()));
        }
    }
    text
}
