//! The acceptance scenarios that need a cluster, on kubelets that are played.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::machines::{self, machine, settings};
use super::played::PlayedNode;
use super::pods::{NIC, cpus, guaranteed, on, pod};
use super::stage::Stage;
use crate::programs::{self, said_by};
use crate::report::{Report, equal, say};

/// Hugepages of 2 MiB.
const HUGE: &str = "hugepages-2Mi";
const GPU: &str = "example.com/gpu";

/// What happens in a cluster, to pods of the scheduler of that name.
type Story = fn(&Stage, &str) -> Result<(), String>;

/// Plays all of them.
pub(crate) fn run(report: &mut Report, stage: &Stage, ours: &str) {
    let stories: [(&str, Story); 5] = [
        (
            "STORY-01: hugepages, CPUs and a NIC on one NUMA node, or the reason why not",
            fast_network,
        ),
        (
            "STORY-02: a GPU and CPUs on the same NUMA node, or across where that is allowed",
            training,
        ),
        (
            "STORY-03: a node of whole cores is not asked for half of one",
            whole_cores,
        ),
        (
            "STORY-05: enough in all but badly spread is not enough",
            badly_spread,
        ),
        (
            "STORY-08: a pod that a fragmented node rejects runs after the moves that defragment prints",
            fragmented,
        ),
    ];
    for (name, story) in stories {
        let outcome = story(stage, ours);
        let cleared = stage.clear().and_then(|()| leave(stage));
        report.check(format_args!("cluster: {name}"), outcome.and(cleared));
    }
}

/// All played nodes go.
pub(crate) fn leave(stage: &Stage) -> Result<(), String> {
    let names = stage.kubelets.names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stage.kubelets.leave(&stage.admin, &names)?;
    super::faults::none_rejected(stage)
}

fn join(stage: &Stage, nodes: Vec<PlayedNode>) -> Result<(), String> {
    stage.kubelets.join(&stage.admin, nodes)
}

/// Waits until a pod runs, and prints the assignment of its first container.
fn got(stage: &Stage, name: &str) -> Result<String, String> {
    stage.runs(name)?;
    let got = stage.kubelets.holding(name);
    let got = got.ok_or_else(|| format!("{name} holds nothing"))?;
    say(format_args!("        {name}: {got}"));
    Ok(got)
}

fn fast_network(stage: &Stage, ours: &str) -> Result<(), String> {
    let text = "2 sockets, 8 cores, mem=32Gi, hugepages-2Mi=512";
    let node = |name: &str| machines::node(name, text, "single-numa-node", "pod");
    join(
        stage,
        vec![
            node("a-without-nic")?,
            node("b-with-nic")?.with_devices(NIC, &[1], 2),
        ],
    )?;
    let packets = guaranteed(
        "main",
        &[("cpu", "4"), ("memory", "1Gi"), (HUGE, "64Mi"), (NIC, "1")],
    );
    for name in ["packets-0", "packets-1"] {
        stage.create(&pod(name, ours, std::slice::from_ref(&packets)))?;
        let got = got(stage, name)?;
        let aligned = got.ends_with("on node 1") && got.contains("b-with-nic");
        equal(&format!("{got} is on NUMA node 1"), aligned, true)?;
    }
    // No card is left: kube-scheduler sees that by itself. CPUs beside the card are another matter.
    stage.delete("packets-1")?;
    stage.create(&on(pod("crowd", ours, &[cpus(3)]), "b-with-nic"))?;
    stage.runs("crowd")?;
    let wide = guaranteed("main", &[("cpu", "6"), ("memory", "1Gi"), (NIC, "1")]);
    stage.create(&pod("wide", ours, &[wide]))?;
    let words = stage.waits("wide")?;
    say(format_args!("        {words}"));
    equal(
        &format!("{words} names the NUMA nodes"),
        words.contains("NUMA"),
        true,
    )
}

fn training(stage: &Stage, ours: &str) -> Result<(), String> {
    let text = "2 sockets, 16 cores, mem=64Gi";
    let strict = machines::node("strict", text, "restricted", "container")?;
    join(stage, vec![strict.with_devices(GPU, &[1], 2)])?;
    let train = guaranteed("main", &[("cpu", "8"), ("memory", "8Gi"), (GPU, "1")]);
    stage.create(&pod("train-0", ours, std::slice::from_ref(&train)))?;
    let got = got(stage, "train-0")?;
    equal(
        &format!("{got} is beside its GPU"),
        got.ends_with("on node 1"),
        true,
    )?;
    // The GPU's NUMA node fills up while the other one is free: a second one waits, with a reason.
    for (name, count) in [("far", 12), ("near", 6)] {
        stage.create(&pod(name, ours, &[cpus(count)]))?;
        stage.runs(name)?;
    }
    stage.delete("far")?;
    stage.create(&pod("train-1", ours, std::slice::from_ref(&train)))?;
    let words = stage.waits("train-1")?;
    say(format_args!("        {words}"));
    equal(
        &format!("{words} names the NUMA nodes"),
        words.contains("NUMA"),
        true,
    )?;
    stage.delete("train-1")?;
    let lax = machines::node("lax", text, "best-effort", "container")?;
    join(stage, vec![lax.with_devices(GPU, &[1], 1)])?;
    stage.create(&on(pod("left", ours, &[cpus(12)]), "lax"))?;
    stage.create(&on(pod("right", ours, &[cpus(12)]), "lax"))?;
    stage.runs("left")?;
    stage.runs("right")?;
    let across = guaranteed("main", &[("cpu", "6"), ("memory", "1Gi"), (GPU, "1")]);
    stage.create(&on(pod("across", ours, &[across]), "lax"))?;
    equal("across", stage.runs("across")?.as_str(), "lax")
}

