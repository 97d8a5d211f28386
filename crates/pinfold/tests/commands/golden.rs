//! Snapshots of texts. `UPDATE_GOLDEN=1` rewrites them.

use std::fs;
use std::path::Path;

/// Whether snapshots are rewritten instead of compared.
fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Compares `found` with the snapshot in `path`.
pub(crate) fn check(path: &Path, found: &str) {
    if updating() {
        return fs::write(path, found).expect("the directory exists");
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == found,
        "{} differs (UPDATE_GOLDEN=1 rewrites it)\n{}",
        path.display(),
        difference(&expected, found)
    );
}

/// The lines from the first difference on.
fn difference(expected: &str, found: &str) -> String {
    let (expected, found): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), found.lines().collect());
    let same = expected.iter().zip(&found).take_while(|(a, b)| a == b);
    let at = same.count();
    let show = |lines: &[&str], mark: char| -> String {
        let lines = lines.iter().skip(at).take(5);
        lines.map(|line| format!("{mark} {line}\n")).collect()
    };
    format!(
        "line {}:\n{}{}",
        at + 1,
        show(&expected, '-'),
        show(&found, '+')
    )
}
