//! The installation as users do it: the commands of the pages, with the images of `make images`, on a cluster with a real
//! control plane, kubelet and container runtime. One node on this machine, in namespaces of its own.

mod koordinator;
mod leftovers;
mod manage;
mod manifests;
mod mirror;
mod node;
mod pages;
mod permissions;
mod pods;
mod prepared;
mod releases;
mod upgrades;

use std::path::Path;

use self::node::Cluster;
use crate::report::{Report, Runs, Stop};

/// Prepares everything that needs the network, and runs the rest in the namespaces.
pub(crate) fn run(report: &mut Report) {
    match prepared::play() {
        Ok(output) => report.repeat("one node", &output),
        Err(problem) => report.check("install", Err(problem)),
    }
}

/// The chart, from the root of the sources.
const CHART: &str = "deploy/helm/pinfold";
/// The page of the chart.
const PAGE: &str = "deploy/helm/pinfold/README.md";

/// Smaller requests of the scheduler: on a node of two CPUs its replicas, which have a critical priority, would preempt the
/// pinned pod during a rollout.
const SMALL: &str =
    "--set scheduler.resources.requests.cpu=50m,scheduler.kubeSchedulerResources.requests.cpu=50m";

/// A part of the suite.
type Story = fn(&mut Report, &mut Cluster) -> Result<(), Stop>;

/// The parts in their order; the last has programs of an earlier chart. Each installs the chart and takes it away again.
const STORIES: [(&str, Story); 5] = [
    ("mirror", mirror::run),
    ("manage", manage::run),
    ("koordinator", koordinator::run),
    ("manifests", manifests::run),
    ("upgrades", upgrades::run),
];

/// Names stories; without it all run.
const CHOSEN: &str = "PINFOLD_E2E_INSTALL";

/// Runs the suite in the namespaces, with what was prepared in a folder.
pub(crate) fn inside(report: &mut Report, prepared: &Path) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-install-{}", node::group()));
    let mut cluster = match Cluster::start(prepared, &folder) {
        Ok(cluster) => cluster,
        Err(problem) => return report.check("install: the cluster", Err(problem)),
    };
    let chosen = std::env::var(CHOSEN).unwrap_or_default();
    for (name, story) in STORIES {
        if name == "upgrades" {
            report.check(
                "install: every request is granted, and every granted verb is used",
                permissions::compare(&cluster, chosen.is_empty()),
            );
        }
        if !chosen.is_empty() && !chosen.split(',').any(|one| one == name) {
            report.skip(name, Runs::IfPossible, "not asked for");
            continue;
        }
        report.theme(name, Runs::Must, |report| story(report, &mut cluster));
        let cleared = releases::clear(&cluster);
        if let Err(problem) = cleared {
            report.check(format_args!("{name}: cleared"), Err(problem));
        }
    }
    drop(cluster);
    let _ = std::fs::remove_dir_all(&folder);
}

/// Records a step that the ones after it need: its failure ends the story.
fn held<T>(report: &mut Report, name: &str, outcome: Result<T, String>) -> Result<T, Stop> {
    match outcome {
        Ok(value) => {
            report.check(name, Ok(()));
            Ok(value)
        }
        Err(problem) => Err(Stop::Fail(format!("{name}: {problem}"))),
    }
}
