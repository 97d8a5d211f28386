//! The suite of peers: the schedulers and node agents that Pinfold stands beside, as real programs on one API server.
//!
//! ```text
//! etcd ◄─ kube-apiserver ◄─┬─ kube-controller-manager
//!                          ├─ a peer: koord-scheduler, koordlet, vc-scheduler,
//!                          │  scheduler-plugins
//!                          ├─ pinfold-agent on played machines, one process for each
//!                          └─ pinfold-scheduler, and the command line on the same state
//! ```
//!
//! It is no part of `all`: the programs take many minutes to build, once.

mod koord_scheduler;
mod koordlet;
mod kubelet;
mod nfd;
mod programs;
mod record;
mod stage;
mod topology_match;
mod vc_scheduler;

use std::fs;

use stage::Stage;

use crate::report::{Report, Runs, Stop, say};

/// The seed of a run; without it every run has another one, which it prints.
const SEED: &str = "PINFOLD_E2E_PEERS_SEED";
/// Names themes to run, separated by commas, instead of all.
const ONLY: &str = "PINFOLD_E2E_PEERS";

/// What the suite shows with one peer.
type Theme = fn(&mut Report, &mut Stage) -> Result<(), String>;

const THEMES: [(&str, Theme); 5] = [
    ("koord-scheduler", koord_scheduler::run),
    ("koordlet", koordlet::run),
    ("vc-scheduler", vc_scheduler::run),
    ("topology-match", topology_match::run),
    ("nfd", nfd::run),
];

/// Runs the themes on one API server.
pub(crate) fn run(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-peers-{}", std::process::id()));
    if let Err(problem) = themes(report, &folder) {
        report.check("peers", Err(problem));
    }
    crate::cluster::keep_logs(&folder, "peers-logs");
    let _ = fs::remove_dir_all(&folder);
}

fn themes(report: &mut Report, folder: &std::path::Path) -> Result<(), String> {
    let seed = seed()?;
    say(format_args!("seed {seed} ({SEED} repeats it)"));
    let mut stage = Stage::build(folder, seed)?;
    let names = std::env::var(ONLY).unwrap_or_default();
    for (name, theme) in THEMES {
        let is_wanted = names.is_empty() || names.split(',').any(|one| one == name);
        report.theme(
            format_args!("peers: {name}"),
            Runs::Must,
            |report| match is_wanted {
                true => Ok(theme(report, &mut stage)?),
                false => Err(Stop::Skip(format!("{ONLY} names others"))),
            },
        );
        stage.clear()?;
    }
    stage.recorder.write()
}

fn seed() -> Result<u64, String> {
    match std::env::var(SEED).ok().filter(|text| !text.is_empty()) {
        Some(text) => (text.parse()).map_err(|_| format!("{SEED}={text}: expected a number")),
        None => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let now = now.map_err(|error| error.to_string())?;
            Ok(now.as_secs())
        }
    }
}
