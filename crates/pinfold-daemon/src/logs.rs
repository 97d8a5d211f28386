//! [`Log`]: what a daemon has to say, one line per event.
//!
//! ```text
//! time=2026-01-31T13:37:00.250Z level=info event="pod admitted" pod=shop/web-0 cpus=2-3
//! {"time":"2026-01-31T13:37:00.250Z","level":"info","event":"pod admitted","pod":"shop/web-0","cpus":"2-3"}
//! ```
//!
//! What happened is a fixed text, so that it can be counted and searched for; what is particular is in the fields.
//! Nothing that a field says can begin a new line or another field. An event that repeats itself is held back for a
//! while, and its next line says how often.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use pinfold_kube::Timestamp;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For those who look for a mistake.
    Debug,
    /// What happens on a good day.
    Info,
    /// Something is not as it should be, and the daemon goes on.
    Warn,
    /// Something does not work.
    Error,
}

impl Level {
    /// The word in a line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value`, for people and for most collectors.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// A detail of an event: its name and what it says.
pub type LogField<'a> = (&'a str, &'a dyn Display);

/// Where events are told. Clones tell to the same place.
#[derive(Clone)]
pub struct Log(Option<Arc<Teller>>);

struct Teller {
    format: LogFormat,
    least: Level,
    clock: fn() -> SystemTime,
    out: Mutex<Out>,
}

struct Out {
    sink: Box<dyn Write + Send>,
    /// Events told lately: when the first of a window was, how many since, and how many were held back.
    lately: BTreeMap<&'static str, Window>,
}

#[derive(Clone, Copy)]
struct Window {
    began: u64,
    told: u32,
    held_back: u64,
}

/// So many lines about one event in one window; the others are held back.
const MOST: u32 = 20;
/// How long a window is, in milliseconds.
const WINDOW: u64 = 10_000;
/// So many characters of one field; a line has an end.
const LONGEST: usize = 2000;

impl Log {
    /// To standard error, with the machine's clock.
    #[must_use]
    pub fn stderr(format: LogFormat, least: Level) -> Self {
        Self::to(Box::new(std::io::stderr()), format, least, SystemTime::now)
    }

    /// To `sink`, with a clock.
    #[must_use]
    pub fn to(
        sink: Box<dyn Write + Send>,
        format: LogFormat,
        least: Level,
        clock: fn() -> SystemTime,
    ) -> Self {
        let lately = BTreeMap::new();
        Self(Some(Arc::new(Teller {
            format,
            least,
            clock,
            out: Mutex::new(Out { sink, lately }),
        })))
    }

    /// To nobody.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Tells an event for those who look for a mistake.
    pub fn debug(&self, event: &'static str, fields: &[LogField<'_>]) {
        self.tell(Level::Debug, event, fields);
    }

    /// Tells an event of a good day.
    pub fn info(&self, event: &'static str, fields: &[LogField<'_>]) {
        self.tell(Level::Info, event, fields);
    }

    /// Tells that something is not as it should be.
    pub fn warn(&self, event: &'static str, fields: &[LogField<'_>]) {
        self.tell(Level::Warn, event, fields);
    }

    /// Tells that something does not work.
    pub fn error(&self, event: &'static str, fields: &[LogField<'_>]) {
        self.tell(Level::Error, event, fields);
    }

    /// Tells an event. A sink that does not take it is no reason to stop.
    pub fn tell(&self, level: Level, event: &'static str, fields: &[LogField<'_>]) {
        let Some(teller) = self.0.as_ref().filter(|teller| level >= teller.least) else {
            return;
        };
        let now = Timestamp::from((teller.clock)());
        let mut out = teller.out.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held_back) = out.may_tell(event, now) else {
            return;
        };
        let mut line = Line::new(teller.format);
        line.push("time", &now.rfc3339());
        line.push("level", &level.name());
        line.push("event", &event);
        for (name, value) in fields {
            line.push(name, value);
        }
        if held_back > 0 {
            line.push("heldBack", &held_back);
        }
        let _ = out.sink.write_all(line.end().as_bytes());
        let _ = out.sink.flush();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

impl Out {
    /// Whether the event may be told now: how many like it were held back before.
    fn may_tell(&mut self, event: &'static str, now: Timestamp) -> Option<u64> {
        let fresh = Window {
            began: now.0,
            told: 0,
            held_back: 0,
        };
        let window = self.lately.entry(event).or_insert(fresh);
        let mut before = 0;
        // A clock that was set back begins a new window too.
        if now.0.abs_diff(window.began) >= WINDOW {
            before = window.held_back;
            *window = fresh;
        }
        match window.told < MOST {
            true => {
                window.told += 1;
                Some(before)
            }
            false => {
                window.held_back = window.held_back.saturating_add(1);
                None
            }
        }
    }
}

/// A line being written.
struct Line {
    format: LogFormat,
    text: String,
}

impl Line {
    fn new(format: LogFormat) -> Self {
        let text = match format {
            LogFormat::Text => String::new(),
            LogFormat::Json => "{".to_owned(),
        };
        Self { format, text }
    }

    fn push(&mut self, name: &str, value: &dyn Display) {
        let value = value.to_string();
        let mut value: String = match value.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", value.get(..end).unwrap_or_default()),
            None => value,
        };
        if self.text.len() > 1 {
            self.text.push(match self.format {
                LogFormat::Text => ' ',
                LogFormat::Json => ',',
            });
        }
        match self.format {
            LogFormat::Text => {
                if value.is_empty() || !value.chars().all(is_plain) {
                    value = quoted(&value);
                }
                let _ = write!(self.text, "{name}={value}");
            }
            LogFormat::Json => {
                let _ = write!(self.text, "{}:{}", quoted(name), quoted(&value));
            }
        }
    }

    fn end(mut self) -> String {
        if self.format == LogFormat::Json {
            self.text.push('}');
        }
        self.text.push('\n');
        self.text
    }
}

/// Characters that need no quotes in a line of `key=value`.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./:@,+#%[]".contains(c)
}

/// A JSON string without control characters and line separators, whatever is in it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_unseen(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Controls, line separators, and marks that turn the direction of text: nothing of a log should depend on them.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests;
