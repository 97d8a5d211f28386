//! The page about moving from the kubelet's managers: mirror, manage without a drain, and back.

use std::fs;

use serde_json::{Value, json};

use super::node::{Cluster, NODE};
use super::pods::{self, Pinned};
use super::{CHART, SMALL, held, pages, releases};
use crate::cluster::stage::eventually;
use crate::report::{Report, Stop, equal, say};

const PAGE: &str = "docs/migrate/kubelet.md";
const MANAGE: &str = "## To manage, without a drain";
const STATUS: &str =
    "kubectl -n pinfold-system exec ds/pinfold-agent-moved -- /usr/bin/pinfold status -o json";

pub(super) fn run(report: &mut Report, cluster: &mut Cluster) -> Result<(), Stop> {
    let installed = mirrored(cluster);
    held(
        report,
        "manage: the page's commands install mode mirror",
        installed,
    )?;
    let kept = pods::start(cluster, &pods::whole_cpu("kept", "pinfold"))?;
    let moved = kept
        .undisturbed(cluster, || moved(cluster))
        .map(|((), looks)| looks);
    let looks = held(
        report,
        "manage: the agent takes the node over, and the kubelet's pod keeps its CPU",
        moved,
    )?;
    say(format_args!("        {looks} looks"));
    let outcome = status(cluster, "in-progress", "static");
    held(
        report,
        "manage: the status has the phase in-progress and the pod",
        outcome,
    )?;
    let (_, looks) = {
        let before = policies_off(cluster);
        held(
            report,
            "manage: the kubelet starts without its managers",
            before,
        )?;
        // A kubelet that has just started does not know its pods yet.
        kept.undisturbed(cluster, || {
            eventually("the status", || status(cluster, "in-progress", "none"))
        })?
    };
    say(format_args!("        {looks} looks"));
    pods::delete(cluster, &kept.name)?;
    let outcome = eventually("the phase is done", || status(cluster, "done", "none"));
    held(
        report,
        "manage: once the pod has ended the phase is done",
        outcome,
    )?;

    let own = pods::start(cluster, &pods::whole_cpu("own", "pinfold"));
    let own = held(report, "manage: a new NUMA pod is pinned by the agent", own)?;
    let outcome = journaled(cluster, &own);
    held(
        report,
        "manage: the journal of the agent has its CPU",
        outcome,
    )?;
    let outcome = replaced(cluster, &own);
    held(
        report,
        "manage: upgrades with other values and rollbacks leave it pinned",
        outcome,
    )?;
    pods::delete(cluster, &own.name)?;
    let outcome = back(cluster);
    held(
        report,
        "manage: the page's way back: the kubelet pins again, and the other agent reports",
        outcome,
    )?;
    Ok(())
}

fn mirrored(cluster: &Cluster) -> Result<(), String> {
    cluster.import_images()?;
    let commands = pages::block(PAGE, "## To mirror", "sh")?;
    cluster.user(&pages::filled(
        &commands,
        &[("REGISTRY/PATH", "localhost")],
    )?)?;
    releases::agent_ready(cluster, "pinfold-agent")
}

/// The values and the commands of the page.
fn moved(cluster: &Cluster) -> Result<(), String> {
    let values = pages::block(PAGE, MANAGE, "yaml")?;
    // This machine has two CPUs: the kubelet reserves one.
    let values = pages::filled(&values, &[("\"0-1\"", "\"0\"")])?;
    let file = cluster.plane.folder().join("values.yaml");
    fs::write(&file, values).map_err(|error| format!("{}: {error}", file.display()))?;
    let commands = pages::block(PAGE, "The agent reads", "sh")?;
    let file = file.display().to_string();
    cluster.user(&pages::filled(
        &commands,
        &[("NODE", NODE), ("values.yaml", &file)],
    )?)?;
    releases::rolled_out(cluster, "pinfold-agent-moved")
}

