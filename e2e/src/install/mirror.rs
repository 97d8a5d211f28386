//! The defaults: the kubelet pins, the agent reports, the scheduler decides.

use serde_json::{Value, json};

use super::leftovers::{self, State};
use super::node::{Cluster, NODE};
use super::pods::{self, Pinned};
use super::{CHART, PAGE, SMALL, held, pages, releases};
use crate::cluster::pods::PODS;
use crate::cluster::stage::eventually;
use crate::report::{Report, Stop, equal};

/// What `helm uninstall` leaves, as the notes say; the last two come with every namespace.
const LEFT: [&str; 8] = [
    "CustomResourceDefinition <none> noderesourcetopologies.topology.node.k8s.io",
    "CustomResourceDefinition <none> numatopologies.nodeinfo.volcano.sh",
    "NodeResourceTopology <none> node-1",
    "Numatopology <none> node-1",
    "Lease pinfold-system pinfold-scheduler",
    "Namespace <none> pinfold-system",
    "ConfigMap pinfold-system kube-root-ca.crt",
    "ServiceAccount pinfold-system default",
];

pub(super) fn run(report: &mut Report, cluster: &mut Cluster) -> Result<(), Stop> {
    let before = State::of(cluster)?;
    let install = pages::block(PAGE, "Without a registry", "sh")?;
    let said = cluster.user(&install);
    let said = held(
        report,
        "mirror: the commands of the page install the defaults, and helm test passes",
        said,
    )?;
    equal("the test", said.contains("Phase:          Succeeded"), true)?;
    held(
        report,
        "mirror: after --wait both replicas of the scheduler are ready",
        scheduler_ready(cluster),
    )?;
    held(
        report,
        "mirror: the agent is ready and has reported",
        releases::agent_ready(cluster, "pinfold-agent"),
    )?;

    let first = pods::start(cluster, &pods::whole_cpu("first", "pinfold"));
    let first = held(
        report,
        "mirror: a NUMA pod is bound by the scheduler of the chart and pinned by the kubelet",
        first,
    )?;
    report.check(
        "mirror: kubectl pinfold top counts its CPU, and the reserved one as reserved",
        counted(cluster),
    );
    held(
        report,
        "mirror: kubectl pinfold view shows it",
        viewed(cluster),
    )?;
    held(
        report,
        "mirror: a second one does not fit: it waits, and kubectl pinfold explain says why",
        waits(cluster),
    )?;
    held(
        report,
        "mirror: kubectl pinfold status works in the agent's pod",
        agent_status(cluster),
    )?;
    let doctor = cluster.user("kubectl pinfold doctor --fail-on error");
    held(
        report,
        "mirror: kubectl pinfold doctor finds no error",
        doctor,
    )?;

    let outcome = changed(cluster, &first);
    held(
        report,
        "mirror: an upgrade with other values and a rollback leave it pinned",
        outcome,
    )?;
    let outcome = configz(cluster, &first);
    held(
        report,
        "mirror: with kubelet.endpoint the agent reads the kubelet's running configuration",
        outcome,
    )?;
    let outcome = condition_and_taint(cluster, &first);
    held(
        report,
        "mirror: the condition PinfoldReady is true and the startup taint is removed",
        outcome,
    )?;

    let outcome = first.undisturbed(cluster, || {
        cluster
            .user("helm uninstall pinfold -n pinfold-system --wait")
            .map(drop)
    });
    held(
        report,
        "mirror: an uninstallation leaves the pod pinned",
        outcome,
    )?;
    pods::delete(cluster, &first.name)?;
    cluster.user(&install)?;
    let mut left = LEFT.to_vec();
    left.push("/run/pinfold");
    let outcome = leftovers::uninstall(cluster, &before, &left);
    held(
        report,
        "mirror: what an uninstallation leaves is what the notes say, and their commands remove it",
        outcome,
    )?;
    Ok(())
}

/// Both replicas, as they are when `helm install --wait` ends.
fn scheduler_ready(cluster: &Cluster) -> Result<(), String> {
    let path = "/apis/apps/v1/namespaces/pinfold-system/deployments/pinfold-scheduler";
    let deployment = cluster.admin.expect("GET", path, None)?;
    equal(
        "ready replicas",
        &deployment["status"]["readyReplicas"],
        &json!(2),
    )
}

