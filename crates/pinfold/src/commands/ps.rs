//! `pinfold ps`: the pods of the node agent, or the commands of `pinfold run`, with their CPUs and memory.

use std::process::ExitCode;

use pinfold_agent_api::PodReport;
use pinfold_core::machine::Machine;
use pinfold_core::occupancy::Occupancy;
use pinfold_render::table::{Align, Table};
use pinfold_standalone::{Confinement, Run, RunRegistry, run_registry};
use serde::Serialize;

use super::run::{environment, picture};
use super::status;
use crate::agent_client::{AgentArg, AgentClient};
use crate::args::Format;
use crate::exit::Failure;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Lists the pods of the node agent if one is running, the commands of `pinfold run` otherwise."
)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The result as JSON or YAML.
#[derive(Serialize)]
struct RunList<'a> {
    runs: &'a [Run],
    occupancy: &'a Occupancy,
}

pub(crate) fn run(args: &PsArgs) -> Result<ExitCode, Failure> {
    if let Some(agent) = AgentClient::connect(&args.agent.socket) {
        let pods: Vec<PodReport> = agent.get("/v1/pods")?;
        output::print_as(args.output, &pods, || status::pods(&pods))?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = run_registry::folder().map_err(environment)?;
    let mut registry = RunRegistry::open(&folder).map_err(environment)?;
    if registry.runs().is_empty() {
        let hardware = pinfold_hardware::open("this")
            .map_err(|error| Failure::Environment(error.to_string()))?;
        registry.adopt_machine(&hardware).map_err(environment)?;
    }
    let occupancy = registry.occupancy().map_err(environment)?;
    let list = RunList {
        runs: registry.runs(),
        occupancy: &occupancy,
    };
    output::print_as(args.output, &list, || {
        text(
            registry.runs(),
            registry.machine().map(AsRef::as_ref),
            &occupancy,
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(runs: &[Run], machine: Option<&Machine>, occupancy: &Occupancy) -> String {
    let mut table = Table::new([
        ("run", Align::Right),
        ("pid", Align::Right),
        ("CPUs", Align::Left),
        ("memory", Align::Left),
        ("pinned by", Align::Left),
        ("command", Align::Left),
    ]);
    for run in runs {
        let place = &run.placement;
        table.row([
            run.id.to_string(),
            run.process.pid.to_string(),
            match place.exclusive_cpus {
                true => place.cpus.to_string(),
                false => format!("{} shared", place.cpus),
            },
            match place.nodes {
                Some(nodes) => format!("NUMA {nodes}"),
                None => "any".to_owned(),
            },
            pinned_by(&run.confinement).to_owned(),
            run.command.join(" "),
        ]);
    }
    let table = match runs {
        [] => "no runs\n".to_owned(),
        _ => table.draw(),
    };
    match machine {
        Some(machine) => format!("{table}\n{}", picture(machine, occupancy)),
        None => table,
    }
}

fn pinned_by(confinement: &Confinement) -> &'static str {
    match confinement {
        Confinement::CgroupV2 {
            partition: true, ..
        } => "partition",
        Confinement::CgroupV2 { .. } => "cgroup v2",
        Confinement::CgroupV1 { .. } => "cgroup v1",
        Confinement::Affinity => "affinity",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_core::device::NoPreference;
    use pinfold_core::ledger::Ledger;
    use pinfold_core::policy::TopologyPolicy;
    use pinfold_core::settings::TopologyScope;
    use pinfold_standalone::placement::{self, RunPolicy};
    use pinfold_standalone::process::Process;
    use pinfold_standalone::{RunPlacement, RunRequest};

    use super::*;

    /// Three commands on a machine of four cores.
    fn three_runs() -> (Vec<Run>, Ledger) {
        let hardware = pinfold_hardware::open("2 sockets, 2 cores, smt2").expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("all of it");
        let policy = RunPolicy {
            topology: TopologyPolicy::BestEffort,
            scope: TopologyScope::Container,
            memory: true,
        };
        let rules = placement::rules(&Arc::new(machine), policy).expect("rules");
        let mut ledger = Ledger::new(rules);
        let mut runs = Vec::new();
        let v2 = Confinement::CgroupV2 {
            group: "/sys/fs/cgroup/pinfold-1".into(),
            partition: false,
        };
        let v1 = Confinement::CgroupV1 {
            group: "/sys/fs/cgroup/cpuset/pinfold-5".into(),
        };
        for (id, cpus, memory, command, confinement) in [
            (1, "2", "2Gi", "./simulation --steps 1000", v2),
            (2, "3", "1Gi", "python3 train.py", Confinement::Affinity),
            (5, "500m", "64Mi", "./helper", v1),
        ] {
            let quantity = |text: &str| text.parse().expect("a quantity");
            let request = RunRequest {
                cpus: Some(quantity(cpus)),
                memory: Some(quantity(memory)),
                ..RunRequest::default()
            };
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let pod = Arc::new(request.pod(id, &words[0]));
            let admission = ledger.admit(&pod, &mut NoPreference).expect("a pod");
            let assignment = admission.decision.assignment().expect("there is room");
            let shared = ledger.state().cpus().shared();
            runs.push(Run {
                id,
                process: Process {
                    pid: 4711,
                    started: id,
                },
                command: words,
                policy: "best-effort".to_owned(),
                placement: RunPlacement::of(&assignment.containers[0], shared),
                confinement,
                pod,
            });
        }
        (runs, ledger)
    }

    #[test]
    fn every_run_is_listed_with_its_resources_and_how_it_is_pinned() {
        let (runs, ledger) = three_runs();
        let seen = text(&runs, Some(ledger.rules().machine()), &ledger.occupancy());
        assert_eq!(seen, include_str!("../../tests/golden/ps.txt"));
    }

    #[test]
    fn a_machine_without_runs_is_drawn() {
        let (_, ledger) = three_runs();
        let ledger = ledger.without_pods();
        let seen = text(&[], Some(ledger.rules().machine()), &ledger.occupancy());
        assert!(seen.starts_with("no runs\n\nNUMA node 0"), "{seen}");
        assert_eq!(text(&[], None, &Occupancy::default()), "no runs\n");
    }
}
