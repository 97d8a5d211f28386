//! The suite of the node agent: `pinfold agent` with a real container runtime, which runs real containers.
//!
//! ```text
//! programs ─► stage: containerd, agent, a client of each ─► scene: pods come and go ─┬─► kernel: what it lets them use
//!                                                                                    └─► oracle: what it should
//! ```
//!
//! `agent` runs it on this machine; `agent-inside FOLDER` runs the same on any Linux machine with nothing but the
//! programs in a folder: see [`programs`].

mod chance;
mod classes;
mod crashes;
mod drift;
mod faults;
pub(crate) mod guest;
mod hotplug;
mod kernel;
mod koordinator;
mod kubelet;
mod load;
mod options;
mod oracle;
mod partitions;
mod pods;
mod pretend;
mod process;
pub(crate) mod programs;
mod rules;
mod scene;
mod stage;
mod takeover;
mod vectors;

use std::fs;
use std::path::Path;

use options::Options;
use stage::Stage;

use crate::report::Report;

/// Runs every scenario on this machine.
pub(crate) fn run(report: &mut Report) {
    match programs::folder() {
        Ok(folder) => inside(report, &folder, &[]),
        Err(problem) => report.check("agent: programs", Err(problem)),
    }
}

/// Runs scenarios with the programs of a folder, on whatever machine this is.
pub(crate) fn inside(report: &mut Report, programs: &Path, words: &[String]) {
    let options = match Options::read(words) {
        Ok(options) => options,
        Err(problem) => return report.check("agent: options", Err(problem)),
    };
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-agent-{}", std::process::id()));
    let outcome = Stage::set(programs, &folder).map(|mut stage| {
        play(report, &mut stage, &options);
    });
    if let Err(problem) = outcome {
        let log = stage::end_of(&folder.join("containerd.log"));
        report.check("agent", Err(format!("{problem}\n{log}")));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn play(report: &mut Report, stage: &mut Stage, options: &Options) {
    type Theme = fn(&mut Report, &mut Stage, &Options) -> Result<(), String>;
    let themes: [(&str, Theme); 10] = [
        ("kubelet", kubelet::run),
        ("koordinator", koordinator::run),
        ("vectors", vectors::run),
        ("drift", drift::run),
        ("takeover", takeover::run),
        ("hotplug", hotplug::run),
        ("partitions", partitions::run),
        ("faults", faults::run),
        ("crashes", crashes::run),
        ("load", load::run),
    ];
    for (name, theme) in themes {
        if options.plays(name)
            && let Err(problem) = theme(report, stage, options)
        {
            report.check(format_args!("agent: {name}"), Err(problem));
        }
    }
}
