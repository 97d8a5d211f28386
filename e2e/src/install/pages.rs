//! The commands and values of the documentation, which the suite runs as they are written there.

use std::fs;

use crate::programs::workspace;

/// The content of the first block of a kind (`sh`, `yaml`) after a line of a page.
pub(super) fn block(page: &str, after: &str, kind: &str) -> Result<String, String> {
    let path = workspace().join(page);
    let text = fs::read_to_string(&path).map_err(|error| format!("{page}: {error}"))?;
    let mut lines = text.lines().skip_while(|line| !line.contains(after));
    let fence = |line: &str| line.trim_start().starts_with(&format!("```{kind}"));
    let begin = lines.find(|line| fence(line));
    let begin = begin.ok_or_else(|| format!("{page}: no block {kind} after {after:?}"))?;
    // Blocks of lists are indented.
    let indent = begin.len() - begin.trim_start().len();
    let block = lines.take_while(|line| line.trim() != "```");
    let block: Vec<&str> = block
        .map(|line| line.get(indent..).unwrap_or_default())
        .collect();
    Ok(block.join("\n"))
}

/// A text with placeholders of a page replaced, each of which must be there.
pub(super) fn filled(text: &str, with: &[(&str, &str)]) -> Result<String, String> {
    let mut text = text.to_owned();
    for (placeholder, value) in with {
        if !text.contains(placeholder) {
            return Err(format!("expected {placeholder} in {text}"));
        }
        text = text.replace(placeholder, value);
    }
    Ok(text)
}
