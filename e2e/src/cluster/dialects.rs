//! Nodes that speak Koordinator or Volcano: decided about by their rules, with the decision written at the pod.

use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::machines::machine;
use super::played::PlayedNode;
use super::pods::{PODS, cpus, guaranteed, pod};
use super::stage::Stage;
use super::stories::leave;
use crate::report::{Report, equal, say};

/// Where Volcano's objects are.
const NUMATOPOLOGIES: &str = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies";
/// The annotation in which the decision is written.
pub(crate) const DECISION: &str = "scheduling.koordinator.sh/resource-status";

/// What happens in a cluster, to pods of the scheduler of that name.
type Story = fn(&Stage, &str) -> Result<(), String>;

/// Plays all of them.
pub(crate) fn run(report: &mut Report, stage: &Stage, ours: &str) {
    let stories: [(&str, Story); 6] = [
        (
            "STORY-06: replicas share no core, others may take the siblings",
            apart,
        ),
        (
            "STORY-07: a pod is packed, or goes where most is free, as the node says",
            strategy,
        ),
        (
            "KOO-SCHED-03: a node of whole cores waits for whole cores",
            whole_cores,
        ),
        (
            "KOO-SCHED-05: CPUs of the kubelet's own pods, of the kubelet and of the node are not assigned",
            held_by_others,
        ),
        (
            "KOO-SCHED-06: a latency-sensitive pod gets the pool of the NUMA node that has room for it",
            pool_of_a_node,
        ),
        (
            "VOL-11: a task goes to a node of its own policy, and its events say why not to others",
            volcano,
        ),
    ];
    for (name, story) in stories {
        let outcome = story(stage, ours);
        let cleared = stage.clear().and_then(|()| leave(stage));
        report.check(format_args!("cluster: {name}"), outcome.and(cleared));
    }
}

/// A node with this machine, whose kubelet manages nothing.
fn node(name: &str, text: &str, labels: Value) -> Result<PlayedNode, String> {
    let settings = pinfold_core::settings::Settings {
        fidelity: pinfold_core::fidelity::Fidelity::Exact,
        ..Default::default()
    };
    let node = PlayedNode::new(name, machine(text)?, settings)?;
    Ok(node.reported_by_koordinator(labels))
}

/// A pod with CPUs of its own, by Koordinator's rules.
pub(crate) fn pinned(name: &str, ours: &str, count: u32, how: &Value) -> Value {
    let mut pod = pod(name, ours, &[cpus(count)]);
    pod["metadata"]["labels"] = json!({
        "koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod",
    });
    pod["metadata"]["annotations"] =
        json!({ "scheduling.koordinator.sh/resource-spec": how.to_string() });
    pod
}

/// The CPUs that were decided for a pod.
fn decided(stage: &Stage, name: &str) -> Result<CpuSet, String> {
    stage.runs(name)?;
    let decision = written(stage, name)?;
    let cpus = decision["cpuset"].as_str().unwrap_or_default();
    CpuSet::parse(cpus).map_err(|error| format!("{decision}: {error}"))
}

/// CPUs 0 to 7 are the first threads of eight cores, 8 to 15 the second ones.
fn apart(stage: &Stage, ours: &str) -> Result<(), String> {
    let text = "1 socket, 8 cores, smt2, mem=32Gi";
    stage
        .kubelets
        .join(&stage.admin, vec![node("cores", text, json!({}))?])?;
    let how = json!({
        "preferredCPUBindPolicy": "SpreadByPCPUs", "preferredCPUExclusivePolicy": "PCPULevel",
    });
    let (mut cores, mut taken) = (Vec::new(), CpuSet::new());
    for name in ["replica-0", "replica-1"] {
        stage.create(&pinned(name, ours, 4, &how))?;
        let cpus = decided(stage, name)?;
        equal("CPUs", cpus.len(), 4)?;
        cores.extend(cpus.iter().map(|cpu| cpu.get() % 8));
        taken |= &cpus;
    }
    cores.sort_unstable();
    cores.dedup();
    equal("cores of both", cores.len(), 8)?;
    let plain = json!({ "preferredCPUBindPolicy": "SpreadByPCPUs" });
    stage.create(&pinned("plain", ours, 4, &plain))?;
    let siblings = decided(stage, "plain")?;
    equal("CPUs beside them", siblings.len(), 4)?;
    equal("CPUs of the replicas", &siblings & &taken, CpuSet::new())
}

