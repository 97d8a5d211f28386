//! The commands of `docs/takeover.md`, which run as they are written.

use std::fs;

use crate::programs::workspace;

const PAGE: &str = "docs/takeover.md";

/// The scripts for the node below a heading, in order.
pub(super) fn scripts(heading: &str) -> Result<Vec<String>, String> {
    let path = workspace().join(PAGE);
    let text = fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let start = format!("\n## {heading}\n");
    let (_, part) = text
        .split_once(&start)
        .ok_or_else(|| format!("{PAGE} has no heading {heading:?}"))?;
    let part = part.split("\n## ").next().unwrap_or_default();
    let mut scripts = Vec::new();
    let mut script: Option<(usize, String)> = None;
    for line in part.lines() {
        let indent = line.len() - line.trim_start().len();
        match (&mut script, line.trim()) {
            (None, "```sh needs=node") => script = Some((indent, String::new())),
            (Some(_), "```") => scripts.extend(script.take().map(|(_, script)| script)),
            (Some((indent, script)), _) => {
                script.push_str(line.get(*indent..).unwrap_or_default());
                script.push('\n');
            }
            (None, _) => {}
        }
    }
    match scripts.is_empty() {
        true => Err(format!("{PAGE}: no commands below {heading:?}")),
        false => Ok(scripts),
    }
}
