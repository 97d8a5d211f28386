//! The suite of the node agent: `pinfold-agent` with a real container runtime, which runs real containers.
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
mod clock;
mod crashes;
mod devices;
mod drift;
mod faults;
pub(crate) mod guest;
mod hotplug;
mod kernel;
mod koordinator;
mod kubelet;
mod latency;
mod load;
mod nodes;
mod options;
mod oracle;
mod partitions;
mod pods;
mod pretend;
mod process;
mod processes;
pub(crate) mod programs;
mod reports;
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
        Ok(folder) => inside(report, &folder, &["devices=1".to_owned()]),
        Err(problem) => report.check("agent: programs", Err(problem)),
    }
}

/// Measures an agent under load, in a release build, and writes it down.
pub(crate) fn bench(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-agent-{}", std::process::id()));
    let measured = programs::folder().and_then(|programs| {
        let mut stage = Stage::set(&programs, &folder)?;
        stage.agent_program = crate::programs::release_program(crate::programs::AGENT)?;
        let part = load::bench(&mut stage);
        stage.cri.remove_everything()?;
        crate::page::write("agent", &part?)
    });
    let _ = fs::remove_dir_all(&folder);
    report.check("agent: measured", measured);
}

/// Runs scenarios with the programs of a folder, on whatever machine this is.
pub(crate) fn inside(report: &mut Report, programs: &Path, words: &[String]) {
    let options = match Options::read(words) {
        Ok(options) => options,
        Err(problem) => return report.check("agent: options", Err(problem)),
    };
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-agent-{}", std::process::id()));
    let outcome = Stage::set(programs, &folder).and_then(|mut stage| {
        play(report, &mut stage, &options);
        // Nothing stays behind, whatever went wrong.
        stage.cri.remove_everything()
    });
    if let Err(problem) = outcome {
        let log = stage::end_of(&folder.join("containerd.log"));
        report.check("agent", Err(format!("{problem}\n{log}")));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn play(report: &mut Report, stage: &mut Stage, options: &Options) {
    type Theme = fn(&mut Report, &mut Stage, &Options) -> Result<(), String>;
    let themes: [(&str, Theme); 15] = [
        ("kubelet", kubelet::run),
        ("koordinator", koordinator::run),
        ("vectors", vectors::run),
        ("reports", reports::run),
        ("devices", devices::run),
        ("drift", drift::run),
        ("processes", processes::run),
        ("nodes", nodes::run),
        ("takeover", takeover::run),
        ("hotplug", hotplug::run),
        ("clock", clock::run),
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
