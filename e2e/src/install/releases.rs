//! Releases of the chart: when their agents are ready, and how what a story left is removed.

use super::node::{Cluster, NODE};
use crate::cluster::stage::eventually;
use crate::report::equal;

const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

/// Waits until the agent of a DaemonSet runs as the DaemonSet is now, and is ready.
pub(super) fn rolled_out(cluster: &Cluster, name: &str) -> Result<(), String> {
    let set = format!("daemonset/{name}");
    let waited = cluster.user(&format!(
        "kubectl -n pinfold-system rollout status {set} --timeout=180s"
    ));
    let waited = waited.map(drop);
    waited.map_err(|problem| format!("{problem}\n{}", described(cluster)))
}

/// The same, and its report is there.
pub(super) fn agent_ready(cluster: &Cluster, name: &str) -> Result<(), String> {
    rolled_out(cluster, name)?;
    eventually("the report", || {
        let report = cluster
            .admin
            .expect("GET", &format!("{TOPOLOGIES}/{NODE}"), None)?;
        equal("zones", report["zones"].as_array().map(Vec::len), Some(1))
    })
}

/// The pods of Pinfold and the ends of their logs, for people.
fn described(cluster: &Cluster) -> String {
    let commands = "kubectl -n pinfold-system get pods -o wide; kubectl -n pinfold-system get events | tail -15; \
                    kubectl -n pinfold-system logs -l app.kubernetes.io/name=pinfold --all-containers --tail=15";
    cluster.user(commands).unwrap_or_else(|problem| problem)
}

/// Removes the release, the pods of the stories and what they leave, whatever a story did.
pub(super) fn clear(cluster: &Cluster) -> Result<(), String> {
    cluster.user(
        "helm uninstall pinfold -n pinfold-system --ignore-not-found --wait >/dev/null
         kubectl delete pods --all -n default --force --grace-period=0 >/dev/null 2>&1
         kubectl delete namespace pinfold-system --ignore-not-found >/dev/null
         kubectl delete crd noderesourcetopologies.topology.node.k8s.io numatopologies.nodeinfo.volcano.sh --ignore-not-found >/dev/null
         rm -rf /var/lib/pinfold /run/pinfold",
    ).map(drop)
}
