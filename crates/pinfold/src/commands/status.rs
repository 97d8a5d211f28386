//! `pinfold status` and `pinfold settings`: the health of the node agent, and a new policy for its node.

use std::path::PathBuf;
use std::process::ExitCode;

use pinfold_agent_api::{AgentStatus, PodReport, RulesChangeReport, TakeoverStatus};
use pinfold_render::table::{Align, Table};
use pinfold_render::text::count;

use super::admit::describe;
use crate::agent_client::{AgentArg, AgentClient};
use crate::args::Format;
use crate::exit::{Failure, REJECTED};
use crate::input::Source;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 1: the agent reports a problem.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold settings kubelet.yaml --dry-run    what changes for running pods\n  \
    pinfold settings kubelet.yaml              apply it\n\n\
    Exit code 1: a running pod would not fit; nothing was changed.")]
pub(crate) struct SettingsArgs {
    /// A KubeletConfiguration with the new policy; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the plan without applying it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    agent: AgentArg,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let agent = AgentClient::new(&args.agent.socket);
    let status: AgentStatus = agent.get("/v1/status")?;
    output::print_as(args.output, &status, || text(&status))?;
    Ok(match status.problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REJECTED),
    })
}

fn text(status: &AgentStatus) -> String {
    let runtime = match status.runtime_connected {
        Some(true) => "connected",
        Some(false) => "not connected",
        None => "none",
    };
    let holders = status.occupancy.holders.len() + status.occupancy.shared_only_pods;
    let mut text = format!(
        "node {}, mode {}, pinfold {}\ntopology {} per {}\nruntime {runtime}, {}, journal entry {}\nshared CPUs {}\n",
        status.node,
        status.mode,
        status.version,
        status.topology_policy,
        status.topology_scope,
        count(holders, "pod", "pods"),
        status.generation,
        status.occupancy.shared,
    );
    if let Some(takeover) = &status.takeover {
        text.push_str(&takeover_text(takeover));
    }
    for problem in &status.problems {
        text.push_str(&format!("problem: {problem}\n"));
    }
    text
}

fn takeover_text(takeover: &TakeoverStatus) -> String {
    let policy = takeover.kubelet_policy.as_deref().unwrap_or("unknown");
    let mut text = format!(
        "takeover {}, kubelet's CPU manager policy {policy}, {} by the kubelet\n",
        takeover.phase,
        count(takeover.pinned_pods.len(), "pod pinned", "pods pinned"),
    );
    for (pod, cpus) in &takeover.pinned_pods {
        text.push_str(&format!(
            "  pod {pod} keeps CPUs {cpus} until it terminates\n"
        ));
    }
    text
}

pub(crate) fn settings(args: &SettingsArgs) -> Result<ExitCode, Failure> {
    let source = Source::open(&args.file)?;
    let agent = AgentClient::new(&args.agent.socket);
    let path = match args.dry_run {
        true => "/v1/settings?dryRun=true",
        false => "/v1/settings",
    };
    let plan: RulesChangeReport = match agent.send("POST", path, &source.bytes) {
        Ok(plan) => plan,
        Err(error) => return error.into_exit_code(),
    };
    output::print_as(args.output, &plan, || plan_text(&plan))?;
    let unplaceable = plan.pods.iter().any(|pod| pod.outcome == "unplaceable");
    Ok(match unplaceable {
        true => ExitCode::from(REJECTED),
        false => ExitCode::SUCCESS,
    })
}

fn plan_text(plan: &RulesChangeReport) -> String {
    let mut table = Table::new([
        ("pod", Align::Left),
        ("result", Align::Left),
        ("reason", Align::Left),
    ]);
    for pod in &plan.pods {
        let fate = match pod.needs_restart {
            true => format!("{}, restart required", pod.outcome),
            false => pod.outcome.clone(),
        };
        table.row([pod.name.clone(), fate, pod.reason.clone()]);
    }
    let done = match plan.applied {
        true => "applied\n",
        false => "not applied\n",
    };
    match plan.pods.is_empty() {
        true => format!("no pods\n{done}"),
        false => format!("{}\n{done}", table.draw()),
    }
}

/// A table of the agent's pods and the resources of their containers.
pub(crate) fn pods(pods: &[PodReport]) -> String {
    let mut table = Table::new([
        ("pod", Align::Left),
        ("uid", Align::Left),
        ("container", Align::Left),
        ("resources", Align::Left),
    ]);
    for pod in pods {
        for container in &pod.containers {
            table.row([
                pod.name.clone(),
                pod.uid.to_string(),
                container.name.to_string(),
                match pod.opted_out {
                    true => format!(
                        "{}, not pinned: pinfold.dev/pin is false",
                        describe(container)
                    ),
                    false => describe(container),
                },
            ]);
        }
    }
    match pods {
        [] => "no pods\n".to_owned(),
        _ => table.draw(),
    }
}
