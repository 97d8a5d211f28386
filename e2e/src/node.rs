//! The suite of a node with a real kubelet, containerd and device plugin on a machine with two NUMA nodes. One emulated
//! machine plays everything; its kubelet starts again with other settings.
//!
//! ```text
//! etcd ◄─ kube-apiserver ◄─┬─ kube-controller-manager
//!                          └─ a guest: kubelet, containerd, device plugin, pinfold-agent
//! ```

mod holdings;
mod kubelet;
mod machine;
mod manage;
mod mirror;
mod page;
mod pods;
mod prediction;
mod samples;
mod takeover;
mod verify;

use std::fs;

use crate::cluster::keep_logs;
use crate::cluster::stage::Stage;
use crate::report::{Report, Runs, Stop};
use machine::Machine;

/// Names themes to play, separated by commas, instead of all.
const ONLY: &str = "PINFOLD_E2E_NODE";

/// Runs all themes on one machine.
pub(crate) fn run(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-node-{}", std::process::id()));
    let outcome = Stage::build(&folder).and_then(|stage| {
        let machine = Machine::start(&stage)?;
        themes(report, &stage, &machine);
        Ok(())
    });
    if let Err(problem) = outcome {
        report.check("node", Err(problem));
    }
    keep_logs(&folder, "node-logs");
    let _ = fs::remove_dir_all(&folder);
}

fn themes(report: &mut Report, stage: &Stage, machine: &Machine) {
    let names = std::env::var(ONLY).unwrap_or_default();
    let mut theme = |name: &str, run: fn(&mut Report, &Stage, &Machine) -> Result<(), String>| {
        let is_wanted = names.is_empty() || names.split(',').any(|one| one == name);
        report.theme(
            format_args!("node: {name}"),
            Runs::Must,
            |report| match is_wanted {
                true => {
                    // What a theme that failed left behind.
                    let cleared = pods::end_all(stage);
                    let outcome = cleared.and_then(|()| run(report, stage, machine));
                    Ok(outcome.map_err(|problem| machine.with_logs(&problem))?)
                }
                false => Err(Stop::Skip(format!("{ONLY} names others"))),
            },
        );
    };
    theme("takeover", takeover::run);
    theme("manage", manage::run);
    theme("mirror", mirror::run);
}
