//! Upgrades from the chart before its last change, and back, under a pod that the agent pins.

use super::koordinator::{install, without_managers};
use super::node::Cluster;
use super::{PAGE, held, pages, pods, releases};
use crate::report::{Report, Stop, say};

pub(super) fn run(report: &mut Report, cluster: &mut Cluster) -> Result<(), Stop> {
    without_managers(cluster)?;
    let previous = cluster.prepared.join("previous/deploy/helm/pinfold");
    let outcome = install(cluster, &previous, "manage");
    held(
        report,
        "upgrades: the chart before its last change is installed with the profile manage",
        outcome,
    )?;
    let pod = pods::start(cluster, &pods::whole_cpu("stays", "pinfold"));
    let pod = held(report, "upgrades: a NUMA pod is pinned", pod)?;
    let values = cluster.plane.folder().join("values.yaml");
    let saved = format!(
        "helm get values pinfold -n pinfold-system -o yaml >{}",
        values.display()
    );
    cluster.user(&saved)?;
    let commands = pages::block(PAGE, "## Upgrading", "sh")?;
    let commands = pages::filled(&commands, &[("values.yaml", &values.display().to_string())])?;
    for (name, commands) in [
        (
            "upgrades: the commands of the page leave the pod pinned",
            commands.as_str(),
        ),
        (
            "upgrades: so does a rollback",
            "helm rollback pinfold -n pinfold-system --wait",
        ),
    ] {
        let outcome = pod.undisturbed(cluster, || {
            cluster.user(commands)?;
            releases::rolled_out(cluster, "pinfold-agent")?;
            cluster.user("kubectl -n pinfold-system rollout status deployment pinfold-scheduler --timeout=180s")
        });
        let (_, looks) = held(report, name, outcome)?;
        say(format_args!("        {looks} looks"));
    }
    let outcome = cluster.user("helm test pinfold -n pinfold-system");
    held(report, "upgrades: helm test passes afterwards", outcome)?;
    Ok(())
}
