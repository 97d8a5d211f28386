//! `pinfold man`: the manual, made of the same description as `--help`.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, ManArgs};
use crate::exit::Failure;
use crate::kubectl::PluginArgs;
use crate::output;

pub(crate) fn run(args: &ManArgs) -> Result<ExitCode, Failure> {
    let command = Args::command();
    match &args.dir {
        Some(dir) => {
            for command in [command, PluginArgs::command()] {
                clap_mangen::generate_to(command, dir).map_err(|error| {
                    Failure::Environment(format!(
                        "cannot write manual pages into {}: {error}",
                        dir.display()
                    ))
                })?;
            }
        }
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(command).render(&mut page);
            rendered.map_err(|error| Failure::Environment(error.to_string()))?;
            output::print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
