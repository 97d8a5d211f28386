//! Damaged files: a state that was once true, or a rejection that says what to do. Never a panic, and nothing is deleted.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_agent::{Keeper, KeeperError};
use pinfold_journal::FILE;
use pinfold_journal::JournalError;

use crate::scene::{Held, Random, alone, held, open, say, seed, step};

/// A journal with a history, and every state that was true on the way.
fn history(folder: &Path, seed: u64) -> (Vec<u8>, Vec<Held>) {
    let mut random = Random(seed);
    let mut keeper = open(folder).expect("a new journal");
    let mut truths = vec![held(&keeper)];
    for _ in 0..130 {
        step(&mut keeper, &mut random).expect("a change");
        truths.push(held(&keeper));
    }
    drop(keeper);
    let mut whole = fs::read(folder.join(FILE)).expect("the journal");
    while whole.ends_with(b"\n\n") {
        whole.pop();
    }
    (whole, truths)
}

struct Tally {
    recovered: usize,
    rejected: usize,
}

/// Blank lines, as there are at the end of a journal for more to be written over.
const ROOM: [u8; 9000] = [b'\n'; 9000];

/// Opens the damaged file, without room at its end and with it, and checks what comes of it.
fn check(folder: &Path, damaged: &[u8], truths: &[Held], tally: &mut Tally, what: &str) {
    check_file(folder, damaged, truths, tally, what);
    let roomy = [damaged, &ROOM].concat();
    let what = format!("{what}, with room");
    check_file(folder, &roomy, truths, tally, &what);
}

fn check_file(folder: &Path, damaged: &[u8], truths: &[Held], tally: &mut Tally, what: &str) {
    let file: PathBuf = folder.join(FILE);
    fs::write(&file, damaged).expect("written");
    match open(folder) {
        Ok(keeper) => {
            tally.recovered += 1;
            assert_eq!(keeper.ledger().audit(), [], "{what}");
            assert!(truths.contains(&held(&keeper)), "{what}: never true");
            goes_on(keeper, folder, what);
        }
        Err(KeeperError::Journal(error)) => {
            tally.rejected += 1;
            let told = error.to_string();
            let helpful = matches!(error, JournalError::Damaged { .. }) && told.contains("mv ")
                || matches!(error, JournalError::Version { .. });
            assert!(helpful, "{what}: {told}");
            assert_eq!(fs::read(&file).expect("kept"), damaged, "{what}");
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// A recovered journal can be written to and opened again.
fn goes_on(mut keeper: Keeper, folder: &Path, what: &str) {
    step(&mut keeper, &mut Random(1)).expect(what);
    let now = held(&keeper);
    drop(keeper);
    assert_eq!(held(&open(folder).expect(what)), now, "{what}");
}

#[test]
fn a_cut_journal_is_a_state_that_was_once_true_or_rejected() {
    let _alone = alone();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let seed = seed();
    let (whole, truths) = history(&folder, seed);
    let mut random = Random(seed);
    let length = whole.len() as u64;
    let mut cuts: Vec<u64> = (0..length).step_by(4096).collect();
    cuts.extend((0..150).map(|_| random.below(length)));
    let mut tally = Tally {
        recovered: 0,
        rejected: 0,
    };
    for cut in cuts {
        let kept = &whole[..usize::try_from(cut).expect("small")];
        check(&folder, kept, &truths, &mut tally, &format!("cut at {cut}"));
    }
    say(&format!(
        "cut: {} recovered, {} rejected",
        tally.recovered, tally.rejected
    ));
    assert!(tally.recovered > 0 && tally.rejected > 0);
}

#[test]
fn flipped_bytes_are_noticed() {
    let _alone = alone();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let seed = seed();
    let (whole, truths) = history(&folder, seed);
    let mut random = Random(seed);
    let mut tally = Tally {
        recovered: 0,
        rejected: 0,
    };
    for round in 0..400 {
        let mut damaged = whole.clone();
        for _ in 0..=random.below(3) {
            // Every tenth time the beginning, every fifth the end, where there is more to go wrong.
            let (from, span) = match round % 10 {
                0 => (0, 40),
                1 | 2 => (damaged.len() - 2000, 2000),
                _ => (0, damaged.len()),
            };
            let at = from + usize::try_from(random.below(span as u64)).expect("small");
            damaged[at] ^= 1 << random.below(8);
        }
        check(
            &folder,
            &damaged,
            &truths,
            &mut tally,
            &format!("flip {round}"),
        );
    }
    say(&format!(
        "flips: {} recovered, {} rejected",
        tally.recovered, tally.rejected
    ));
    assert!(tally.recovered > 0 && tally.rejected > 0);
}

#[test]
fn a_last_line_of_which_some_sectors_never_arrived_is_cut_off() {
    const SECTOR: usize = 512;
    let _alone = alone();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let (whole, truths) = history(&folder, 11);
    let end = whole.len() - 1;
    let last = whole[..end].iter().rposition(|&byte| byte == b'\n');
    let last = last.expect("more than one line") + 1;
    let mut tally = Tally {
        recovered: 0,
        rejected: 0,
    };
    for sector in last / SECTOR..=end / SECTOR {
        let mut damaged = whole.clone();
        let hole = (sector * SECTOR).max(last)..((sector + 1) * SECTOR).min(end);
        damaged[hole].fill(b'\n');
        let what = format!("without sector {sector}");
        check(&folder, &damaged, &truths, &mut tally, &what);
    }
    assert!(tally.recovered > 0 && tally.rejected == 0);
}

#[test]
fn what_is_cut_off_is_kept_aside() {
    let _alone = alone();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let (whole, _) = history(&folder, 7);
    fs::write(folder.join(FILE), &whole[..whole.len() - 5]).expect("cut");
    let keeper = open(&folder).expect("recovered");
    let aside = fs::read(folder.join(format!("torn-after-{}", keeper.generation())));
    assert!(whole[..whole.len() - 5].ends_with(&aside.expect("kept")));
    let differences = keeper.compare(&Default::default(), keeper.ledger().rules());
    assert!(
        differences[0].to_string().contains("put aside"),
        "{differences:?}"
    );
}
