//! A damaged journal either opens with a state that the node once had, or is rejected with a message that says what to
//! do. Opening it never panics and never deletes data.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_agent::JournaledLedger;
use pinfold_journal::{FILE, JournalError};

use super::fixture::{Held, Random, exclusive_lock, held, open, print_line, seed, step};

/// Writes a journal with many entries. Returns its content and every state that the ledger had.
fn history(folder: &Path, seed: u64) -> (Vec<u8>, Vec<Held>) {
    let mut random = Random(seed);
    let mut journaled = open(folder).expect("a new journal");
    let mut truths = vec![held(&journaled)];
    for _ in 0..130 {
        step(&mut journaled, &mut random).expect("a change");
        truths.push(held(&journaled));
    }
    drop(journaled);
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

/// Blank lines, like the preallocated space at the end of a journal.
const PREALLOCATED: [u8; 9000] = [b'\n'; 9000];

/// Opens the damaged file without and with preallocated space at its end, and checks the result.
fn check(folder: &Path, damaged: &[u8], truths: &[Held], tally: &mut Tally, what: &str) {
    check_file(folder, damaged, truths, tally, what);
    let preallocated = [damaged, &PREALLOCATED].concat();
    let what = format!("{what}, with preallocated space");
    check_file(folder, &preallocated, truths, tally, &what);
}

fn check_file(folder: &Path, damaged: &[u8], truths: &[Held], tally: &mut Tally, what: &str) {
    let file: PathBuf = folder.join(FILE);
    fs::write(&file, damaged).expect("written");
    match open(folder) {
        Ok(journaled) => {
            tally.recovered += 1;
            assert_eq!(journaled.ledger().audit(), [], "{what}");
            assert!(
                truths.contains(&held(&journaled)),
                "{what}: the ledger never had this state"
            );
            check_writable(journaled, folder, what);
        }
        Err(error) => {
            tally.rejected += 1;
            let message = error.to_string();
            assert!(
                message.starts_with(&file.display().to_string()),
                "{message}"
            );
            let helpful = matches!(error, JournalError::Damaged { .. }) && message.contains("mv ")
                || matches!(error, JournalError::Version { .. });
            assert!(helpful, "{what}: {message}");
            assert_eq!(fs::read(&file).expect("kept"), damaged, "{what}");
        }
    }
}

/// Checks that a recovered journal can be written and opened again.
fn check_writable(mut journaled: JournaledLedger, folder: &Path, what: &str) {
    step(&mut journaled, &mut Random(1)).expect(what);
    let now = held(&journaled);
    drop(journaled);
    assert_eq!(held(&open(folder).expect(what)), now, "{what}");
}

#[test]
fn a_truncated_journal_has_a_state_that_the_node_once_had_or_is_rejected() {
    let _lock = exclusive_lock();
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
    print_line(&format!(
        "cut: {} recovered, {} rejected",
        tally.recovered, tally.rejected
    ));
    assert!(tally.recovered > 0 && tally.rejected > 0);
}

#[test]
fn flipped_bits_are_detected() {
    let _lock = exclusive_lock();
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
            // The beginning in every tenth round, the end in two of ten: they have the header and the last line.
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
    print_line(&format!(
        "flips: {} recovered, {} rejected",
        tally.recovered, tally.rejected
    ));
    assert!(tally.recovered > 0 && tally.rejected > 0);
}

#[test]
fn a_last_line_with_missing_sectors_is_cut_off() {
    const SECTOR: usize = 512;
    let _lock = exclusive_lock();
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
fn bytes_after_preallocated_space_are_cut_off_unless_they_are_a_valid_line() {
    let _lock = exclusive_lock();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let (whole, truths) = history(&folder, 13);
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|&byte| byte == b'\n');
    let (before, last) = whole.split_at(last.expect("more than one line") + 1);
    // Blank lines that fill a buffer exactly, and that do not.
    for blank in [8192, 16 << 10, 40_001] {
        let after = |bytes: &[u8]| [before, &vec![b'\n'; blank], bytes].concat();
        let mut tally = Tally {
            recovered: 0,
            rejected: 0,
        };
        let torn = after(&last[..last.len() / 2]);
        check_file(
            &folder,
            &torn,
            &truths,
            &mut tally,
            &format!("torn, {blank}"),
        );
        assert_eq!((tally.recovered, tally.rejected), (1, 0), "{blank}");
        let valid = after(last);
        check_file(
            &folder,
            &valid,
            &truths,
            &mut tally,
            &format!("valid, {blank}"),
        );
        assert_eq!((tally.recovered, tally.rejected), (1, 1), "{blank}");
    }
}

#[test]
fn the_cut_off_bytes_are_kept_in_another_file() {
    let _lock = exclusive_lock();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let (whole, _) = history(&folder, 7);
    fs::write(folder.join(FILE), &whole[..whole.len() - 5]).expect("cut");
    let journaled = open(&folder).expect("recovered");
    let aside = fs::read(folder.join(format!("truncated-after-{}", journaled.generation())));
    let aside = aside.expect("kept");
    assert!(whole[..whole.len() - 5].ends_with(&aside));
    assert_eq!(journaled.truncated_bytes(), aside.len() as u64);
}
