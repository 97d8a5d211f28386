//! Full and read-only disks, files that other users can write to, and two agents with one journal.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use pinfold_journal::{FILE, JournalError};

use super::fixture::{Random, exclusive_lock, held, open, seed, step};

const FOLDER: &str = "PINFOLD_TEST_FOLDER";

/// The child process: its files cannot grow beyond a limit that the parent set.
#[test]
#[ignore = "run by the test of the full disk"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let mut random = Random(seed());
    let mut journaled = open(folder).expect("space for the first snapshot");
    let mut failures = 0;
    for _ in 0..400 {
        let (before, generation) = (journaled.ledger().state().clone(), journaled.generation());
        if let Err(error) = step(&mut journaled, &mut random) {
            failures += 1;
            assert!(
                error.to_string().starts_with("nothing was changed"),
                "{error}"
            );
            assert_eq!(*journaled.ledger().state(), before);
            assert_eq!(journaled.generation(), generation);
            if failures > 5 {
                break;
            }
        }
    }
    assert!(failures > 5, "the disk should be full");
    let now = held(&journaled);
    drop(journaled);
    assert_eq!(held(&open(folder).expect("whole")), now);
}

#[test]
fn on_a_full_disk_a_failed_change_leaves_ledger_and_journal_unchanged() {
    let _lock = exclusive_lock();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let this = std::env::current_exe().expect("this program");
    // A limit on the size of files acts as a full disk for one process. The signal SIGXFSZ is ignored.
    let script =
        "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact faults::disk::child --ignored --nocapture";
    let mut child = Command::new("bash");
    child.args(["-c", script]).arg(this).env(FOLDER, &folder);
    let output = child.output().expect("a child");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let after = fs::metadata(folder.join(FILE)).expect("a journal").len();
    assert!(after <= 64 << 10);
}

fn rejection(folder: &Path) -> JournalError {
    open(folder).expect_err("the journal is rejected")
}

#[test]
fn two_agents_cannot_open_the_same_journal() {
    let _lock = exclusive_lock();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    let first = open(&folder).expect("a journal");
    assert!(matches!(rejection(&folder), JournalError::Locked { .. }));
    drop(first);
    open(&folder).expect("unlocked");
}

#[test]
fn folder_and_files_that_other_users_can_write_to_are_rejected() {
    let _lock = exclusive_lock();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    drop(open(&folder).expect("a journal"));
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join(FILE)), 0o600);
    assert_eq!(mode(&folder.join("lock")), 0o600);
    for path in [folder.join(FILE), folder.join("lock"), folder.clone()] {
        let was = mode(&path);
        fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("opened");
        let error = rejection(&folder);
        assert!(matches!(error, JournalError::Unsafe { .. }), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(was)).expect("closed");
    }
    open(&folder).expect("as before");
}

#[test]
fn symlinks_are_not_followed() {
    let _lock = exclusive_lock();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    drop(open(&folder).expect("a journal"));
    let elsewhere = parent.path().join("elsewhere");
    for name in [FILE, "lock"] {
        let path = folder.join(name);
        fs::rename(&path, &elsewhere).expect("moved");
        symlink(&elsewhere, &path).expect("a link");
        let error = rejection(&folder);
        assert!(matches!(error, JournalError::Unsafe { .. }), "{error}");
        fs::remove_file(&path).expect("removed");
        fs::rename(&elsewhere, &path).expect("moved back");
    }
    let link = parent.path().join("link");
    symlink(&folder, &link).expect("a link");
    assert!(matches!(rejection(&link), JournalError::Unsafe { .. }));
}

#[test]
fn a_folder_that_cannot_be_written_to_is_rejected_with_its_path() {
    // Not even root can write there.
    let error = rejection(Path::new("/proc/self/agent")).to_string();
    assert!(error.contains("cannot create /proc/self/agent"), "{error}");
}

#[test]
fn a_later_version_is_rejected_and_not_changed() {
    let _lock = exclusive_lock();
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("agent");
    drop(open(&folder).expect("a journal"));
    let later = b"pinfold-journal 2\nunknown format\n";
    fs::write(folder.join(FILE), later).expect("written");
    let error = rejection(&folder);
    assert!(
        matches!(
            error,
            JournalError::Version {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(fs::read(folder.join(FILE)).expect("kept"), later);
}
