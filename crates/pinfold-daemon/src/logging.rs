//! Logging of the daemons: one line per `tracing` event, as `key=value` pairs or as JSON.
//!
//! ```text
//! time=2026-01-31T13:37:00.250Z level=info target=pinfold_agent::daemon message="pod admitted" pod=shop/web-0 cpus=2-3
//! {"time":"2026-01-31T13:37:00.250Z","level":"info","target":"pinfold_agent::daemon","message":"pod admitted",…}
//! ```
//!
//! # How to log
//! Call the macros of `tracing` with a fixed message and put everything that varies into fields, so that lines can be
//! counted and searched by their message:
//!
//! ```
//! # let (pod, error) = ("shop/web-0", "timed out");
//! tracing::warn!(%pod, %error, "binding failed");
//! ```
//!
//! - `error`: something does not work until a person acts. `warn`: something failed, and the daemon retries or goes on
//!   without it. `info`: normal operation, rare enough to keep. `debug`: one line per request.
//! - Different causes get different call sites: the rate limit below counts per call site.
//! - Credentials, tokens and the contents of Secrets are never fields.
//!
//! # What this module guarantees
//! - **One line per event.** Control characters, line separators and marks that change the direction of text are
//!   escaped, so no field can start a new line or another field, or send an escape sequence to a terminal.
//! - **Bounded lines.** A field is cut after 2000 characters.
//! - **Bounded rate.** A call site writes at most 20 lines in 10 seconds. Its first line after that has the field
//!   `suppressed`: how many were dropped.
//! - **Diagnostics of other crates.** `kube`, `tonic` and `h2` log through `tracing` too; their warnings and errors are
//!   written. See [`LogLevels`].

use std::io;
use std::str::FromStr;

use jiff::Timestamp;
use tracing::dispatcher::SetGlobalDefaultError;
use tracing_subscriber::layer::SubscriberExt as _;

mod layer;
mod levels;
mod line;
mod rate_limit;

pub use levels::{LogLevels, LogLevelsError};

use layer::LineLayer;

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value` pairs.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A log format that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected text or json")]
pub struct LogFormatError;

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(LogFormatError),
        }
    }
}

/// Writes all events of this process to standard error from now on. To be called once, at the start of `main`.
///
/// # Errors
/// If a subscriber was installed before.
pub fn init(format: LogFormat, levels: &LogLevels) -> Result<(), SetGlobalDefaultError> {
    let layer = LineLayer::new(format, io::stderr(), Timestamp::now);
    let subscriber = tracing_subscriber::registry()
        .with(levels.filter())
        .with(layer);
    tracing::subscriber::set_global_default(subscriber)
}

#[cfg(test)]
mod tests;