/// The only NUMA node has one CPU in use.
fn counted(cluster: &Cluster) -> Result<(), String> {
    eventually("its CPU is counted", || {
        let top: Value = serde_json::from_str(&cluster.user("kubectl pinfold top -o json")?)
            .map_err(|error| error.to_string())?;
        let node = &top["nodes"][0];
        equal("node", &node["node"], &json!(NODE))?;
        equal("NUMA node", &node["numa"][0]["numa_node"], &json!(0))?;
        let cpus = &node["numa"][0]["cpus"];
        let expected = json!({ "total": 2, "reserved": 1, "used": 1, "free": 0 });
        equal("CPUs", cpus, &expected)
    })
}

fn viewed(cluster: &Cluster) -> Result<(), String> {
    let view = cluster.user(&format!("kubectl pinfold view node {NODE}"))?;
    equal("the pod is shown", view.contains("first"), true).map_err(|_| view)
}

fn waits(cluster: &Cluster) -> Result<(), String> {
    let pod = pods::whole_cpu("second", "pinfold");
    cluster.admin.expect("POST", PODS, Some(&pod))?;
    let path = format!("{PODS}/second");
    let waiting = cluster.wait("it waits", &path, |pod| {
        let condition = &pod["status"]["conditions"][0];
        equal("reason", &condition["reason"], &json!("Unschedulable"))
    });
    waiting?;
    let explained = cluster.answer("kubectl pinfold explain pod second")?;
    equal("exit code", explained.status.code(), Some(1))?;
    let said = String::from_utf8_lossy(&explained.stdout).into_owned();
    let is_named = said.contains("is pending: it does not fit the only node");
    equal("explained", is_named, true).map_err(|_| said)?;
    pods::delete(cluster, "second")
}

/// The command that the operator's page names.
fn agent_status(cluster: &Cluster) -> Result<(), String> {
    let command = "kubectl -n pinfold-system exec ds/pinfold-agent -- /usr/bin/pinfold status";
    let said = cluster.user(command)?;
    equal("mode", said.contains("mirror"), true).map_err(|_| said)
}

/// Every pod of Pinfold is replaced twice.
fn changed(cluster: &Cluster, pinned: &Pinned) -> Result<String, String> {
    let flags = format!(
        "--reset-then-reuse-values --set agent.logLevel=debug,scheduler.logLevel=debug {SMALL}"
    );
    let ((), upgrade) = pinned.undisturbed(cluster, || {
        cluster.user(&format!(
            "helm upgrade pinfold {CHART} -n pinfold-system --wait {flags}"
        ))?;
        releases::rolled_out(cluster, "pinfold-agent")
    })?;
    let ((), rollback) = pinned.undisturbed(cluster, || {
        cluster.user("helm rollback pinfold -n pinfold-system --wait")?;
        releases::rolled_out(cluster, "pinfold-agent")
    })?;
    crate::report::say(format_args!("        {upgrade} and {rollback} looks"));
    Ok(String::new())
}

/// The kubelet's server asks the API server whether the agent may read it.
fn configz(cluster: &Cluster, pinned: &Pinned) -> Result<(), String> {
    let set = "agent.hostNetwork=true,agent.config.kubelet.endpoint=https://127.0.0.1:10250";
    let (_, _) = pinned.undisturbed(cluster, || {
        cluster.user(&format!(
            "helm upgrade pinfold {CHART} -n pinfold-system --wait --set {set}"
        ))?;
        releases::rolled_out(cluster, "pinfold-agent")
    })?;
    let logged = cluster.user("kubectl -n pinfold-system logs ds/pinfold-agent")?;
    let failed = ["configz", "10250"]
        .iter()
        .any(|word| logged.contains(&format!("{word} returned")));
    equal("a failed request", failed, false).map_err(|_| logged)?;
    agent_status(cluster)
}

/// Both need a role that the chart installs only with these values.
fn condition_and_taint(cluster: &Cluster, pinned: &Pinned) -> Result<(), String> {
    let set = "agent.config.kubernetes.nodeCondition=true,\
               agent.config.kubernetes.startupTaint=pinfold.dev/agent-not-ready:NoSchedule";
    pinned.undisturbed(cluster, || {
        cluster.user(&format!(
            "kubectl taint node {NODE} pinfold.dev/agent-not-ready=:NoSchedule"
        ))?;
        cluster.user(&format!(
            "helm upgrade pinfold {CHART} -n pinfold-system --wait --set {set}"
        ))?;
        releases::rolled_out(cluster, "pinfold-agent")?;
        cluster.user(&format!(
            "kubectl wait --for=condition=PinfoldReady node/{NODE} --timeout=120s"
        ))?;
        let path = format!("/api/v1/nodes/{NODE}");
        cluster.wait("the taint is removed", &path, |node| {
            equal("taints", &node["spec"]["taints"], &Value::Null)
        })
    })?;
    Ok(())
}
