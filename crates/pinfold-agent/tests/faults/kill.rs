//! Killed at any moment: nothing is held twice, nothing is lost, and what was reported as done is there.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::Duration;

use crate::scene::{Held, Random, alone, held, open, say, seed, step};

const FOLDER: &str = "PINFOLD_TEST_FOLDER";
const KILLS: u64 = 200;

/// The child: works until it is killed, and says what is done.
#[test]
#[ignore = "the other side of the kill test"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut random = Random(seed());
    let mut keeper = open(Path::new(&folder)).expect("the journal opens");
    loop {
        step(&mut keeper, &mut random).expect("a change");
        let held = serde_json::to_string(&held(&keeper)).expect("text");
        say(&format!("done {} {held}", keeper.generation()));
    }
}

/// Runs a child for a while and kills it; what it said last.
fn killed(folder: &Path, seed: u64, after: Duration) -> Option<(u64, Held)> {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "kill::child", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env("PINFOLD_SEED", seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut out = child.stdout.take().expect("a pipe");
    // Read all the time: a child that waits for a full pipe would always be killed at the same moment.
    let reader = spawn(move || {
        let mut said = String::new();
        out.read_to_string(&mut said).expect("text");
        said
    });
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
    let _alone = alone();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let seed = seed();
    let mut random = Random(seed);
    let (mut before, mut reports, mut ahead) = (0, 0, 0);
    for round in 0..KILLS {
        let after = Duration::from_micros(2_000 + random.below(120_000));
        let reported = killed(&folder, seed.wrapping_add(round), after);
        let keeper = open(&folder).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(keeper.ledger().audit(), [], "round {round}");
        let found = keeper.generation();
        assert!(found >= before, "round {round}: {found} after {before}");
        if let Some((number, told)) = reported {
            reports += number.saturating_sub(before);
            // One change may be written down and not be reported yet, but no more.
            assert!((number..=number + 1).contains(&found), "round {round}");
            match found == number {
                true => assert_eq!(held(&keeper), told, "round {round}"),
                false => ahead += 1,
            }
        }
        before = found;
    }
    say(&format!(
        "{reports} changes reported, {ahead} kills between write and report"
    ));
    assert!(reports > KILLS, "the children got to work");
}
