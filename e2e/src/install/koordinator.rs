//! The chart's profile for Koordinator's rules: QoS classes, and decisions that the scheduler writes on the pod.

use std::path::Path;

use serde_json::{Value, json};

use super::leftovers::{self, State};
use super::node::Cluster;
use super::{CHART, SMALL, held, pods, releases};
use crate::cluster::pods::PODS;
use crate::report::{Report, Stop, equal};

const STATUS: &str = "scheduling.koordinator.sh/resource-status";
const PRIORITIES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// What `helm uninstall` leaves, as the notes say.
const LEFT: [&str; 10] = [
    "CustomResourceDefinition <none> noderesourcetopologies.topology.node.k8s.io",
    "CustomResourceDefinition <none> numatopologies.nodeinfo.volcano.sh",
    "NodeResourceTopology <none> node-1",
    "Numatopology <none> node-1",
    "Lease pinfold-system pinfold-scheduler",
    "Namespace <none> pinfold-system",
    "ConfigMap pinfold-system kube-root-ca.crt",
    "ServiceAccount pinfold-system default",
    "/run/pinfold",
    "/var/lib/pinfold",
];

pub(super) fn run(report: &mut Report, cluster: &mut Cluster) -> Result<(), Stop> {
    without_managers(cluster)?;
    let class = json!({ "metadata": { "name": "koord-prod" }, "value": 9000 });
    cluster.admin.ask("POST", PRIORITIES, Some(&class))?;
    let before = State::of(cluster)?;
    let outcome = install(cluster, Path::new(CHART), "koordinator");
    held(
        report,
        "koordinator: helm installs the profile, --wait ends and helm test passes",
        outcome,
    )?;
    let pinned = pods::start(cluster, &pods::lsr("shares"));
    let pinned = held(
        report,
        "koordinator: an LSR pod has a CPU of its own",
        pinned,
    )?;
    let pod = cluster
        .admin
        .expect("GET", &format!("{PODS}/{}", pinned.name), None)?;
    let decision = pod["metadata"]["annotations"][STATUS]
        .as_str()
        .unwrap_or("null");
    let decision: Value = serde_json::from_str(decision).map_err(|error| error.to_string())?;
    let cpus = pinned.cpus.to_string();
    let outcome = equal("cpuset", &decision["cpuset"], &json!(cpus));
    held(
        report,
        "koordinator: it is the CPU that the scheduler wrote on the pod",
        outcome,
    )?;
    pods::delete(cluster, &pinned.name)?;
    let outcome = leftovers::uninstall(cluster, &before, &LEFT);
    held(
        report,
        "koordinator: what an uninstallation leaves is what the notes say",
        outcome,
    )?;
    cluster
        .admin
        .ask("DELETE", &format!("{PRIORITIES}/koord-prod"), None)?;
    Ok(())
}

/// The kubelet without its managers, as profiles with mode `manage` need it.
pub(super) fn without_managers(cluster: &mut Cluster) -> Result<(), String> {
    cluster.stop_kubelet()?;
    cluster
        .user("rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state")?;
    cluster.start_kubelet("none", "none", "None")
}

/// Installs a chart with a profile of the sources, and tests the release.
pub(super) fn install(cluster: &Cluster, chart: &Path, profile: &str) -> Result<(), String> {
    cluster.import_images()?;
    let chart = chart.display();
    cluster.user(&format!(
        "helm install pinfold {chart} -n pinfold-system --create-namespace --wait -f {CHART}/profiles/{profile}.yaml {SMALL}"
    ))?;
    releases::agent_ready(cluster, "pinfold-agent")?;
    cluster
        .user("helm test pinfold -n pinfold-system")
        .map(drop)
}
