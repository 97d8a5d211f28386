//! The output of a script, in the sections it opened with `@@ section NAME`.

use serde_json::Value;

/// The lines of each section.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    sections: Vec<(String, String)>,
}

impl Transcript {
    /// Takes the next line.
    pub(crate) fn line(&mut self, line: &str) {
        // A kernel's lines on the same console start with a time in brackets.
        if line.starts_with('[') && line.contains("] ") {
            return;
        }
        if let Some(name) = line.strip_prefix("@@ section ") {
            self.sections.push((name.to_owned(), String::new()));
        } else if let Some((_, text)) = self.sections.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }

    /// The text of one section.
    pub(crate) fn section(&self, name: &str) -> Result<&str, String> {
        let found = self.sections.iter().find(|(section, _)| section == name);
        found
            .map(|(_, text)| text.trim())
            .ok_or_else(|| format!("the script never got to section {name:?}"))
    }

    /// A section of JSON.
    pub(crate) fn json(&self, name: &str) -> Result<Value, String> {
        let text = self.section(name)?;
        serde_json::from_str(text).map_err(|error| format!("section {name:?}: {error} in {text}"))
    }

    /// A section with one number in its last line.
    pub(crate) fn number(&self, name: &str) -> Result<i64, String> {
        let text = self.section(name)?;
        let last = text.lines().last().unwrap_or_default().trim();
        last.parse()
            .map_err(|_| format!("section {name:?}: expected a number, found {text:?}"))
    }
}
