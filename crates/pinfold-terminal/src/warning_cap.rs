//! [`WarningCap`]: the first few warnings of each kind about the objects of a large file, and the number of the others.

use std::collections::BTreeMap;

use pinfold_kube::diagnostic::Diagnostic;
use pinfold_render::text::count;

use crate::source::Source;

/// The most warnings of one kind that are printed.
const PRINTED: usize = 5;

/// Prints the first warnings of each kind, and at the end how many more there were.
#[derive(Debug)]
pub struct WarningCap {
    /// Prints a line.
    remark: fn(&str),
    /// The kinds with the number of their warnings, and an example.
    kinds: BTreeMap<String, (usize, String)>,
}

impl WarningCap {
    /// A cap that prints with `remark`.
    #[must_use]
    pub fn new(remark: fn(&str)) -> Self {
        Self {
            remark,
            kinds: BTreeMap::new(),
        }
    }

    /// Warnings about an object of a file. Warnings about the same field with the same kind of problem are of one kind.
    pub fn add_all(&mut self, source: &Source, warnings: &[Diagnostic]) {
        for warning in warnings {
            let problem = std::mem::discriminant(&warning.problem);
            let kind = format!("{} {problem:?}", without_numbers(&warning.path));
            self.add(&kind, || source.describe(warning));
        }
    }

    /// A warning of this kind.
    pub fn add(&mut self, kind: &str, text: impl FnOnce() -> String) {
        match self.kinds.get_mut(kind) {
            Some((number, _)) => {
                *number += 1;
                if *number <= PRINTED {
                    (self.remark)(&format!("warning: {}", text()));
                }
            }
            None => {
                let text = text();
                (self.remark)(&format!("warning: {text}"));
                self.kinds.insert(kind.to_owned(), (1, text));
            }
        }
    }

    /// Prints how many more warnings of each kind there were.
    pub fn finish(self) {
        for (number, first) in self.kinds.values() {
            if let Some(more @ 1..) = number.checked_sub(PRINTED) {
                let more = count(more, "more warning", "more warnings");
                // The first line of several is the position.
                let first = first.lines().nth(1).unwrap_or(first).trim();
                (self.remark)(&format!("warning: ... and {more} of this kind: {first}"));
            }
        }
    }
}

/// The path of a field with `[]` for the positions in lists.
fn without_numbers(path: &str) -> String {
    let digits = |letter: &char| !letter.is_ascii_digit();
    path.chars().filter(digits).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static PRINTED_LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn record(line: &str) {
        PRINTED_LINES.with_borrow_mut(|lines| lines.push(line.to_owned()));
    }

    #[test]
    fn the_first_warnings_of_each_kind_are_printed_and_the_others_counted() {
        let mut cap = WarningCap::new(record);
        for number in 1..=10 {
            cap.add("taints", || format!("taint {number}\n  in full"));
        }
        cap.add("labels", || "a label".to_owned());
        cap.finish();
        let lines = PRINTED_LINES.with_borrow(Clone::clone);
        assert_eq!(
            lines,
            [
                "warning: taint 1\n  in full",
                "warning: taint 2\n  in full",
                "warning: taint 3\n  in full",
                "warning: taint 4\n  in full",
                "warning: taint 5\n  in full",
                "warning: a label",
                "warning: ... and 5 more warnings of this kind: in full",
            ]
        );
        assert_eq!(without_numbers("spec.taints[12].key"), "spec.taints[].key");
    }
}
