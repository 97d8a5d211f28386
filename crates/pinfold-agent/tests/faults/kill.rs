//! Kills an agent at random moments: no CPU is assigned twice, and every change that was reported is in the journal.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::{sleep, spawn};
use std::time::Duration;

use super::fixture::{Held, Random, exclusive_lock, held, open, print_line, seed, step};

const FOLDER: &str = "PINFOLD_TEST_FOLDER";
const KILLS: u64 = 200;

/// The child process: changes the ledger until it is killed, and prints every finished change.
#[test]
#[ignore = "run by the kill test"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut random = Random(seed());
    let mut journaled = open(Path::new(&folder)).expect("the journal opens");
    loop {
        step(&mut journaled, &mut random).expect("a change");
        let held = serde_json::to_string(&held(&journaled)).expect("text");
        print_line(&format!("done {} {held}", journaled.generation()));
    }
}

/// What a child does when the time until its kill begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// It starts: it may be killed while it opens the journal.
    Start,
    /// It has reported a change.
    FirstChange,
}

/// Runs a child for a while and kills it. Returns the last change that it printed.
fn killed(folder: &Path, seed: u64, from: Moment, after: Duration) -> Option<(u64, Held)> {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "faults::kill::child", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env("PINFOLD_SEED", seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let out = child.stdout.take().expect("a pipe");
    let (has_changed, first_change) = mpsc::channel();
    // Read continuously: a child that blocks on a full pipe would always be killed at the same point.
    let reader = spawn(move || {
        let mut out = BufReader::new(out);
        let mut said = String::new();
        let mut start = 0;
        while out.read_line(&mut said).expect("text") > 0 {
            let line = &said[start..];
            if line.starts_with("done ") && line.ends_with('\n') {
                let _ = has_changed.send(());
            }
            start = said.len();
        }
        said
    });
    if from == Moment::FirstChange {
        // An error means that the child has ended, which is checked below.
        let _ = first_change.recv();
    }
    sleep(after);
    child.kill().expect("SIGKILL");
    let said = reader.join().expect("it was read");
    let ended = child.wait().expect("it ended");
    assert_eq!(ended.code(), None, "killed, not failed: {said}");
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().rev().find_map(|line| {
        let (number, held) = line.strip_prefix("done ")?.split_once(' ')?;
        Some((number.parse().ok()?, serde_json::from_str(held).ok()?))
    })
}

#[test]
fn killed_at_any_moment_the_journal_has_everything_that_was_reported() {
    let _lock = exclusive_lock();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let seed = seed();
    let mut random = Random(seed);
    let (mut before, mut reports, mut ahead) = (0, 0, 0);
    for round in 0..KILLS {
        let from = match random.below(4) {
            0 => Moment::Start,
            _ => Moment::FirstChange,
        };
        let after = Duration::from_micros(random.below(60_000));
        let reported = killed(&folder, seed.wrapping_add(round), from, after);
        assert!(from == Moment::Start || reported.is_some(), "round {round}");
        let journaled = open(&folder).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(journaled.ledger().audit(), [], "round {round}");
        let found = journaled.generation();
        assert!(found >= before, "round {round}: {found} after {before}");
        if let Some((number, message)) = reported {
            reports += number.saturating_sub(before);
            // At most one change is journaled and not reported yet.
            assert!((number..=number + 1).contains(&found), "round {round}");
            match found == number {
                true => assert_eq!(held(&journaled), message, "round {round}"),
                false => ahead += 1,
            }
        }
        before = found;
    }
    print_line(&format!(
        "{reports} changes reported, {ahead} kills between write and report"
    ));
    assert!(reports > KILLS / 2, "the children made too few changes");
}
