//! `pinfold presets`: the machines that `--machine` knows by name.

use std::process::ExitCode;

use pinfold_hardware::presets::PRESETS;
use pinfold_render::table::{Align, Table};
use serde::Serialize;

use crate::args::PresetsArgs;
use crate::exit::Failure;
use crate::output;

/// A preset as JSON and YAML.
#[derive(Serialize)]
struct PresetLine {
    name: &'static str,
    description: &'static str,
}

pub(crate) fn run(args: &PresetsArgs) -> Result<ExitCode, Failure> {
    let lines = PRESETS.iter().map(|preset| PresetLine {
        name: preset.name,
        description: preset.title(),
    });
    let lines: Vec<PresetLine> = lines.collect();
    output::print_as(args.output, &lines, || {
        let mut table = Table::new([("preset", Align::Left), ("machine", Align::Left)]);
        for line in &lines {
            table.row([line.name.to_owned(), line.description.to_owned()]);
        }
        table.draw()
    })?;
    Ok(ExitCode::SUCCESS)
}
