//! `pinfold run`: runs a command on exclusive CPUs and memory, without Kubernetes.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use pinfold_core::decision::Decision;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Ledger;
use pinfold_core::machine::Machine;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::TopologyScope;
use pinfold_hardware::Hardware;
use pinfold_render::grid::Legend;
use pinfold_render::layout::MachineLayout;
use pinfold_render::{explain, grid};
use pinfold_standalone::placement::{self, RunPolicy};
use pinfold_standalone::{
    Confinement, RunOutcome, RunPlacement, RunRegistry, RunRequest, StandaloneError, run_registry,
};
use serde::Serialize;

use crate::agent_client::{AgentArg, AgentClient};
use crate::args::{Format, policies, scopes};
use crate::exit::{Failure, REJECTED};
use crate::output::{self, width};

mod through_agent;

/// The hidden subcommand that the child process starts as; it executes the command.
const CHILD: [&str; 1] = ["__exec"];

const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pinfold run --cpus 4 --memory 2Gi -- ./simulation\n  \
    pinfold run --cpus 8 --policy single-numa-node --dry-run --machine epyc-9654-nps4 -- x\n\n\
    The exit code is the command's. Without a command: 1 rejected, 2 bad input, 3 environment."
)]
pub(crate) struct RunArgs {
    /// A whole number of exclusive CPUs; a fraction (or no flag) uses the shared pool
    #[arg(long, value_name = "N", value_parser = cpus)]
    cpus: Option<Quantity>,
    /// Memory to reserve, such as 2Gi; without it the command may use memory of every NUMA node
    #[arg(long, value_name = "QUANTITY", value_parser = memory)]
    memory: Option<Quantity>,
    /// Hugepages of 2 MiB to reserve, such as 512Mi
    #[arg(long = "hugepages-2Mi", value_name = "QUANTITY", value_parser = memory)]
    hugepages_2mi: Option<Quantity>,
    /// Hugepages of 1 GiB to reserve, such as 4Gi
    #[arg(long = "hugepages-1Gi", value_name = "QUANTITY", value_parser = memory)]
    hugepages_1gi: Option<Quantity>,
    /// The topology policy: how strictly CPUs and memory must be on the same NUMA nodes
    #[arg(long, value_parser = policies(), default_value = "best-effort")]
    policy: TopologyPolicy,
    /// The topology scope
    #[arg(long, value_parser = scopes(), default_value = "container")]
    scope: TopologyScope,
    /// Keep all other processes off the CPUs by a cpuset partition, not only other runs (needs cgroup v2)
    #[arg(long, requires = "cpus")]
    exclusive: bool,
    /// Print the decision without running the command
    #[arg(long)]
    dry_run: bool,
    /// Decide for another machine: a preset, a description, a recording, an hwloc XML file or a directory
    #[arg(long, value_name = "MACHINE", requires = "dry_run")]
    machine: Option<String>,
    /// The format of a dry run's result
    #[arg(short, long, value_enum, default_value_t, requires = "dry_run")]
    output: Format,
    #[command(flatten)]
    agent: AgentArg,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The result of a dry run as JSON or YAML.
#[derive(Serialize)]
struct DryRun<'a> {
    decision: &'a Decision,
    placement: Option<&'a RunPlacement>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    id: u64,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn cpus(text: &str) -> Result<Quantity, &'static str> {
    text.parse()
        .map_err(|_| "expected a number of CPUs such as 4, 1.5 or 500m")
}

fn memory(text: &str) -> Result<Quantity, &'static str> {
    text.parse()
        .map_err(|_| "expected an amount of memory such as 512Mi or 2Gi")
}

impl RunArgs {
    fn request(&self) -> Result<RunRequest, Failure> {
        let positive = |name: &str, amount: Option<Quantity>| match amount {
            Some(amount) if !amount.is_positive() => Err(Failure::BadInput(format!(
                "--{name} must be more than 0, found {amount}"
            ))),
            _ => Ok(amount),
        };
        let cpus = positive("cpus", self.cpus)?;
        let whole = cpus.is_some_and(|cpus| cpus.milli_value() % 1000 == 0);
        if self.exclusive && !whole {
            return Err(Failure::BadInput(
                "--exclusive needs a whole number of CPUs: a fraction of a CPU cannot be a cpuset partition".into(),
            ));
        }
        let pages = [
            ("hugepages-2Mi", self.hugepages_2mi),
            ("hugepages-1Gi", self.hugepages_1gi),
        ];
        let mut hugepages = std::collections::BTreeMap::new();
        for (name, amount) in pages {
            if let Some(amount) = positive(name, amount)? {
                hugepages.insert(name.into(), amount);
            }
        }
        Ok(RunRequest {
            cpus,
            memory: positive("memory", self.memory)?,
            hugepages,
            exclusive: self.exclusive,
        })
    }

