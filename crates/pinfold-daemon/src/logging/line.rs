//! [`LogLine`]: one log line under construction, with its escaping and its limits.

use std::fmt::{self, Display, Write as _};

use super::LogFormat;

/// Characters of one field; the rest is cut.
pub(super) const LONGEST_FIELD: usize = 2000;

/// A log line under construction.
pub(super) struct LogLine {
    format: LogFormat,
    text: String,
}

impl LogLine {
    pub(super) fn new(format: LogFormat) -> Self {
        let text = match format {
            LogFormat::Text => String::new(),
            LogFormat::Json => "{".to_owned(),
        };
        Self { format, text }
    }

    /// Adds a field whose value is text.
    pub(super) fn push_text(&mut self, name: &str, value: &dyn Display) {
        let mut cut = Cut::default();
        // Fails where the value is cut.
        let _ = write!(cut, "{value}");
        let value = cut.text;
        self.push_name(name);
        let bare = !value.is_empty() && value.chars().all(needs_no_quotes);
        match self.format {
            LogFormat::Text if bare => self.text.push_str(&value),
            _ => push_quoted(&mut self.text, &value),
        }
    }

    /// Adds a field whose value is a finite number or a boolean, which both formats write without quotes.
    pub(super) fn push_number(&mut self, name: &str, value: &dyn Display) {
        self.push_name(name);
        let _ = write!(self.text, "{value}");
    }

    fn push_name(&mut self, name: &str) {
        match self.format {
            LogFormat::Text => {
                if !self.text.is_empty() {
                    self.text.push(' ');
                }
                self.text.push_str(name);
                self.text.push('=');
            }
            LogFormat::Json => {
                if self.text.len() > 1 {
                    self.text.push(',');
                }
                push_quoted(&mut self.text, name);
                self.text.push(':');
            }
        }
    }

    /// The whole line, with its line feed.
    pub(super) fn finish(mut self) -> String {
        if self.format == LogFormat::Json {
            self.text.push('}');
        }
        self.text.push('\n');
        self.text
    }
}

/// The beginning of a value; more than the longest field is not even formatted.
#[derive(Default)]
struct Cut {
    text: String,
    chars: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for c in more.chars() {
            if self.chars == LONGEST_FIELD {
                self.text.push('…');
                return Err(fmt::Error);
            }
            self.text.push(c);
            self.chars += 1;
        }
        Ok(())
    }
}

/// Characters that need no quotes as a value in `key=value`.
fn needs_no_quotes(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./:@,+#%[]".contains(c)
}

/// Appends a JSON string without control characters, line separators and invisible marks.
fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_invisible(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Control characters, line separators, and marks that change the direction of text.
pub(super) fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
