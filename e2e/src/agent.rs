//! The suite of the node agent: `pinfold agent` with a real container runtime, which runs real containers.
//!
//! ```text
//! programs ─► stage: containerd, agent, a client of each ─► scene: pods come and go ─┬─► kernel: what it lets them use
//!                                                                                    └─► oracle: what it should
//! ```
//!
//! `agent` runs it on this machine; `agent-inside FOLDER` runs the same on any Linux machine with nothing but the
//! programs in a folder: see [`programs`].

mod basics;
mod kernel;
mod oracle;
mod pods;
mod process;
pub(crate) mod programs;
mod scene;
mod stage;

use std::fs;
use std::path::Path;

use stage::Stage;

use crate::report::Report;

/// Runs every scenario on this machine.
pub(crate) fn run(report: &mut Report) {
    match programs::folder() {
        Ok(folder) => inside(report, &folder),
        Err(problem) => report.check("agent: programs", Err(problem)),
    }
}

/// Runs every scenario with the programs of a folder, on whatever machine this is.
pub(crate) fn inside(report: &mut Report, programs: &Path) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-agent-{}", std::process::id()));
    let outcome = Stage::set(programs, &folder).and_then(|mut stage| {
        let outcome = scenarios(report, &mut stage);
        stage.strike().and(outcome)
    });
    if let Err(problem) = outcome {
        let log = stage::end_of(&folder.join("containerd.log"));
        report.check("agent", Err(format!("{problem}\n{log}")));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn scenarios(report: &mut Report, stage: &mut Stage) -> Result<(), String> {
    basics::run(report, stage)
}