    fn policy(&self, request: &RunRequest) -> RunPolicy {
        RunPolicy {
            topology: self.policy,
            scope: self.scope,
            memory: request.requests_memory(),
        }
    }
}

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let request = args.request()?;
    let policy = args.policy(&request);
    let spec = args.machine.as_deref().unwrap_or("this");
    let hardware = pinfold_hardware::open(spec).map_err(|error| match args.machine {
        Some(_) => Failure::BadInput(error.to_string()),
        None => Failure::Environment(error.to_string()),
    })?;
    if args.machine.is_some() {
        return dry_run_on(&hardware, &request, policy, args);
    }
    if !args.dry_run
        && let Some(agent) = AgentClient::connect(&args.agent.socket)
    {
        return through_agent::run(&agent, &request, &command_name(args), &args.command);
    }
    let folder = run_registry::folder().map_err(environment)?;
    if args.dry_run {
        let mut registry = RunRegistry::open(&folder).map_err(environment)?;
        registry.adopt_machine(&hardware).map_err(environment)?;
        let proposal = registry
            .propose(&request, policy, &command_name(args))
            .map_err(environment)?;
        let placement = proposal.placement();
        return print_dry_run(
            args,
            &proposal.decision,
            &proposal.ledger,
            placement.as_ref(),
        );
    }
    let outcome = pinfold_standalone::run(
        &folder,
        &hardware,
        &request,
        policy,
        &args.command,
        &CHILD,
        |confinement| warn_of_affinity(confinement, request.requests_memory()),
    );
    match outcome.map_err(environment)? {
        RunOutcome::Rejected(decision) => {
            // Standard output is the command's.
            let reason = explain::command_rejection(&command_name(args), &decision, width());
            output::remark(reason.trim_end());
            Ok(ExitCode::from(REJECTED))
        }
        RunOutcome::Ended { code, left } => {
            if let Some(problem) = left {
                Failure::Environment(problem.to_string()).report(crate::PROGRAM);
            }
            Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
        }
    }
}

/// Warns that pinning can be undone where no control group can be created.
fn warn_of_affinity(confinement: &Confinement, memory: bool) {
    if *confinement == Confinement::Affinity {
        let by = match memory {
            true => "CPU affinity and memory policy",
            false => "CPU affinity",
        };
        output::remark(&format!(
            "pinfold: cannot create a control group: the command is pinned by {by} only. It can change that, and its \
             CPUs are released when it exits even if processes that it started still run"
        ));
    }
}

/// The child process of a run: executes the command, or exits like a shell that cannot.
pub(crate) fn exec(args: &ExecArgs) -> Result<ExitCode, Failure> {
    let folder = run_registry::folder().map_err(environment)?;
    let error =
        pinfold_standalone::become_command(&folder, args.id, &args.command).map_err(environment)?;
    Ok(not_run(&args.command, &error))
}

/// Prints why a command could not be executed, and returns a shell's exit code.
fn not_run(command: &[OsString], error: &std::io::Error) -> ExitCode {
    let program = command.first().cloned().unwrap_or_default();
    Failure::Environment(format!("cannot run {}: {error}", program.display()))
        .report(crate::PROGRAM);
    ExitCode::from(match error.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    })
}

/// A dry run on an empty machine, not necessarily this one.
fn dry_run_on(
    hardware: &Hardware,
    request: &RunRequest,
    policy: RunPolicy,
    args: &RunArgs,
) -> Result<ExitCode, Failure> {
    let bad = |error: &dyn std::fmt::Display| Failure::BadInput(error.to_string());
    let (machine, _) = hardware
        .machine_within_reach()
        .map_err(|error| bad(&error))?;
    let rules = placement::rules(&Arc::new(machine), policy).map_err(|error| bad(&error))?;
    let mut ledger = Ledger::new(rules);
    let pod = Arc::new(request.pod(1, &command_name(args)));
    let admission = ledger
        .admit(&pod, &mut NoPreference)
        .map_err(|error| bad(&error))?;
    let placement = admission
        .decision
        .assignment()
        .and_then(|assignment| assignment.containers.first())
        .map(|container| RunPlacement::of(container, ledger.state().cpus().shared()));
    print_dry_run(args, &admission.decision, &ledger, placement.as_ref())
}

fn command_name(args: &RunArgs) -> String {
    let program = args.command.first().cloned().unwrap_or_default();
    let name = std::path::Path::new(&program).file_name();
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Prints the decision of a dry run, and the machine with it.
fn print_dry_run(
    args: &RunArgs,
    decision: &Decision,
    ledger: &Ledger,
    placement: Option<&RunPlacement>,
) -> Result<ExitCode, Failure> {
    let result = DryRun {
        decision,
        placement,
    };
    output::print_as(args.output, &result, || match placement {
        None => explain::command_rejection(&command_name(args), decision, width()),
        Some(placement) => {
            let picture = picture(ledger.rules().machine(), &ledger.occupancy());
            format!("would run on {}\n\n{picture}", describe(placement))
        }
    })?;
    Ok(match placement {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(REJECTED),
    })
}

/// `CPUs 2-3 (exclusive), memory of NUMA node 1`.
pub(super) fn describe(placement: &RunPlacement) -> String {
    let kind = match placement.exclusive_cpus {
        true => "exclusive",
        false => "shared",
    };
    let memory = match placement.nodes {
        Some(nodes) if nodes.len() == 1 => format!("memory of NUMA node {nodes}"),
        Some(nodes) => format!("memory of NUMA nodes {nodes}"),
        None => "memory of every NUMA node".to_owned(),
    };
    format!("CPUs {} ({kind}), {memory}", placement.cpus)
}

/// The machine with the CPUs of every holder.
pub(super) fn picture(machine: &Machine, occupancy: &pinfold_core::occupancy::Occupancy) -> String {
    let plan = MachineLayout::new(machine, occupancy);
    grid::draw(
        &plan,
        occupancy,
        Legend::Commands,
        width(),
        output::colour(),
    )
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
pub(super) fn environment(error: StandaloneError) -> Failure {
    Failure::Environment(error.to_string())
}
