//! The plain manifests, as the pages of the agent and the scheduler apply them.

use serde_json::Value;

use super::node::Cluster;
use super::{held, pages, pods, releases};
use crate::report::{Report, Stop, equal};

pub(super) fn run(report: &mut Report, cluster: &mut Cluster) -> Result<(), Stop> {
    let outcome = applied(cluster);
    held(
        report,
        "manifests: the commands of the pages start the agent and the scheduler",
        outcome,
    )?;
    let outcome = namespace(cluster);
    held(
        report,
        "manifests: the namespace keeps its label after both files of roles",
        outcome,
    )?;
    let pod = pods::start(cluster, &pods::whole_cpu("plain", "pinfold"));
    let pod = held(report, "manifests: a NUMA pod is bound and pinned", pod)?;
    pods::delete(cluster, &pod.name)?;
    let commands = pages::block("docs/agent/install.md", "To remove it", "sh")?;
    held(
        report,
        "manifests: the page's commands remove them",
        cluster.user(&commands),
    )?;
    Ok(())
}

fn applied(cluster: &mut Cluster) -> Result<(), String> {
    cluster.stop_kubelet()?;
    cluster
        .user("rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state")?;
    cluster.start_kubelet("static", "single-numa-node", "Static")?;
    for (page, after) in [
        ("docs/agent/install.md", "## In a cluster"),
        ("docs/scheduler.md", "## Install"),
    ] {
        cluster.user(&pages::block(page, after, "sh")?)?;
    }
    releases::agent_ready(cluster, "pinfold-agent")
}

fn namespace(cluster: &Cluster) -> Result<(), String> {
    let path = "/api/v1/namespaces/pinfold-system";
    let found = cluster.admin.expect("GET", path, None)?;
    let label = &found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    equal("label", label, &Value::from("privileged"))
}