/// Free are 2 CPUs on one NUMA node and 6 on the other.
fn strategy(stage: &Stage, ours: &str) -> Result<(), String> {
    let text = "2 sockets, 6 cores, mem=32Gi";
    for (strategy, expected) in [("MostAllocated", 0), ("LeastAllocated", 1)] {
        let name = strategy.to_lowercase();
        let labels = json!({ "node.koordinator.sh/numa-allocate-strategy": strategy });
        stage
            .kubelets
            .join(&stage.admin, vec![node(&name, text, labels)?])?;
        let how = json!({ "preferredCPUBindPolicy": "FullPCPUs" });
        stage.create(&pinned("before", ours, 4, &how))?;
        let before = decided(stage, "before")?;
        let first = before.iter().next().map_or(0, |cpu| cpu.get() / 6);
        stage.create(&pinned("asked", ours, 2, &how))?;
        let asked = decided(stage, "asked")?;
        let found = asked.iter().next().map_or(9, |cpu| cpu.get() / 6);
        let expected = if expected == 0 { first } else { 1 - first };
        equal(strategy, found, expected)?;
        stage.clear()?;
        stage.kubelets.leave(&stage.admin, &[&name])?;
    }
    Ok(())
}

fn whole_cores(stage: &Stage, ours: &str) -> Result<(), String> {
    let text = "1 socket, 8 cores, smt2, mem=32Gi";
    let labels = json!({ "node.koordinator.sh/cpu-bind-policy": "FullPCPUsOnly" });
    stage
        .kubelets
        .join(&stage.admin, vec![node("full", text, labels)?])?;
    let how = json!({ "preferredCPUBindPolicy": "FullPCPUs" });
    stage.create(&pinned("odd", ours, 3, &how))?;
    say(format_args!("        {}", stage.waits("odd")?));
    stage.create(&pinned("even", ours, 4, &how))?;
    equal("CPUs", decided(stage, "even")?.len(), 4)
}

/// CPUs 0 to 7. Koordinator's agent reports that a pod of the kubelet's static manager holds two, the kubelet keeps one for
/// itself, and the node another: four are left.
fn held_by_others(stage: &Stage, ours: &str) -> Result<(), String> {
    let name = "held";
    let played = self::node(name, "1 socket, 8 cores, mem=32Gi", json!({}))?;
    let (node, mut topology) = (played.node(), played.topology());
    let reservation = json!({ "reservedCPUs": "3" });
    let pods = json!([{
        "namespace": "default", "name": "of-the-kubelet", "uid": "of-the-kubelet",
        "cpuset": "4-5", "managedByKubelet": true,
    }]);
    let kubelet = json!({ "policy": "static", "reservedCPUs": "0" });
    let words = &mut topology["metadata"]["annotations"];
    words["node.koordinator.sh/reservation"] = reservation.to_string().into();
    words["node.koordinator.sh/pod-cpu-allocs"] = pods.to_string().into();
    words["kubelet.koordinator.sh/cpu-manager-policy"] = kubelet.to_string().into();
    stage.admin.expect("POST", "/api/v1/nodes", Some(&node))?;
    let path = super::kubelets::TOPOLOGIES;
    stage.admin.expect("POST", path, Some(&topology))?;
    let outcome = only_what_is_left(stage, ours);
    stage.clear()?;
    for path in [
        format!("/api/v1/nodes/{name}"),
        format!("{}/{name}", super::kubelets::TOPOLOGIES),
    ] {
        stage.admin.expect("DELETE", &path, None)?;
    }
    outcome
}

fn only_what_is_left(stage: &Stage, ours: &str) -> Result<(), String> {
    let how = json!({ "preferredCPUBindPolicy": "FullPCPUs" });
    stage.create(&pinned("many", ours, 5, &how))?;
    say(format_args!("        {}", stage.waits("many")?));
    stage.create(&pinned("all", ours, 4, &how))?;
    let found = written(stage, "all")?;
    let found = CpuSet::parse(found["cpuset"].as_str().unwrap_or_default());
    let found = found.map_err(|error| error.to_string())?;
    equal("CPUs", found.to_string().as_str(), "1-2,6-7")
}

