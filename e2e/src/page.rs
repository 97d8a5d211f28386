//! The parts of docs/benchmarks.md that are measured with real programs. `make bench-docs` leaves them as they are.

use std::fs;

use crate::programs::workspace;

/// What every part begins with.
const BEGIN: &str = "<!-- make bench-";

/// Puts a text in the place of what `make bench-NAME` measured before.
pub(crate) fn write(name: &str, text: &str) -> Result<(), String> {
    let path = workspace().join("docs/benchmarks.md");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let page = fs::read_to_string(&path).map_err(failed)?;
    fs::write(&path, with_part(&page, name, text)).map_err(failed)
}

/// The page with another text for one part, which comes last if it is new.
fn with_part(page: &str, name: &str, text: &str) -> String {
    let begin = format!("{BEGIN}{name} -->");
    let (before, after) = match page.split_once(&begin) {
        Some((before, rest)) => (before, rest.find(BEGIN).map_or("", |at| &rest[at..])),
        None => (page, ""),
    };
    let (before, text) = (before.trim_end(), text.trim());
    let page = format!("{before}\n\n{begin}\n{text}\n\n{after}");
    format!("{}\n", page.trim_end())
}

#[cfg(test)]
mod tests {
    use super::with_part;

    #[test]
    fn one_part_is_replaced_and_the_others_stay() {
        let first = with_part("# Page\n", "one", "first");
        let both = with_part(&first, "two", "second");
        let again = with_part(&both, "one", "other");
        assert_eq!(
            again,
            "# Page\n\n<!-- make bench-one -->\nother\n\n<!-- make bench-two -->\nsecond\n"
        );
        assert_eq!(with_part(&again, "two", "second"), again);
    }
}