/// The page's commands on the node, with the kubelet of the suite in place of the one of systemd.
fn policies_off(cluster: &mut Cluster) -> Result<(), String> {
    restart(cluster, "in this order, because", ["none", "none", "None"])
}

fn restart(cluster: &mut Cluster, after: &str, policies: [&str; 3]) -> Result<(), String> {
    let commands = node_commands(after)?;
    let [stop, change, start] = commands.as_slice() else {
        return Err(format!("expected three commands, found {commands:?}"));
    };
    equal("first", stop.as_str(), "systemctl stop kubelet")?;
    equal("last", start.as_str(), "systemctl start kubelet")?;
    cluster.stop_kubelet()?;
    cluster.user(change)?;
    let [cpu, topology, memory] = policies;
    cluster.start_kubelet(cpu, topology, memory)
}

/// The commands of a block without its comments.
fn node_commands(after: &str) -> Result<Vec<String>, String> {
    let block = pages::block(PAGE, after, "sh needs=node")?;
    let lines = block.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// The phase and the kubelet's policy; while the takeover is in progress, one pod of the kubelet.
fn status(cluster: &Cluster, phase: &str, policy: &str) -> Result<(), String> {
    // It exits with 1 while there is a problem, such as a kubelet that still pins.
    let answer = cluster.answer(STATUS)?;
    let status: Value = serde_json::from_slice(&answer.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&answer.stderr)))?;
    let takeover = &status["takeover"];
    equal("phase", &takeover["phase"], &json!(phase))
        .map_err(|problem| format!("{problem}: {status}"))?;
    equal("policy", &takeover["kubeletPolicy"], &json!(policy))
        .map_err(|problem| format!("{problem}: {status}"))
}

fn journaled(cluster: &Cluster, pod: &Pinned) -> Result<(), String> {
    let listed = cluster
        .user("kubectl -n pinfold-system exec ds/pinfold-agent-moved -- /usr/bin/pinfold ps")?;
    let line = listed.lines().find(|line| line.contains(&pod.name));
    let has = line.is_some_and(|line| line.contains(&pod.cpus.to_string()));
    equal("the pod with its CPU", has, true).map_err(|_| listed)
}

fn replaced(cluster: &Cluster, pod: &Pinned) -> Result<(), String> {
    let upgrade = format!(
        "helm upgrade pinfold {CHART} -n pinfold-system --reset-then-reuse-values --wait --set agent.logLevel=debug,scheduler.logLevel=debug {SMALL}"
    );
    for command in [
        upgrade.as_str(),
        "helm rollback pinfold -n pinfold-system --wait",
    ] {
        let ((), looks) = pod.undisturbed(cluster, || {
            cluster.user(command)?;
            releases::rolled_out(cluster, "pinfold-agent-moved")
        })?;
        say(format_args!("        {looks} looks"));
    }
    Ok(())
}

fn back(cluster: &mut Cluster) -> Result<(), String> {
    // The scheduler's replicas are on the node that is drained, and no other node could take them.
    cluster.user(&format!(
        "helm upgrade pinfold {CHART} -n pinfold-system --reset-then-reuse-values --wait --set scheduler.podDisruptionBudget.enabled=false"
    ))?;
    let drain = pages::block(PAGE, "## Back", "sh needs=cluster")?;
    cluster.user(&pages::filled(&drain, &[("NODE", NODE)])?)?;
    restart(cluster, "## Back", ["static", "single-numa-node", "Static"])?;
    let uncordon = pages::block(
        PAGE,
        "in its configuration: the old policies",
        "sh needs=cluster",
    )?;
    cluster.user(&pages::filled(&uncordon, &[("NODE", NODE)])?)?;
    releases::rolled_out(cluster, "pinfold-agent-others")?;
    let pod = pods::start(cluster, &pods::whole_cpu("again", "pinfold"))?;
    pods::delete(cluster, &pod.name)
}
