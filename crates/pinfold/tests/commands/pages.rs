//! Runs the `console` blocks of a documentation page.

use std::fmt::Write;
use std::fs;

use crate::program::{root, run, words};
use crate::{COMMAND, golden};

/// Compares the output of every command on a page with the page. Returns the number of commands.
pub(crate) fn check(page: &str) -> usize {
    let path = root().join(page);
    let page = fs::read_to_string(&path).expect("the page exists");
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
        let arguments = command.strip_prefix(&format!("$ {COMMAND} "));
        let arguments = arguments.expect("a command of this program");
        found.push_str(&run(&root(), &words(arguments)).output());
        found.push_str("```\n");
        examples += 1;
        // The old output is compared with the rest of the page below.
        lines.by_ref().find(|line| *line == "```");
    }
    golden::check(&path, &found);
    examples
}
