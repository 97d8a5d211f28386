//! Every example does what its text says.

use std::fs;

use crate::golden;
use crate::program::{root, run, words};

#[test]
fn every_example_gives_its_expected_output() {
    let mut count = 0;
    for entry in fs::read_dir(root().join("examples")).expect("there are examples") {
        let folder = entry.expect("readable").path();
        if !folder.is_dir() {
            continue;
        }
        let readme = fs::read_to_string(folder.join("README.md")).expect("a README");
        let lines: Vec<&str> = readme
            .lines()
            .filter_map(|line| line.strip_prefix("pinfold "))
            .collect();
        assert!(!lines.is_empty(), "a command line in the README");
        let seen: Vec<String> = lines
            .iter()
            .map(|line| run(&folder, &words(line)).seen())
            .collect();
        let seen = seen.join("\n");
        golden::check(&folder.join("expected.txt"), &seen);
        count += 1;
    }
    assert_eq!(count, 8);
}
