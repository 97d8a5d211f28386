//! [`Source`]: a file named on the command line, and error messages that show the line they are about.

use std::io::Read;
use std::path::Path;

use pinfold_kube::diagnostic::{Diagnostic, Diagnostics, Position};

use crate::exit::Failure;
use crate::output::remark;

/// The largest file that is read. The parsers have lower limits of their own.
const MAX_BYTES: u64 = 64 << 20;

/// The name and content of a file.
pub struct Source {
    /// The path as the user wrote it, or `standard input`.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

impl Source {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        let is_stdin = path.as_os_str() == "-";
        let read = match is_stdin {
            true => std::io::stdin()
                .lock()
                .take(MAX_BYTES)
                .read_to_end(&mut bytes),
            false => std::fs::File::open(path)
                .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes)),
        };
        let name = match is_stdin {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        match read {
            Ok(_) => Ok(Self { name, bytes }),
            Err(error) => Err(Failure::BadInput(format!("cannot read {name}: {error}"))),
        }
    }

    /// A failure with one paragraph per finding.
    #[must_use]
    pub fn failure(&self, findings: &Diagnostics) -> Failure {
        let paragraphs: Vec<String> = findings
            .0
            .iter()
            .map(|finding| self.describe(finding))
            .collect();
        Failure::BadInput(paragraphs.join("\n"))
    }

    /// Prints warnings to standard error.
    pub fn warn(&self, warnings: &[Diagnostic]) {
        for warning in warnings {
            remark(&format!("warning: {}", self.describe(warning)));
        }
    }

    /// A finding with its position, its object and the line of the file it is about.
    #[must_use]
    pub fn describe(&self, finding: &Diagnostic) -> String {
        let mut text = finding.file.clone();
        if let Some(at) = finding.at {
            text.push_str(&format!(":{at}"));
        }
        if let Some(object) = &finding.object {
            text.push_str(&format!(": {object}"));
        }
        if !finding.path.is_empty() {
            text.push_str(&format!(": {}", finding.path));
        }
        if let Some(within) = finding.within {
            text.push_str(&format!(" (at {within} of the text)"));
        }
        text.push_str(&format!("\n  {}", finding.problem));
        if let Some(at) = finding.at {
            text.push_str(&self.excerpt(at));
        }
        if let Some(hint) = &finding.hint {
            text.push_str(&format!("\n  {hint}"));
        }
        text
    }

    /// The line at a position with a caret below the column; empty if the column is too far to the right.
    #[must_use]
    pub fn excerpt(&self, at: Position) -> String {
        const MAX_COLUMNS: usize = 100;
        let text = String::from_utf8_lossy(&self.bytes);
        let number = usize::try_from(at.line).unwrap_or(usize::MAX);
        let column = usize::try_from(at.column).unwrap_or(usize::MAX);
        let line = number
            .checked_sub(1)
            .and_then(|index| text.lines().nth(index));
        match line {
            Some(line) if column <= MAX_COLUMNS => {
                let line: String = line
                    .chars()
                    .take(MAX_COLUMNS)
                    .map(|letter| if letter.is_control() { ' ' } else { letter })
                    .collect();
                let digits = number.to_string().len().max(4);
                let blanks = column.saturating_sub(1);
                format!(
                    "\n  {number:>digits$} | {line}\n  {:digits$} | {:blanks$}^",
                    "", ""
                )
            }
            _ => String::new(),
        }
    }
}
