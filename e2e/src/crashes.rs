//! Killed starters, killed commands, damaged books: checks of what `crashes.sh` and `shared.sh` did.

use pinfold_core::cpu_set::CpuSet;

use crate::report::{Report, equal};
use crate::runs::{Listing, Seen};
use crate::transcript::Transcript;

/// Everything that both a guest and a plain host must withstand.
pub(crate) fn check(
    report: &mut Report,
    place: &str,
    said: &Transcript,
    all: &CpuSet,
    nodes: &str,
) {
    let mut check = |what: &str, outcome| report.check(format_args!("{place}: {what}"), outcome);
    check(
        "a killed starter leaves the command where it is",
        orphan(said, nodes),
    );
    for event in [
        "then command killed",
        "both killed",
        "killed while starting",
    ] {
        check(
            &format!("{event}: nothing is held"),
            empty(said, &format!("{event} ps"), all),
        );
        check(
            &format!("{event}: no group is left"),
            none(said, &format!("{event} groups")),
        );
    }
    // The starter cleans up by itself, before the check.
    check(
        "command killed: no group is left",
        none(said, "command killed groups"),
    );
    check(
        "command killed: nothing is held",
        empty(said, "command killed ps", all),
    );
    for (event, code) in [
        ("command killed", 128 + 9),
        ("terminated", 128 + 15),
        ("other signal", 128 + 10),
        ("left behind", 0),
        ("damaged", 3),
        ("all again", 0),
        ("too many", 1),
        ("exit code", 42),
        ("no such command", 127),
    ] {
        let found = said.number(&format!("{event} rc"));
        check(
            &format!("{event}: exit code {code}"),
            found.and_then(|found| equal("exit code", found, code)),
        );
    }
    check(
        "a run lasts until its last process has ended",
        left_behind(said),
    );
    check(
        "left behind and killed: nothing is held",
        empty(said, "left behind and killed ps", all),
    );
    check("a damaged book says what to do", damage(said));
    check(
        "the shared pool shrinks and grows",
        shared(said, all, nodes),
    );
}

fn empty(said: &Transcript, section: &str, all: &CpuSet) -> Result<(), String> {
    Listing::read(said, section)?.is_empty(all)
}

fn none(said: &Transcript, section: &str) -> Result<(), String> {
    equal("groups", said.number(section)?, 0)
}

fn orphan(said: &Transcript, nodes: &str) -> Result<(), String> {
    let listing = Listing::read(said, "starter killed ps")?;
    let seen = Seen::read(said, "starter killed child")?;
    match &listing.runs[..] {
        [run] => seen.is_where(run, nodes),
        runs => Err(format!("expected one run, found {runs:?}")),
    }
}

fn left_behind(said: &Transcript) -> Result<(), String> {
    let listing = Listing::read(said, "left behind ps")?;
    equal("runs", listing.runs.len(), 1)
}

fn damage(said: &Transcript) -> Result<(), String> {
    let message = said.section("damaged message")?;
    if !message.contains("is damaged") || !message.contains("mv ") {
        return Err(format!("the message is {message:?}"));
    }
    equal("the book", said.section("damaged book")?, "same")
}

fn shared(said: &Transcript, all: &CpuSet, nodes: &str) -> Result<(), String> {
    let listing = Listing::read(said, "shared while others own")?;
    listing.nothing_twice()?;
    for name in ["s", "o"] {
        let seen = Seen::read(said, &format!("shared while others own {name}"))?;
        seen.is_where(listing.run(name)?, nodes)?;
    }
    equal(
        "shared CPUs",
        &listing.run("s")?.cpus,
        &(all - &listing.run("o")?.cpus),
    )?;
    let listing = Listing::read(said, "shared afterwards")?;
    equal("shared CPUs", &listing.run("s")?.cpus, all)?;
    Seen::read(said, "shared afterwards s")?.is_where(listing.run("s")?, nodes)
}
