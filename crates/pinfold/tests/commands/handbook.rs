//! The pages that show the command line show what the program really prints.

use std::fmt::Write;
use std::fs;

use crate::golden;
use crate::program::{root, run, words};

#[test]
fn every_example_of_the_handbook_is_true() {
    assert!(check("docs/command-line.md") > 5);
}

#[test]
fn every_example_about_a_running_cluster_is_true() {
    assert!(check("docs/cluster.md") >= 4);
}

/// Runs every example of a page; how many there are.
fn check(page: &str) -> usize {
    let path = root().join(page);
    let page = fs::read_to_string(&path).expect("the page is there");
    let mut found = String::new();
    let mut lines = page.lines();
    let mut examples = 0;
    while let Some(line) = lines.next() {
        let _ = writeln!(found, "{line}");
        if line != "```console" {
            continue;
        }
        let command = lines.next().expect("a command");
        let _ = writeln!(found, "{command}");
        let command = command.strip_prefix("$ pinfold ").expect("one of ours");
        found.push_str(&run(&root(), &words(command)).seen());
        found.push_str("```\n");
        examples += 1;
        // What was there before is compared with the rest at once.
        lines.by_ref().find(|line| *line == "```");
    }
    golden::check(&path, &found);
    examples
}