/// Two NUMA nodes of six CPUs. Where one is taken by four, four more fit into the pool of the other alone.
fn pool_of_a_node(stage: &Stage, ours: &str) -> Result<(), String> {
    for policy in ["SingleNUMANode", "Restricted"] {
        let name = policy.to_lowercase();
        let labels = json!({ "node.koordinator.sh/numa-topology-policy": policy });
        let text = "2 sockets, 6 cores, mem=32Gi";
        let join = vec![self::node(&name, text, labels)?];
        stage.kubelets.join(&stage.admin, join)?;
        let how = json!({ "preferredCPUBindPolicy": "FullPCPUs" });
        stage.create(&pinned("before", ours, 4, &how))?;
        let before = decided(stage, "before")?;
        let taken = before
            .iter()
            .next()
            .map_or(0, |cpu| u64::from(cpu.get() / 6));
        let mut sensitive = pod("sensitive", ours, &[cpus(4)]);
        sensitive["metadata"]["labels"] = json!({
            "koordinator.sh/qosClass": "LS", "koordinator.sh/priority-class": "koord-prod",
        });
        stage.create(&sensitive)?;
        stage.runs("sensitive")?;
        let decision = written(stage, "sensitive")?;
        equal("CPUs of its own", decision["cpuset"].is_string(), false)?;
        let nodes = decision["numaNodeResources"].as_array();
        let nodes: Vec<u64> = (nodes.into_iter().flatten())
            .filter_map(|part| part["node"].as_u64())
            .collect();
        equal("its NUMA nodes", nodes, vec![1 - taken])?;
        stage.clear()?;
        stage.kubelets.leave(&stage.admin, &[&name])?;
    }
    Ok(())
}

/// What was decided for a pod, as it is written there.
fn written(stage: &Stage, name: &str) -> Result<Value, String> {
    super::stage::eventually("the decision is written", || {
        let pod = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
        let text = pod["metadata"]["annotations"][DECISION].as_str();
        let text = text.ok_or_else(|| format!("{name}: {}", pod["status"]))?;
        say(format_args!("        {name}: {text}"));
        serde_json::from_str(text).map_err(|error| error.to_string())
    })
}

/// Nodes that only Volcano's exporter reports.
fn volcano(stage: &Stage, ours: &str) -> Result<(), String> {
    let detail: serde_json::Map<String, Value> = (0..8)
        .map(|cpu| {
            (
                cpu.to_string(),
                json!({ "numa": cpu / 4, "socket": cpu / 4, "core": cpu }),
            )
        })
        .collect();
    let amounts = json!({ "cpu": "8", "memory": "16Gi", "pods": "110" });
    let names = ["volcano-single", "volcano-best"];
    for (name, policy) in names.into_iter().zip(["single-numa-node", "best-effort"]) {
        let node = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "status": { "capacity": amounts, "allocatable": amounts,
                "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        stage.admin.expect("POST", "/api/v1/nodes", Some(&node))?;
        let numa = json!({
            "apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology",
            "metadata": { "name": name },
            "spec": {
                "policies": { "CPUManagerPolicy": "static", "TopologyManagerPolicy": policy },
                "resReserved": { "cpu": "0" },
                "numares": { "cpu": { "allocatable": "0-7", "capacity": 8 } },
                "cpuDetail": detail,
            },
        });
        stage.admin.expect("POST", NUMATOPOLOGIES, Some(&numa))?;
    }
    let task = |name: &str, count: &str| {
        let mut task = pod(
            name,
            ours,
            &[guaranteed("main", &[("cpu", count), ("memory", "1Gi")])],
        );
        task["metadata"]["annotations"] =
            json!({ "volcano.sh/numa-topology-policy": "single-numa-node" });
        task
    };
    stage.create(&task("task", "3"))?;
    let bound = super::stage::eventually("the task is bound", || {
        let pod = stage.admin.expect("GET", &format!("{PODS}/task"), None)?;
        let node = pod["spec"]["nodeName"].as_str().map(str::to_owned);
        node.ok_or_else(|| pod["status"].to_string())
    })?;
    equal("its node", bound.as_str(), "volcano-single")?;
    stage.create(&task("wide", "5"))?;
    say(format_args!("        {}", stage.waits("wide")?));
    stage.clear()?;
    for name in names {
        stage
            .admin
            .expect("DELETE", &format!("/api/v1/nodes/{name}"), None)?;
        stage
            .admin
            .expect("DELETE", &format!("{NUMATOPOLOGIES}/{name}"), None)?;
    }
    Ok(())
}