fn whole_cores(stage: &Stage, ours: &str) -> Result<(), String> {
    let machine = machine("2 sockets, 8 cores, smt2, mem=32Gi")?;
    let mut rules = settings(&machine, "best-effort", "container");
    rules
        .cpu_options
        .insert("full-pcpus-only".to_owned(), "true".to_owned());
    join(stage, vec![PlayedNode::new("whole-cores", machine, rules)?])?;
    stage.create(&pod("even", ours, &[cpus(4)]))?;
    stage.runs("even")?;
    stage.create(&pod("odd", ours, &[cpus(3)]))?;
    let words = stage.waits("odd")?;
    say(format_args!("        {words}"));
    super::faults::none_rejected(stage)
}

/// Free on A: 2 and 2, on B: 4 and 0. Only B can have a pod of 4.
fn badly_spread(stage: &Stage, ours: &str) -> Result<(), String> {
    let text = "2 sockets, 8 cores, mem=32Gi";
    let node = |name: &str| machines::node(name, text, "single-numa-node", "container");
    join(stage, vec![node("a")?, node("b")?])?;
    // One CPU of the first NUMA node is reserved.
    for (name, count, on_node) in [
        ("a-0", 5, "a"),
        ("a-1", 6, "a"),
        ("b-0", 7, "b"),
        ("b-1", 4, "b"),
    ] {
        stage.create(&on(pod(name, ours, &[cpus(count)]), on_node))?;
        stage.runs(name)?;
    }
    stage.create(&pod("four", ours, &[cpus(4)]))?;
    equal("the node", stage.runs("four")?.as_str(), "b")?;
    stage.create(&pod("four-more", ours, &[cpus(4)]))?;
    let words = stage.waits("four-more")?;
    say(format_args!("        {words}"));
    equal(
        &format!("{words} names the NUMA nodes"),
        words.contains("NUMA"),
        true,
    )
}

/// Five CPUs are free, three on one NUMA node and two on the other: a pod of five fits after the moves that
/// `pinfold defragment` prints, of pods that keep their size.
fn fragmented(stage: &Stage, ours: &str) -> Result<(), String> {
    let (policy, scope) = ("single-numa-node", "container");
    let node = machines::node("fragmented", FRAGMENTED, policy, scope)?;
    join(stage, vec![node])?;
    let running = [("one", 2), ("two", 2), ("three", 6)];
    let running = running.map(|(name, count)| pod(name, ours, &[cpus(count)]));
    for pod in &running {
        stage.create(pod)?;
        stage.runs(name_of(pod)?)?;
    }
    let big = pod("big", ours, &[cpus(5)]);
    stage.create(&big)?;
    let words = stage.waits("big")?;
    say(format_args!("        {words}"));
    let named = words.contains("NUMA");
    equal(&format!("{words} names the NUMA nodes"), named, true)?;
    let plan = defragmentation(&running, &big)?;
    let moves = &plan["plan"]["alteration"]["move"];
    let moved = moves["moves"].as_array().map(Vec::len);
    equal("moves of the plan", moved, Some(1))?;
    let steps = moves["steps"].as_array().ok_or("the plan has no steps")?;
    for step in steps {
        if let Some(name) = step["release"]["name"].as_str() {
            stage.delete(name)?;
            continue;
        }
        let name = step["admit"]["name"].as_str();
        let name = name.ok_or_else(|| format!("an unknown step: {step}"))?;
        // The pod that has to fit was created before and waits.
        if let Some(pod) = running.iter().find(|pod| pod["metadata"]["name"] == name) {
            stage.create(pod)?;
        }
        equal("the node", stage.runs(name)?.as_str(), "fragmented")?;
    }
    for name in ["one", "two", "three", "big"] {
        stage.runs(name)?;
    }
    Ok(())
}

/// The machine of the fragmented node. One CPU of its first NUMA node is reserved.
const FRAGMENTED: &str = "2 sockets, 8 cores, mem=32Gi";

fn name_of(pod: &Value) -> Result<&str, String> {
    let name = pod["metadata"]["name"].as_str();
    name.ok_or_else(|| "a pod without a name".to_owned())
}

/// The output of `pinfold defragment` for these pods on the fragmented node.
fn defragmentation(running: &[Value], big: &Value) -> Result<Value, String> {
    let pinfold = programs::debug_program(programs::PINFOLD)?;
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-plan-{}", std::process::id()));
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(wrong)?;
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": running });
    let (pods, pod) = (folder.join("pods.json"), folder.join("big.json"));
    fs::write(&pods, list.to_string()).map_err(wrong)?;
    fs::write(&pod, big.to_string()).map_err(wrong)?;
    let mut command = Command::new(pinfold);
    command.args(["defragment", "--output", "json"]);
    command.args(["--machine", FRAGMENTED]);
    command.args(["--policy", "single-numa-node", "--scope", "container"]);
    let printed = said_by(command.arg("--pods").arg(&pods).arg(&pod))?;
    let _ = fs::remove_dir_all(&folder);
    serde_json::from_str(&printed).map_err(|error| format!("{printed}: {error}"))
}
