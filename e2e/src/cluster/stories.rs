//! The acceptance scenarios that need a cluster, on kubelets that are played.

use super::machines::{self, machine, settings};
use super::played::PlayedNode;
use super::pods::{NIC, cpus, guaranteed, on, pod};
use super::stage::Stage;
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
            "STORY-08: what a fragmented node lacks is said, and runs once a pod has moved",
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

/// Waits until a pod runs, and says what its first container got.
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

fn fragmented(stage: &Stage, ours: &str) -> Result<(), String> {
    let text = "2 sockets, 8 cores, mem=32Gi";
    join(
        stage,
        vec![machines::node(
            "fragmented",
            text,
            "single-numa-node",
            "container",
        )?],
    )?;
    for (name, count) in [("one", 4), ("two", 6), ("three", 3)] {
        stage.create(&pod(name, ours, &[cpus(count)]))?;
        stage.runs(name)?;
    }
    // Some of each NUMA node is free, and no five CPUs of one.
    stage.delete("three")?;
    stage.create(&pod("big", ours, &[cpus(5)]))?;
    let words = stage.waits("big")?;
    say(format_args!("        {words}"));
    // What the plan for a defragmentation says: one pod moves.
    stage.delete("two")?;
    stage.create(&pod("two-moved", ours, &[cpus(2)]))?;
    stage.runs("two-moved")?;
    equal("the node", stage.runs("big")?.as_str(), "fragmented")
}
