//! Runs the command lines in the READMEs of `examples/`.

use std::fs;

use crate::program::{root, run, words};
use crate::{COMMAND, golden};

/// Compares the output of every example of this program with its `expected.txt`. Returns the number of examples.
pub(crate) fn check() -> usize {
    let mut count = 0;
    for entry in fs::read_dir(root().join("examples")).expect("there are examples") {
        let folder = entry.expect("readable").path();
        if !folder.is_dir() {
            continue;
        }
        let readme = fs::read_to_string(folder.join("README.md")).expect("a README");
        let lines: Vec<&str> = readme
            .lines()
            .filter_map(|line| line.strip_prefix(COMMAND)?.strip_prefix(' '))
            .collect();
        if lines.is_empty() {
            continue;
        }
        let output: Vec<String> = lines
            .iter()
            .map(|line| run(&folder, &words(line)).output())
            .collect();
        golden::check(&folder.join("expected.txt"), &output.join("\n"));
        count += 1;
    }
    count
}
