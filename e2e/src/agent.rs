//! The suite of the node agent: `pinfold-agent` with a real container runtime, which runs real containers.
//!
//! ```text
//! programs ─► stage: containerd, agent, a client of each ─► scene: pods come and go ─┬─► kernel: what it lets them use
//!                                                                                    └─► oracle: what it should
//! ```
//!
//! `agent` runs it on this machine; `agent-inside FOLDER` runs the same on any Linux machine with nothing but the
//! programs in a folder: see [`programs`].

pub(crate) mod chance;
mod classes;
mod clock;
pub(crate) mod crashes;
mod devices;
mod drift;
mod faults;
mod full_journal;
pub(crate) mod guest;
mod hotplug;
pub(crate) mod kernel;
mod koordinator;
mod kubelet;
mod latency;
mod load;
mod nodes;
pub(crate) mod options;
pub(crate) mod oracle;
mod partitions;
pub(crate) mod pods;
pub(crate) mod pretend;
pub(crate) mod process;
mod processes;
pub(crate) mod programs;
mod reports;
pub(crate) mod rules;
mod scene;
pub(crate) mod stage;
mod takeover;
mod vectors;

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use options::Options;
use stage::Stage;

use crate::report::{Report, Runs, Stop};

/// Runs every scenario on this machine.
pub(crate) fn run(report: &mut Report) {
    match programs::folder() {
        Ok(folder) => inside(report, &folder, &[]),
        Err(problem) => report.check("agent: programs", Err(problem)),
    }
}

/// How often `agent-soak` kills an agent.
const SOAK_KILLS: u32 = 1000;

/// Kills an agent many times, at moments of a fresh seed. `PINFOLD_E2E_AGENT_SEED=N` repeats one.
pub(crate) fn soak(report: &mut Report) {
    let seed = match std::env::var("PINFOLD_E2E_AGENT_SEED") {
        Ok(seed) => Ok(seed),
        Err(_) => fresh_seed().map(|seed| seed.to_string()),
    };
    match programs::folder().and_then(|folder| Ok((folder, seed?))) {
        Ok((folder, seed)) => {
            let words = [
                "only=crashes".to_owned(),
                format!("kills={SOAK_KILLS}"),
                format!("seed={seed}"),
            ];
            inside(report, &folder, &words);
        }
        Err(problem) => report.check("agent: programs", Err(problem)),
    }
}

pub(crate) fn fresh_seed() -> Result<u64, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_err(|error| error.to_string())?;
    Ok(now.as_millis().try_into().unwrap_or(0))
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

/// Runs scenarios with the programs of a folder, on any machine.
pub(crate) fn inside(report: &mut Report, programs: &Path, words: &[String]) {
    let options = match Options::read(words) {
        Ok(options) => options,
        Err(problem) => return report.check("agent: options", Err(problem)),
    };
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-agent-{}", std::process::id()));
    let outcome = Stage::set(programs, &folder).and_then(|mut stage| {
        play(report, &mut stage, &options);
        // Cleaned up after every failure too.
        stage.cri.remove_everything()
    });
    if let Err(problem) = outcome {
        let log = stage::end_of(&folder.join("containerd.log"));
        report.check("agent", Err(format!("{problem}\n{log}")));
    }
    let _ = fs::remove_dir_all(&folder);
}

/// A theme of the suite, and where it has to run.
struct Theme {
    name: &'static str,
    run: fn(&mut Report, &mut Stage, &Options) -> Result<(), Stop>,
    /// On a machine that others use as well, which may have few CPUs and one NUMA node: `agent`.
    shared: Runs,
    /// On a machine of its own with several NUMA nodes and cgroup v2, whose CPUs are slow: `agent-guest`.
    emulated: Runs,
}

const SLOW: Runs =
    Runs::Elsewhere("needs many containers, which take seconds each on emulated CPUs");
const OFFLINE: Runs = Runs::Elsewhere("takes CPUs of the machine offline");
const CLOCK: Runs = Runs::Elsewhere("sets the clock of the machine");
const ISOLATED: Runs = Runs::Elsewhere("isolates CPUs from all other processes of the machine");

/// Every theme must run in one of the two places.
#[rustfmt::skip]
const THEMES: [Theme; 15] = [
    Theme { name: "kubelet", run: kubelet::run, shared: Runs::Must, emulated: Runs::Must },
    Theme { name: "koordinator", run: koordinator::run, shared: Runs::Must, emulated: Runs::Must },
    Theme { name: "vectors", run: vectors::run, shared: Runs::IfPossible, emulated: Runs::Must },
    Theme { name: "reports", run: reports::run, shared: Runs::Must, emulated: SLOW },
    Theme { name: "devices", run: devices::run, shared: Runs::Must, emulated: Runs::Must },
    Theme { name: "drift", run: drift::run, shared: Runs::Must, emulated: SLOW },
    Theme { name: "processes", run: processes::run, shared: Runs::Must, emulated: SLOW },
    Theme { name: "nodes", run: nodes::run, shared: Runs::IfPossible, emulated: Runs::Must },
    Theme { name: "takeover", run: takeover::run, shared: Runs::Must, emulated: Runs::Must },
    Theme { name: "hotplug", run: hotplug::run, shared: OFFLINE, emulated: Runs::Must },
    Theme { name: "clock", run: clock::run, shared: CLOCK, emulated: Runs::Must },
    Theme { name: "partitions", run: partitions::run, shared: ISOLATED, emulated: Runs::Must },
    Theme { name: "faults", run: faults::run, shared: Runs::Must, emulated: SLOW },
    Theme { name: "crashes", run: crashes::run, shared: Runs::Must, emulated: SLOW },
    Theme { name: "load", run: load::run, shared: Runs::Must, emulated: SLOW },
];

/// Plays the themes that the options name.
pub(crate) fn play(report: &mut Report, stage: &mut Stage, options: &Options) {
    for theme in &THEMES {
        let runs = if options.alone {
            theme.emulated
        } else {
            theme.shared
        };
        let name = format!("agent: {}", theme.name);
        match options.plays(theme.name) {
            true => report.theme(name, runs, |report| (theme.run)(report, stage, options)),
            false => report.skip(name, Runs::IfPossible, "not asked for"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_theme_must_run_in_one_of_the_two_places() {
        for theme in &THEMES {
            let must = [theme.shared, theme.emulated].contains(&Runs::Must);
            assert!(must, "{} may be skipped everywhere", theme.name);
        }
    }
}
