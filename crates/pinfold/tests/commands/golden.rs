//! Texts that were looked at once and must not change unseen. `UPDATE_GOLDEN=1` writes them anew.

use std::fs;
use std::path::Path;

/// Whether texts are to be written instead of compared.
pub(crate) fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Compares `found` with the text in `path`.
pub(crate) fn check(path: &Path, found: &str) {
    if updating() {
        return fs::write(path, found).expect("the folder is there");
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == found,
        "{} differs (UPDATE_GOLDEN=1 writes it anew)\n{}",
        path.display(),
        difference(&expected, found)
    );
}

/// The lines around the first difference.
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
