//! The suite of the cluster: the scheduler extender between a real kube-scheduler and kubelets.

mod kubelets;
mod machines;
mod played;
mod pods;
mod random;
mod stage;
mod watch;

use std::fs;
use std::path::Path;

use crate::control_plane::Scheduler;
use crate::report::Report;

/// Runs the stories.
pub(crate) fn run(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-cluster-{}", std::process::id()));
    if let Err(problem) = stories(report, &folder) {
        report.check("cluster", Err(problem));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn stories(report: &mut Report, folder: &Path) -> Result<(), String> {
    let stage = stage::Stage::build(folder)?;
    let _scheduler = stage.plane.scheduler(&Scheduler {
        name: "stock",
        extender: None,
    })?;
    random::run(report, &stage, "stock");
    Ok(())
}
