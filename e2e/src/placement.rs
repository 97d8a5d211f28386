//! Runs under every policy: checks of what `placement.sh`, `partition.sh` and `affinity.sh` did.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::policy::TopologyPolicy;

use crate::emulated::Emulated;
use crate::report::{Report, equal};
use crate::runs::{Listed, Listing, Seen};
use crate::transcript::Transcript;

const MIB: u64 = 1 << 20;

/// What every run takes at least: a string of 1 MiB, beside what it writes.
pub(crate) const LEAST: u64 = MIB;

/// Every run of `section` is where `pinfold ps` says, with its memory.
pub(crate) fn in_place(
    said: &Transcript,
    section: &str,
    names: &[&str],
    all_nodes: &str,
) -> Result<Listing, String> {
    let listing = Listing::read(said, &format!("{section} ps"))?;
    listing.nothing_twice()?;
    for name in names {
        let seen = Seen::read(said, &format!("{section} {name}"))?;
        let listed = listing.run(name)?;
        let explain = |problem| format!("run {name}: {problem}");
        seen.is_where(listed, all_nodes).map_err(explain)?;
        seen.memory_is_where(listed, LEAST).map_err(explain)?;
    }
    Ok(listing)
}

/// Checks all of `placement.sh`.
pub(crate) fn check(
    report: &mut Report,
    guest: &str,
    said: &Transcript,
    machine: &Emulated,
    all: &CpuSet,
    nodes: &str,
) {
    for policy in TopologyPolicy::ALL {
        let mut check =
            |what: &str, outcome| report.check(format_args!("{guest}: {policy}: {what}"), outcome);
        let strict = policy == TopologyPolicy::SingleNumaNode;
        let names: &[&str] = if strict {
            &["a", "b", "d"]
        } else {
            &["a", "b", "c", "d"]
        };
        let listing = in_place(said, policy.name(), names, nodes);
        check(
            "runs are exactly where they were placed",
            listing.as_ref().map(drop).map_err(String::clone),
        );
        if let Ok(listing) = &listing {
            check(
                "runs get as many CPUs as they asked for",
                counts(listing, strict),
            );
            if policy != TopologyPolicy::None {
                check(
                    "CPUs and memory are on as few nodes as can be",
                    aligned(listing, machine),
                );
            }
        }
        if strict {
            let seen = Seen::read(said, &format!("{policy} c"));
            let rejected = seen.and_then(|seen| equal("exit code", seen.code, Some(1)));
            check("what fits on no single node is rejected", rejected);
        }
        let after = Listing::read(said, &format!("{policy} after"));
        check(
            "everything is given back",
            after.and_then(|after| after.is_empty(all)),
        );
        let groups = said.number(&format!("{policy} groups"));
        check(
            "no group is left",
            groups.and_then(|groups| equal("groups", groups, 0)),
        );
    }
    let at_once = in_place(said, "at once", &["p", "q", "r", "s", "t"], nodes);
    report.check(
        format_args!("{guest}: runs that start at the same moment share nothing"),
        at_once.map(drop),
    );
}

fn counts(listing: &Listing, strict: bool) -> Result<(), String> {
    for (name, count) in [("a", 2), ("b", 3), ("c", 6)] {
        if !(strict && name == "c") {
            let run = listing.run(name)?;
            equal(&format!("CPUs of run {name}"), run.cpus.len(), count)?;
            equal(&format!("run {name} has its own"), run.own, true)?;
        }
    }
    let shared = listing.run("d")?;
    equal("run d has its own", shared.own, false)?;
    equal("CPUs of run d", &shared.cpus, &listing.shared)
}

/// Two or three CPUs fit on one node of four, six on two, and memory goes with them.
fn aligned(listing: &Listing, machine: &Emulated) -> Result<(), String> {
    for run in listing.runs.iter().filter(|run| run.own) {
        let nodes = nodes_of(run, machine);
        let fewest = run.cpus.len().div_ceil(4);
        equal(&format!("nodes of run {}", run.name), nodes.len(), fewest)?;
        if let Some(memory) = &run.nodes {
            let memory: CpuSet = memory.parse().map_err(|_| "no list of nodes")?;
            let memory: Vec<usize> = memory
                .iter()
                .map(pinfold_core::cpu_set::CpuId::index)
                .collect();
            equal(&format!("memory of run {}", run.name), memory, nodes)?;
        }
    }
    Ok(())
}

/// The NUMA nodes that the CPUs of a run are on.
pub(crate) fn nodes_of(run: &Listed, machine: &Emulated) -> Vec<usize> {
    let on_node = |node: &crate::emulated::Node| {
        let (first, count) = node.cpus.unwrap_or((0, 0));
        run.cpus
            .iter()
            .any(|cpu| (first..first + count).contains(&cpu.get()))
    };
    let nodes = machine.nodes.iter().enumerate();
    nodes
        .filter(|(_, node)| on_node(node))
        .map(|(id, _)| id)
        .collect()
}

/// Checks `partition.sh`: the rest of the machine keeps off.
pub(crate) fn partition(said: &Transcript, all: &CpuSet, nodes: &str) -> Result<(), String> {
    let listing = in_place(said, "partition", &["x", "y"], nodes)?;
    let rest = (all - &listing.run("x")?.cpus).to_string();
    let bystander = Seen::read(said, "partition bystander")?;
    equal("CPUs of a bystander", bystander.cpus.as_str(), &rest)?;
    equal("CPUs of the root", said.section("partition root")?, &rest)?;
    equal(
        "CPUs of the root afterwards",
        said.section("partition gone root")?,
        &all.to_string(),
    )
}

/// Checks `affinity.sh`.
pub(crate) fn affinity(said: &Transcript, all: &CpuSet, nodes: &str) -> Result<(), String> {
    let listing = in_place(said, "affinity", &["f", "g"], nodes)?;
    for run in &listing.runs {
        equal("held by", run.held_by.as_str(), "affinity")?;
    }
    let own = listing.run("f")?;
    equal(
        "CPUs of the shared pool",
        &listing.run("g")?.cpus,
        &(all - &own.cpus),
    )?;
    let bound = format!(" bind:{} ", own.nodes.as_deref().unwrap_or_default());
    if !said
        .section("affinity f")?
        .replace("maps ", " ")
        .contains(bound.trim())
    {
        return Err(format!("no memory is bound: {bound}"));
    }
    let listing = Listing::read(said, "affinity grown")?;
    Seen::read(said, "affinity grown g")?.is_where(listing.run("g")?, nodes)?;
    equal("CPUs of the shared pool", &listing.run("g")?.cpus, all)?;
    Listing::read(said, "affinity after")?.is_empty(all)
}
