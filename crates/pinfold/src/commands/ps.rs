//! `pinfold ps`: who runs on what.

use std::process::ExitCode;

use pinfold_core::machine::Machine;
use pinfold_core::occupancy::Occupancy;
use pinfold_render::table::{Align, Table};
use pinfold_standalone::{Book, Hold, Run, book};
use serde::Serialize;

use super::run::{environment, picture};
use crate::args::Format;
use crate::exit::Failure;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 0, whether anything runs or not.")]
pub(crate) struct PsArgs {
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What programs get.
#[derive(Serialize)]
struct Listing<'a> {
    runs: &'a [Run],
    occupancy: &'a Occupancy,
}

pub(crate) fn run(args: &PsArgs) -> Result<ExitCode, Failure> {
    let folder = book::folder().map_err(environment)?;
    let mut book = Book::open(&folder).map_err(environment)?;
    if book.runs().is_empty() {
        let hardware = pinfold_hardware::open("this")
            .map_err(|error| Failure::Environment(error.to_string()))?;
        book.settle(&hardware).map_err(environment)?;
    }
    let occupancy = book.occupancy().map_err(environment)?;
    let listing = Listing {
        runs: book.runs(),
        occupancy: &occupancy,
    };
    output::print_as(args.output, &listing, || {
        text(book.runs(), book.machine().map(AsRef::as_ref), &occupancy)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(runs: &[Run], machine: Option<&Machine>, occupancy: &Occupancy) -> String {
    let mut table = Table::new([
        ("run", Align::Right),
        ("pid", Align::Right),
        ("CPUs", Align::Left),
        ("memory", Align::Left),
        ("held by", Align::Left),
        ("command", Align::Left),
    ]);
    for run in runs {
        let place = &run.placement;
        table.row([
            run.id.to_string(),
            run.process.pid.to_string(),
            match place.own_cpus {
                true => place.cpus.to_string(),
                false => format!("{} shared", place.cpus),
            },
            match place.nodes {
                Some(nodes) => format!("NUMA {nodes}"),
                None => "any".to_owned(),
            },
            held_by(&run.hold).to_owned(),
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

fn held_by(hold: &Hold) -> &'static str {
    match hold {
        Hold::CgroupV2 {
            partition: true, ..
        } => "partition",
        Hold::CgroupV2 { .. } => "cgroup v2",
        Hold::CgroupV1 { .. } => "cgroup v1",
        Hold::Affinity => "affinity",
    }
}
