//! Whether a kubelet, or Pinfold's agent, starts with a configuration on a machine.
//!
//! `check` answers only this. `simulate`, `explain` and `defragment` give the same answer before they decide about pods.

use std::sync::Arc;

use pinfold_core::ledger::{Rules, SettingsError};
use pinfold_core::machine::Machine;
use pinfold_core::settings::Settings;
use pinfold_kube::decider::Decider;
use pinfold_kube::diagnostic::{Diagnostic, DiagnosticKind, Diagnostics};
use pinfold_render::text::paragraph;
use pinfold_terminal::Rejected;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::width;

mod problem;

/// One reason why the program does not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StartProblem {
    /// What is wrong.
    pub(crate) problem: String,
    /// What to change.
    pub(crate) fix: String,
    /// The program's own error message.
    pub(crate) message: String,
}

/// What is started: the program, its configuration and the machine, as they are called in messages.
#[derive(Clone, Debug)]
pub(crate) struct Startup {
    /// Whose start it is.
    pub(crate) decider: Decider,
    /// The file of the configuration, or that there is none.
    pub(crate) config: String,
    /// The machine's name.
    pub(crate) machine: String,
}

/// The answer "it does not start" for programs.
#[derive(Serialize)]
struct NotStarting<'a> {
    valid: bool,
    decider: String,
    problems: &'a [StartProblem],
    #[serde(skip_serializing_if = "Option::is_none")]
    as_pinfold: Option<&'static str>,
}

impl Startup {
    /// The name of the program that starts.
    fn program(&self) -> String {
        match self.decider {
            Decider::Pinfold => "Pinfold agent".to_owned(),
            Decider::Kubelet(version) => format!("kubelet {version}"),
            Decider::Koordinator | Decider::Volcano | Decider::SchedulerPlugins => {
                "kubelet".to_owned()
            }
        }
    }

    /// The first line of the answer, and the problems with their fixes.
    pub(crate) fn text(&self, problems: &[StartProblem]) -> String {
        let (program, config, machine) = (self.program(), &self.config, &self.machine);
        let answer = match problems.is_empty() {
            true => format!("valid: a {program} starts with {config} on {machine}"),
            false => format!("not valid: no {program} starts with {config} on {machine}"),
        };
        let mut text = paragraph("", &answer, 2, width());
        for (index, problem) in problems.iter().enumerate() {
            text.push('\n');
            let lead = format!("{}. ", index + 1);
            text.push_str(&paragraph(&lead, &problem.problem, 3, width()));
            if !problem.fix.is_empty() {
                text.push_str(&paragraph("   fix: ", &problem.fix, 8, width()));
            }
            let lead = match self.decider {
                Decider::Pinfold => "   the agent says: ",
                _ => "   the kubelet says: ",
            };
            text.push_str(&paragraph(lead, &problem.message, 8, width()));
        }
        text
    }

    /// The failure of a command that needs the program to start. `pinfold_starts` says that Pinfold's agent would.
    pub(crate) fn failure(&self, problems: &[StartProblem], pinfold_starts: bool) -> Failure {
        const AS_PINFOLD: &str = "the agent starts with the same configuration";
        let as_pinfold = (self.decider.is_kubelet() && pinfold_starts).then_some(AS_PINFOLD);
        let mut text = self.text(problems);
        if let Some(answer) = as_pinfold {
            let answer = format!("{answer} (docs/kubelet-differences.md).");
            text.push('\n');
            text.push_str(&paragraph("As pinfold: ", &answer, 2, width()));
        }
        let value = NotStarting {
            valid: false,
            decider: self.decider.to_string(),
            problems,
            as_pinfold,
        };
        let value = serde_json::to_value(&value).unwrap_or_default();
        Failure::Rejected(Box::new(Rejected { text, value }))
    }
}

/// Everything that keeps the program from starting with these settings.
pub(crate) fn problems(machine: &Arc<Machine>, settings: &Settings) -> Vec<StartProblem> {
    let errors = all_errors(machine, settings);
    let described = errors.iter();
    described
        .map(|error| problem::describe(error, machine, settings))
        .collect()
}

/// The problems of a configuration file that the program rejects when it reads it; `None` if the file is not a
/// configuration at all.
pub(crate) fn file_problems(findings: &Diagnostics) -> Option<Vec<StartProblem>> {
    let rejected = |finding: &Diagnostic| matches!(finding.problem, DiagnosticKind::Rejected(_));
    let place = |finding: &Diagnostic| match finding.at {
        Some(at) => format!("{} at {}:{at}", finding.path, finding.file),
        None => format!("{} in {}", finding.path, finding.file),
    };
    let problem = |finding: &Diagnostic| StartProblem {
        problem: place(finding),
        fix: finding.hint.clone().unwrap_or_default(),
        message: finding.problem.to_string(),
    };
    let any = findings.0.iter().any(rejected);
    any.then(|| findings.0.iter().map(problem).collect())
}

/// Every error that a kubelet would report if it did not stop at the first: of the whole configuration, then of each
/// manager alone.
fn all_errors(machine: &Arc<Machine>, settings: &Settings) -> Vec<SettingsError> {
    let none = Settings::default();
    let without_cpus = Settings {
        cpu_policy: none.cpu_policy,
        cpu_options: none.cpu_options.clone(),
        ..settings.clone()
    };
    let without_memory = Settings {
        memory_policy: none.memory_policy,
        ..settings.clone()
    };
    let unaligned = Settings {
        topology_policy: none.topology_policy,
        ..settings.clone()
    };
    let trials = [
        settings.clone(),
        Settings {
            memory_policy: none.memory_policy,
            ..unaligned.clone()
        },
        Settings {
            cpu_policy: none.cpu_policy,
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
