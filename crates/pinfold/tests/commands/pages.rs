//! Runs the commands of the documentation: `console` blocks with their output, and the lines of `sh` blocks.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{root, run, shell, words};
use crate::{COMMAND, golden};

/// What a block of commands may need that a test does not have, as in `sh needs=cluster`.
const NEEDS: [&str; 5] = ["cluster", "node", "agent", "root", "go"];

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

/// Runs every line of the `sh` blocks of all pages that starts with this program. Returns the number of lines.
pub(crate) fn run_shell_lines() -> usize {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("the page exists");
        for (number, line) in shell_lines(&page, &text) {
            if !line.starts_with(&format!("{COMMAND} ")) {
                continue;
            }
            let run = shell(line);
            assert!(
                matches!(run.code, 0 | 1),
                "{}:{number}: {line}\nexit code {}\n{}",
                page.display(),
                run.code,
                run.output()
            );
            count += 1;
        }
    }
    count
}

/// The README and all pages of the documentation.
pub(crate) fn pages() -> Vec<PathBuf> {
    let folders = ["docs", "docs/agent", "docs/migrate", "docs/runbooks"];
    let folders = folders.map(|folder| root().join(folder));
    let docs = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("the folder exists"));
    let docs = docs.map(|entry| entry.expect("a readable folder").path());
    let mut pages: Vec<PathBuf> = docs
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// The lines of a page that can run on any computer, with their numbers. Panics if a block holds commands and its fence
/// does not say what they need.
fn shell_lines<'t>(page: &Path, text: &'t str) -> Vec<(usize, &'t str)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(info) = line.strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(info),
            };
            continue;
        }
        let place = || format!("{}:{number}: {line}", page.display());
        match fence {
            Some("sh") => {
                let runs = ["pinfold ", "kubectl pinfold ", "make ", "export ", "#"];
                let known = line.is_empty() || runs.iter().any(|word| line.starts_with(word));
                assert!(
                    known,
                    "{} does not run on any computer: say what it needs, as in sh needs=cluster",
                    place()
                );
                found.push((number, line));
            }
            Some("" | "text") => {
                let command = line.starts_with("pinfold ") || line.starts_with("kubectl pinfold ");
                assert!(
                    !command,
                    "{} is a command: use a sh or console block",
                    place()
                );
            }
            Some(info) => {
                if let Some(needs) = info.strip_prefix("sh needs=") {
                    assert!(
                        NEEDS.contains(&needs),
                        "{}: {info}: use one of {NEEDS:?}",
                        place()
                    );
                }
            }
            None => {}
        }
    }
    found
}
